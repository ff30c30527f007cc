import pytest

from infra.local.credentials import Credentials
from infra.local.environment import (
    calls_real_model,
    emulator_environment,
    process_environment,
    service_environment,
)
from infra.local.plan import plan_stack
from shared.settings import LocalStackSettings, load_settings

CREDENTIALS = Credentials(
    push_access_key_id="id", push_secret_access_key="secret", jwt_secret="j" * 32
)
PLAN = plan_stack(LocalStackSettings(gateways=2, orchestrators=2), has_model_server=True)


def test_the_local_defaults_are_valid_settings():
    environment = service_environment({}, PLAN, CREDENTIALS)
    settings = load_settings("local_stack", environment)
    assert settings.orchestrator.inline_slots == 8
    assert settings.gateway.user_turns_per_min == 0
    assert settings.gateway.auth_mode == "dev"
    assert settings.gateway.intake_urls == ("http://127.0.0.1:8082", "http://127.0.0.1:8092")


def test_tokens_of_the_model_server_are_not_limited_but_those_of_a_real_provider_are():
    real = plan_stack(LocalStackSettings(), has_model_server=False)
    for plan, limit in ((PLAN, 0), (real, 2_000_000)):
        settings = load_settings("local_stack", service_environment({}, plan, CREDENTIALS))
        assert settings.model.model_tokens_per_min == limit


def test_what_the_person_set_wins_over_local_defaults():
    person = {"BURSTCHAT_INLINE_SLOTS": "3", "BURSTCHAT_LEASE_MS": "900", "PATH": "/bin"}
    environment = service_environment(person, PLAN, CREDENTIALS)
    assert environment["BURSTCHAT_INLINE_SLOTS"] == "3"
    assert environment["BURSTCHAT_LEASE_MS"] == "900"
    assert environment["PATH"] == "/bin"


def test_an_account_of_the_person_is_never_reached_by_accident():
    person = {"AWS_PROFILE": "work", "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SESSION_TOKEN": "t"}
    environment = service_environment(person, PLAN, CREDENTIALS)
    assert "AWS_PROFILE" not in environment
    assert environment["AWS_ACCESS_KEY_ID"] == "local"
    bedrock = {**person, "BURSTCHAT_MODEL_PROVIDER": "bedrock"}
    assert service_environment(bedrock, PLAN, CREDENTIALS)["AWS_ACCESS_KEY_ID"] == "AKIA"


@pytest.mark.parametrize(
    ("person", "real"),
    [
        ({}, False),
        ({"ANTHROPIC_API_KEY": ""}, False),
        ({"ANTHROPIC_API_KEY": "sk"}, True),
        ({"BURSTCHAT_MODEL_PROVIDER": "bedrock"}, True),
        ({"BURSTCHAT_MODEL_BASE_URL": "http://elsewhere"}, True),
    ],
)
def test_a_key_takes_the_model_servers_place(person, real):
    assert calls_real_model(person) is real


def test_a_real_key_is_not_overwritten():
    plan = plan_stack(LocalStackSettings(), has_model_server=False)
    environment = service_environment({"ANTHROPIC_API_KEY": "sk"}, plan, CREDENTIALS)
    assert environment["ANTHROPIC_API_KEY"] == "sk"
    assert "BURSTCHAT_MODEL_BASE_URL" not in environment


def test_each_service_gets_its_own_ports():
    gateway, orchestrator = PLAN.gateways[1], PLAN.orchestrators[1]
    assert process_environment({}, gateway) == {
        "BURSTCHAT_PUBLIC_PORT": "8090",
        "BURSTCHAT_PRIVATE_PORT": "8091",
    }
    assert process_environment({}, orchestrator) == {"BURSTCHAT_INTAKE_PORT": "8092"}
    assert process_environment({}, PLAN.queue_runner) == {"BURSTCHAT_QUEUE_RUNNER_PORT": "8086"}


def test_the_emulator_inherits_an_allow_list_only():
    person = {"PATH": "/bin", "ANTHROPIC_API_KEY": "sk", "BURSTCHAT_JWT_SECRET": "s", "HOME": "/h"}
    environment = emulator_environment(person, PLAN.aws_emulator, "/scratch")
    assert "ANTHROPIC_API_KEY" not in environment
    assert not [name for name in environment if name.startswith("BURSTCHAT_")]
    assert environment["PATH"] == "/bin"
    assert environment["BIND_HOST"] == "127.0.0.1"
    assert environment["TMPDIR"] == "/scratch"
