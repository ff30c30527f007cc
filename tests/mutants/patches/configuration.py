"""Settings and templates: numbers that must fit together."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SETTINGS = "shared/settings.py"
_SETTINGS_TEST = "tests/unit/shared/test_settings.py"
_REFUSES = f"{_SETTINGS_TEST}::test_load_settings_refuses_and_names_the_settings_at_fault"
_TEMPLATES = "tests/infra/test_templates.py"

MUTANTS = (
    Mutant(
        "STYLE",
        "a negative number is a setting",
        _SETTINGS,
        "if not 0 <= number < 2**53:",
        "if not number < 2**53:",
        _REFUSES,
    ),
    Mutant(
        "P8",
        "a lease may lapse between two renewals",
        _SETTINGS,
        "if settings.renew_interval_ms * 3 > turn.lease_ms:",
        "if False:",
        _REFUSES,
    ),
    Mutant(
        "B-17",
        "an owner's lease may lapse between two renewals",
        _SETTINGS,
        "if gateway.owner_renew_ms * 3 > gateway.owner_lease_ms:",
        "if False:",
        f"{_SETTINGS_TEST}::test_leases_outlast_two_missed_renewals",
    ),
    Mutant(
        "P10",
        "production may admit everyone",
        _SETTINGS,
        'if gateway.auth_mode == "dev" and settings.telemetry.environment != "local":',
        "if False:",
        _REFUSES,
    ),
    Mutant(
        "P10",
        "a short key signs tokens",
        _SETTINGS,
        "if len(gateway.jwt_secret.encode()) < 32:",
        "if False:",
        _REFUSES,
    ),
    Mutant(
        "P7",
        "the stale rule may outlast the first text",
        _SETTINGS,
        '        ("stale_after_ms", turn.stale_after_ms, "first_text_limit_ms", '
        "turn.first_text_limit_ms),\n",
        "",
        _REFUSES,
    ),
    Mutant(
        "B-25",
        "the heartbeat is as slow as a balancer's idle timer",
        _SETTINGS,
        "heartbeat_ms: int = _setting(25_000,",
        "heartbeat_ms: int = _setting(60_000,",
        f"{_SETTINGS_TEST}::test_our_heartbeats_are_under_half_of_every_idle_timer_on_the_way",
    ),
    Mutant(
        "B-03",
        "a message comes back while its function works",
        "infra/templates/queues.yaml",
        "    Default: 450\n    MaxValue: 43200\n"
        "    Description: At least six times the function timeout\n  BurstRetentionS:",
        "    Default: 90\n    MaxValue: 43200\n"
        "    Description: At least six times the function timeout\n  BurstRetentionS:",
        f"{_TEMPLATES}::test_visibility_is_six_function_timeouts",
    ),
    Mutant(
        "B-04",
        "the trigger does not read reported failures",
        "infra/templates/functions.yaml",
        "      MaximumBatchingWindowInSeconds: !Ref BurstBatchWindowS\n"
        "      FunctionResponseTypes: [ReportBatchItemFailures]\n",
        "      MaximumBatchingWindowInSeconds: !Ref BurstBatchWindowS\n",
        f"{_TEMPLATES}::test_triggers_report_single_failures_and_call_the_alias",
    ),
    Mutant(
        "P9",
        "messages expire before they are dead letters",
        "infra/templates/queues.yaml",
        "  BurstRetentionS:\n    Type: Number\n    Default: 3600\n",
        "  BurstRetentionS:\n    Type: Number\n    Default: 60\n",
        f"{_TEMPLATES}::test_a_failing_message_reaches_the_dead_letter_queue_before_it_expires",
    ),
)
