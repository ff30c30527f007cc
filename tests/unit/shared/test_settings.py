"""Settings are typed, validated together, and every fault names its variable."""

from __future__ import annotations

import pytest

from shared.contracts.identifiers import (
    ConnectionId,
    MessageId,
    SessionId,
    TenantId,
    TurnId,
    UserId,
)
from shared.contracts.turns import MESSAGE_LIMIT_BYTES, TurnRequest, encode_turn
from shared.errors import ConfigurationError
from shared.settings import Role, load_settings, unknown_variables

GATEWAY = {
    "BURSTCHAT_REDIS_URL": "redis://localhost:1/0",
    "BURSTCHAT_BURST_QUEUE_URL": "http://localhost/q",
    "BURSTCHAT_RETRY_QUEUE_URL": "http://localhost/r",
    "BURSTCHAT_DEFERRED_QUEUE_URL": "http://localhost/n",
    "BURSTCHAT_BACKGROUND_QUEUE_URL": "http://localhost/l",
    "BURSTCHAT_BURST_DLQ_URL": "http://localhost/d",
    "BURSTCHAT_DEFERRED_DLQ_URL": "http://localhost/nd",
    "BURSTCHAT_BACKGROUND_DLQ_URL": "http://localhost/ld",
    "BURSTCHAT_TURNS_TABLE": "turns",
    "BURSTCHAT_PUSH_ACCESS_KEY_ID": "k",
    "BURSTCHAT_PUSH_SECRET_ACCESS_KEY": "s",
    "BURSTCHAT_INTAKE_URLS": "http://a:1, http://b:2",
    "BURSTCHAT_JWT_SECRET": "x" * 32,
}


def test_load_settings_reads_types_units_and_lists() -> None:
    settings = load_settings(
        "gateway",
        GATEWAY | {"BURSTCHAT_READER_GRACE_MS": "2500", "BURSTCHAT_CPU_HIGH_SHARE": "0.9"},
    )
    assert settings.turn.reader_grace_ms == 2500
    assert settings.orchestrator.cpu_high_share == 0.9
    assert settings.gateway.intake_urls == ("http://a:1", "http://b:2")


