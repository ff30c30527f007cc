import pytest

from infra.local.parameters import choose_parameters, output_variables, setting_name
from shared.settings import Settings, load_settings


@pytest.mark.parametrize(
    ("parameter", "setting"),
    [
        ("StaleAfterMs", "stale_after_ms"),
        ("AwsEndpointUrl", "aws_endpoint_url"),
        ("Runtime", "runtime"),
    ],
)
def test_a_parameter_is_named_like_its_setting(parameter, setting):
    assert setting_name(parameter) == setting


def test_a_knob_of_the_environment_reaches_the_template():
    settings = load_settings("local_stack", {"BURSTCHAT_LEASE_MS": "900"})
    assert choose_parameters(["LeaseMs", "Runtime"], {}, settings, {}) == {"LeaseMs": "900"}


def test_given_values_win_over_settings_and_settings_over_the_file():
    chosen = choose_parameters(
        ["LeaseMs", "MaxTokens", "BurstMaximumConcurrency"],
        {"MaxTokens": "1", "BurstMaximumConcurrency": "2"},
        Settings(),
        {"LeaseMs": "7"},
    )
    assert chosen == {"LeaseMs": "7", "MaxTokens": "1024", "BurstMaximumConcurrency": "2"}


def test_outputs_become_the_variables_of_settings():
    assert output_variables(
        {"BurstQueueUrl": "http://q", "TurnsTable": "t", "KnowledgeRefresh": "f"}
    ) == {
        "BURSTCHAT_BURST_QUEUE_URL": "http://q",
        "BURSTCHAT_TURNS_TABLE": "t",
    }
