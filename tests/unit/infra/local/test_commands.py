from infra.local.commands import model_server_command
from infra.local.plan import plan_stack
from shared.settings import LocalStackSettings


def test_a_pace_below_one_token_per_second_reaches_the_model_server():
    local = LocalStackSettings(model_tokens_per_s=0.5)
    plan = plan_stack(local, has_model_server=True)
    assert plan.model_server is not None
    command = model_server_command(plan.model_server, local)
    assert command[command.index("--tokens-per-s") + 1] == "0.5"