def test_load_settings_names_every_missing_setting_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings("gateway", {})
    for name in GATEWAY:
        if name != "BURSTCHAT_JWT_SECRET":
            assert name in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"BURSTCHAT_STALE_AFTER_MS": "soon"}, ["BURSTCHAT_STALE_AFTER_MS"]),
        ({"BURSTCHAT_STALE_AFTER_MS": "-1"}, ["BURSTCHAT_STALE_AFTER_MS"]),
        ({"BURSTCHAT_AUTH_MODE": "none"}, ["BURSTCHAT_AUTH_MODE", "dev, jwt"]),
        (
            {"BURSTCHAT_STALE_AFTER_MS": "60000"},
            ["BURSTCHAT_STALE_AFTER_MS", "BURSTCHAT_FIRST_TEXT_LIMIT_MS"],
        ),
        (
            {"BURSTCHAT_RENEW_INTERVAL_MS": "2000"},
            ["BURSTCHAT_RENEW_INTERVAL_MS", "BURSTCHAT_LEASE_MS"],
        ),
        (
            {"BURSTCHAT_HISTORY_TOKENS": "24000"},
            ["BURSTCHAT_HISTORY_TOKENS", "BURSTCHAT_PROMPT_TOKENS"],
        ),
        ({"BURSTCHAT_JWT_SECRET": "short"}, ["BURSTCHAT_JWT_SECRET"]),
        (
            {"BURSTCHAT_AUTH_MODE": "dev", "BURSTCHAT_ENVIRONMENT": "production"},
            ["BURSTCHAT_AUTH_MODE", "BURSTCHAT_ENVIRONMENT"],
        ),
    ],
)
def test_load_settings_refuses_and_names_the_settings_at_fault(
    changes: dict[str, str], named: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings("gateway", GATEWAY | changes)
    for name in named:
        assert name in str(caught.value)


@pytest.mark.case("B-25")
def test_our_heartbeats_are_under_half_of_every_idle_timer_on_the_way() -> None:
    gateway = load_settings("gateway", GATEWAY).gateway
    # Load balancers' default, and what common reverse proxies do: 60 s.
    for idle_limit_ms in (60_000, gateway.idle_close_ms):
        assert gateway.heartbeat_ms * 2 < idle_limit_ms


@pytest.mark.case("B-17")
def test_leases_outlast_two_missed_renewals() -> None:
    settings = load_settings("gateway", GATEWAY)
    assert settings.gateway.owner_renew_ms * 3 <= settings.gateway.owner_lease_ms
    with pytest.raises(ConfigurationError, match="OWNER_RENEW_MS"):
        load_settings("gateway", GATEWAY | {"BURSTCHAT_OWNER_RENEW_MS": "2000"})


def test_renewal_follows_the_lease_when_not_set() -> None:
    assert (
        load_settings("gateway", GATEWAY | {"BURSTCHAT_LEASE_MS": "900"}).renew_interval_ms == 300
    )


def test_worker_needs_a_key_or_another_model_address() -> None:
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        load_settings(
            "orchestrator",
            GATEWAY | {"BURSTCHAT_KNOWLEDGE_BUCKET": "b"},
        )


@pytest.mark.parametrize("role", ["gateway", "orchestrator", "queue_runner"])
def test_who_sweeps_must_reach_the_queues_of_every_priority_and_their_dead_letters(
    role: Role,
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(role, {})
    for queue in ("BURST", "DEFERRED", "BACKGROUND"):
        assert f"BURSTCHAT_{queue}_QUEUE_URL is missing" in str(caught.value)
        assert f"BURSTCHAT_{queue}_DLQ_URL is missing" in str(caught.value)


def test_the_longest_message_that_the_door_lets_in_fits_into_a_queue_message() -> None:
    gateway = load_settings("gateway", GATEWAY).gateway
    longest = TurnRequest(
        turn_id=TurnId("s" * 64 + "." + "0" * 26),
        session_id=SessionId("s" * 64),
        message_id=MessageId("m" * 64),
        tenant=TenantId("\N{SAUROPOD}" * 128),
        user=UserId("\N{SAUROPOD}" * 128),
        text="\x01" * (gateway.inbound_frame_bytes // 6),
        metadata={"k": "x" * (gateway.metadata_bytes - 8)},
        connection_id=ConnectionId("c" * 64),
        accepted_at_ms=2**52,
        ready_at_ms=2**52,
        enqueued_at_ms=2**52,
        limit_at_ms=2**52,
        trace="t" * 200,
        reason="r" * 40,
    )
    size_bytes = len(encode_turn(longest))
    assert size_bytes <= gateway.inbound_frame_bytes + gateway.metadata_bytes + 4_096
    assert size_bytes <= MESSAGE_LIMIT_BYTES


def test_a_door_that_a_long_message_fits_through_is_told_to_be_smaller() -> None:
    wide = {"BURSTCHAT_INBOUND_FRAME_BYTES": "131072"}
    # Its text is bounded by `message_bytes` alone, and every character may take an escape.
    with pytest.raises(
        ConfigurationError, match=r"INBOUND_FRAME_BYTES .* or BURSTCHAT_MESSAGE_BYTES"
    ):
        load_settings("gateway", GATEWAY | wide)
    assert load_settings("gateway", GATEWAY | wide | {"BURSTCHAT_MESSAGE_BYTES": "8192"})
    with pytest.raises(ConfigurationError, match="METADATA_BYTES"):
        load_settings("gateway", GATEWAY | {"BURSTCHAT_METADATA_BYTES": "32768"})
    with pytest.raises(ConfigurationError, match=r"MESSAGE_BYTES .* must be below"):
        load_settings("gateway", GATEWAY | {"BURSTCHAT_MESSAGE_BYTES": "32768"})


def test_unknown_variables_are_named_with_the_nearest_setting() -> None:
    assert unknown_variables({"BURSTCHAT_STAL_AFTER_MS": "1", "HOME": "x"}) == {
        "BURSTCHAT_STAL_AFTER_MS": "BURSTCHAT_STALE_AFTER_MS"
    }


QUEUE_RUNNER = GATEWAY | {
    "BURSTCHAT_KNOWLEDGE_BUCKET": "b",
    "BURSTCHAT_MODEL_BASE_URL": "http://localhost/m",
}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"BURSTCHAT_QUEUE_EXTEND_S": "61"}, ["QUEUE_EXTEND_S", "QUEUE_VISIBILITY_S"]),
        ({"BURSTCHAT_QUEUE_POLL_S": "21"}, ["QUEUE_POLL_S"]),
        ({"BURSTCHAT_QUEUE_POLL_S": "0"}, ["QUEUE_POLL_S"]),
        ({"BURSTCHAT_QUEUE_RUNNER_DRAIN_MS": "20000"}, ["QUEUE_POLL_S", "QUEUE_RUNNER_DRAIN_MS"]),
        ({"BURSTCHAT_QUEUE_SLOTS": "0"}, ["QUEUE_SLOTS"]),
        ({"BURSTCHAT_QUEUE_CONSUMERS": "0"}, ["QUEUE_CONSUMERS"]),
        ({"BURSTCHAT_BURST_CONSUMER": "ecs"}, ["RETRY_DLQ_URL", "BURST_CONSUMER=ecs"]),
        ({"BURSTCHAT_BURST_CONSUMER": "fargate"}, ["BURST_CONSUMER", "lambda, ecs"]),
    ],
)
def test_the_queue_runner_refuses_what_its_queues_would(
    changes: dict[str, str], named: list[str]
) -> None:
    assert load_settings("queue_runner", QUEUE_RUNNER).queue_runner.burst_consumer == "lambda"
    with pytest.raises(ConfigurationError) as caught:
        load_settings("queue_runner", QUEUE_RUNNER | changes)
    for name in named:
        assert name in str(caught.value)


def test_many_settings_may_stand_in_one_variable_and_a_variable_of_its_own_wins() -> None:
    environ = {
        "BURSTCHAT_SETTINGS": "LEASE_MS=6000  HISTORY_TURNS=7\nINTENT_CONFIDENCE_FLOOR=0.5",
        "BURSTCHAT_HISTORY_TURNS": "9",
    }
    turn = load_settings("local_stack", environ).turn
    assert (turn.lease_ms, turn.history_turns, turn.intent_confidence_floor) == (6_000, 9, 0.5)


def test_a_name_that_is_none_is_found_among_packed_ones_too() -> None:
    assert unknown_variables({"BURSTCHAT_SETTINGS": "LEASEMS=1 LEASE_MS=2"}) == {
        "BURSTCHAT_LEASEMS": "BURSTCHAT_LEASE_MS"
    }


def test_a_search_service_without_address_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="BURSTCHAT_OPENSEARCH_URL is missing"):
        load_settings("local_stack", {"BURSTCHAT_RETRIEVER": "opensearch"})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"BURSTCHAT_GUARDRAIL_PROVIDER": "bedrock"}, "BURSTCHAT_GUARDRAIL_ID is missing"),
        (
            {"BURSTCHAT_GUARDRAIL_PROVIDER": "bedrock", "BURSTCHAT_GUARDRAIL_ID": "g"},
            "BURSTCHAT_GUARDRAIL_VERSION is missing",
        ),
        (
            {"BURSTCHAT_GUARDRAIL_REVIEW_CHARACTERS": "0"},
            "BURSTCHAT_GUARDRAIL_REVIEW_CHARACTERS must be 1 or more",
        ),
    ],
)
def test_a_guardrail_that_cannot_judge_is_refused_at_start(
    changes: dict[str, str], named: str
) -> None:
    worker = GATEWAY | {
        "BURSTCHAT_KNOWLEDGE_BUCKET": "k",
        "BURSTCHAT_RETRY_DLQ_URL": "http://localhost/rd",
        "BURSTCHAT_MODEL_BASE_URL": "http://localhost:1",
    }
    load_settings("orchestrator", worker)
    with pytest.raises(ConfigurationError, match=named):
        load_settings("orchestrator", worker | changes)


@pytest.mark.parametrize(
    ("provider", "model_id", "is_fit"),
    [
        ("anthropic", "claude-sonnet-5", True),
        ("anthropic", "eu.anthropic.claude-sonnet-5", False),
        ("bedrock", "claude-sonnet-5", False),
        ("bedrock", "anthropic.claude-sonnet-5", True),
        ("bedrock", "arn:aws:bedrock:eu-west-1:1:inference-profile/x", True),
    ],
)
def test_a_model_id_of_the_other_provider_is_refused_by_name(
    provider: str, model_id: str, is_fit: bool
) -> None:
    environ = GATEWAY | {
        "BURSTCHAT_RETRY_DLQ_URL": "http://localhost/rd",
        "BURSTCHAT_KNOWLEDGE_BUCKET": "b",
        "ANTHROPIC_API_KEY": "k",
        "BURSTCHAT_MODEL_PROVIDER": provider,
        "BURSTCHAT_MODEL_PRIMARY": model_id,
        "BURSTCHAT_MODEL_FAST": model_id,
    }
    if is_fit:
        assert load_settings("burst_worker", environ).model.model_fast == model_id
        return
    with pytest.raises(ConfigurationError, match=r"BURSTCHAT_MODEL_PRIMARY.*BURSTCHAT_MODEL_FAST"):
        load_settings("burst_worker", environ)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, "BURSTCHAT_SAGEMAKER_ENDPOINT is missing"),
        (
            {"BURSTCHAT_SAGEMAKER_ENDPOINT": "e", "BURSTCHAT_SAGEMAKER_TIMEOUT_MS": "300"},
            r"BURSTCHAT_SAGEMAKER_TIMEOUT_MS \(300\) must be less than BURSTCHAT_SOURCE_TIMEOUT_MS",
        ),
    ],
)
def test_an_intent_endpoint_without_a_name_or_with_too_much_time_is_refused_at_start(
    changes: dict[str, str], named: str
) -> None:
    environ = GATEWAY | {
        "BURSTCHAT_RETRY_DLQ_URL": "http://localhost/rd",
        "BURSTCHAT_KNOWLEDGE_BUCKET": "b",
        "ANTHROPIC_API_KEY": "k",
        "BURSTCHAT_INTENT_CLASSIFIER": "sagemaker",
    }
    with pytest.raises(ConfigurationError, match=named):
        load_settings("burst_worker", environ | changes)
