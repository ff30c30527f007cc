"""Every setting of burstchat, typed, with its unit in its name; the one door to the environment.

A setting `reader_grace_ms` is read from `BURSTCHAT_READER_GRACE_MS`; where variables are dear, `BURSTCHAT_SETTINGS`
may hold many, as `READER_GRACE_MS=15000 LEASE_MS=3000`. A variable of its own wins. `docs/settings.md` is generated
from these types. `load_settings` validates all of them together and raises ConfigurationError naming every setting at
fault.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from shared.contracts.turns import MESSAGE_LIMIT_BYTES
from shared.errors import ConfigurationError

PREFIX = "BURSTCHAT_"
PACKED = "BURSTCHAT_SETTINGS"
Role = Literal[
    "gateway",
    "orchestrator",
    "queue_runner",
    "burst_worker",
    "knowledge_refresh",
    "dlq_triage",
    "backlog_metric",
    "operator",
    "local_stack",
]
_WORKERS = ("orchestrator", "queue_runner", "burst_worker")
_ON_REDIS = ("gateway", *_WORKERS)
# Who sweeps: they end and dead-letter turns of every queue.
_SWEEPERS = ("gateway", "orchestrator", "queue_runner")
# `operator` is a person with the `burstchat dlq` commands.
_ON_DEAD_TURNS = ("dlq_triage", "operator")
_ESCAPE_BYTES = 6  # `\u0001`
_ENVELOPE_BYTES = 4_096
"""More than everything of a queue message but text and metadata: names of 128 characters, ids, times."""


def _setting(
    default: Any,
    doc: str,
    *,
    required_by: tuple[str, ...] = (),
    secret: bool = False,
    env: str | None = None,
) -> Any:
    """A dataclass field; `env` names the variable when it is not the prefix and the field's name."""
    return field(
        default=default,
        metadata={"doc": doc, "required_by": required_by, "secret": secret, "env": env},
    )


@dataclass(frozen=True, kw_only=True)
class TurnSettings:
    """Limits of a turn's life. Clocks start at `ready_at_ms`."""

    stale_after_ms: int = _setting(45_000, "an unclaimed turn older than this ends `expired`")
    first_text_limit_ms: int = _setting(60_000, "from ready to the first text")
    late_attempt_min_ms: int = _setting(
        20_000, "a later attempt has at least this to its first text"
    )
    unclaimed_limit_ms: int = _setting(
        45_000, "an unclaimed takeover or due retry ends `failed` after this"
    )
    generation_limit_ms: int = _setting(45_000, "per attempt, from the model request")
    predecessor_wait_limit_ms: int = _setting(
        180_000, "longest wait behind earlier turns of the session"
    )
    normal_limit_ms: int = _setting(
        3_600_000, "a turn of normal priority that has no answer by then ends"
    )
    low_limit_ms: int = _setting(86_400_000, "the same of low priority")
    waiting_turns_per_session: int = _setting(3, "more are refused as `busy`")
    max_tokens: int = _setting(1_024, "longest reply asked of the model")
    attempts_per_turn: int = _setting(3, "model calls cost money")
    crashes_per_turn: int = _setting(2, "after so many crashed attempts the turn is poison")
    retry_backoff_ms: int = _setting(
        1_000, "first back-off of a transient failure, doubled, full jitter"
    )
    retry_in_process_limit_ms: int = _setting(
        4_000, "a longer wait leaves the Lambda for the retry queue"
    )
    lease_ms: int = _setting(3_000, "how long a claim holds without renewal")
    renew_interval_ms: int = _setting(0, "time between renewals; 0 = a third of `lease_ms`")
    sweep_interval_ms: int = _setting(500, "time between looks at the due index")
    reservation_ms: int = _setting(5_000, "a dispatch keeps other sweepers away this long")
    reader_grace_ms: int = _setting(15_000, "a turn without a live follower goes on this long")
    followers_per_turn: int = _setting(5, "one more replaces the oldest")
    log_kept_ms: int = _setting(900_000, "frames stay readable this long after the end")
    outcome_kept_ms: int = _setting(
        86_400_000, "outcomes and message ids are known this long after"
    )
    stored_turn_days: int = _setting(90, "time to live of stored turns")
    history_turns: int = _setting(20, "newest turns in the prompt")
    history_tokens: int = _setting(6_000, "bound of the history in the prompt")
    history_cached_ms: int = _setting(3_600_000, "the history window stays in Redis this long")
    prompt_tokens: int = _setting(24_000, "bound of the whole prompt, by estimate")
    passages_per_prompt: int = _setting(5, "retrieved passages given to the model")
    passage_score_floor: float = _setting(
        0.2, "passages of a lower score are no sources; the retriever's own scale"
    )
    source_timeout_ms: int = _setting(300, "each fan-out source has this long")
    intent_confidence_floor: float = _setting(
        0.0, "below it the intent is `general`, whatever floor the index itself carries"
    )
    flush_tick_ms: int = _setting(40, "frames are cut at most this often per turn")
    flush_tick_max_ms: int = _setting(500, "the tick stretches to this with the loop's own lag")


@dataclass(frozen=True, kw_only=True)
class RedisSettings:
    """The ledger, log and registry."""

    redis_url: str = _setting(
        "",
        "address of Valkey or Redis, `redis://host:port/0`",
        required_by=(*_ON_REDIS, *_ON_DEAD_TURNS, "backlog_metric"),
        secret=True,
    )
    redis_timeout_ms: int = _setting(500, "deadline of one call")
    redis_connections: int = _setting(16, "connections per process; callers wait for one")


@dataclass(frozen=True, kw_only=True)
class AwsSettings:
    """Queues, tables and buckets, as the CloudFormation stacks output them."""

    aws_region: str = _setting("us-east-1", "region of every AWS client")
    aws_endpoint_url: str = _setting("", "endpoint of an AWS emulator; empty = AWS itself")
    burst_queue_url: str = _setting(
        "", "overflow queue", required_by=(*_ON_REDIS, "dlq_triage", "backlog_metric")
    )
    retry_queue_url: str = _setting(
        "", "takeovers and delayed retries", required_by=(*_ON_REDIS, "backlog_metric")
    )
    deferred_queue_url: str = _setting(
        "", "normal priority queue", required_by=(*_ON_REDIS, "dlq_triage", "backlog_metric")
    )
    background_queue_url: str = _setting(
        "", "low priority queue", required_by=(*_ON_REDIS, *_ON_DEAD_TURNS, "backlog_metric")
    )
    burst_dlq_url: str = _setting(
        "", "dead letters of burst and inline turns", required_by=(*_ON_REDIS, "dlq_triage")
    )
    retry_dlq_url: str = _setting(
        "", "dead letters of retries", required_by=("burst_worker", "dlq_triage")
    )
    deferred_dlq_url: str = _setting(
        "", "dead letters of normal priority", required_by=(*_SWEEPERS, "dlq_triage")
    )
    background_dlq_url: str = _setting(
        "", "dead letters of low priority", required_by=(*_SWEEPERS, "dlq_triage")
    )
    turns_table: str = _setting("", "stored turns", required_by=(*_ON_REDIS, *_ON_DEAD_TURNS))
    dead_turns_table: str = _setting("", "triaged dead letters", required_by=_ON_DEAD_TURNS)
    knowledge_bucket: str = _setting(
        "", "documents and index", required_by=(*_WORKERS, "knowledge_refresh")
    )
    orders_prefix: str = _setting(
        "orders/", "users' orders in the knowledge bucket, below it as `<tenant>/<user>.json`"
    )
    sqs_timeout_ms: int = _setting(2_000, "deadline of one SQS request")
    dynamodb_timeout_ms: int = _setting(2_000, "deadline of one DynamoDB request")
    index_poll_ms: int = _setting(30_000, "how often the index's ETag is compared")
    ecs_cluster: str = _setting("", "cluster of the services; used with `queue_runner_service`")
    queue_runner_service: str = _setting(
        "", "ECS service whose running tasks the backlog is divided by; empty = one process"
    )
    signals_timeout_ms: int = _setting(5_000, "deadline of one request for a scaling signal")


@dataclass(frozen=True, kw_only=True)
class PushSettings:
    """The Management API, and the credential that also signs `POST /turns`."""

    push_access_key_id: str = _setting(
        "", "signs pushes and intake requests", required_by=(*_ON_REDIS, "dlq_triage")
    )
    push_secret_access_key: str = _setting(
        "", "secret of that key", required_by=(*_ON_REDIS, "dlq_triage"), secret=True
    )
    push_region: str = _setting("us-east-1", "region in the signature")
    push_timeout_ms: int = _setting(2_000, "deadline of one push request")
    push_requests_per_endpoint: int = _setting(8, "requests in flight per gateway task")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The language model."""

    model_provider: Literal["anthropic", "bedrock"] = _setting("anthropic", "who answers")
    model_base_url: str = _setting(
        "", "another address of the Messages API; empty = the provider's"
    )
    model_api_key: str = _setting(
        "", "key of the Anthropic API", secret=True, env="ANTHROPIC_API_KEY"
    )
    model_primary: str = _setting("claude-sonnet-5", "model id")
    model_fast: str = _setting("claude-haiku-4-5", "model id used under load")
    model_first_event_timeout_ms: int = _setting(20_000, "from the request to the first event")
    model_silence_timeout_ms: int = _setting(15_000, "between events; pings count as life")
    model_requests_per_min: int = _setting(
        4_000, "the account's quota, shared by all processes and both models; 0 = off"
    )
    model_tokens_per_min: int = _setting(
        2_000_000, "input and output together, shared likewise; 0 = off"
    )


@dataclass(frozen=True, kw_only=True)
class IntentSettings:
    """Who judges what a user wants."""

    intent_classifier: Literal["index", "sagemaker"] = _setting(
        "index", "`index` = the model in the knowledge index; it also stands in for `sagemaker`"
    )
    sagemaker_endpoint: str = _setting("", "name of the SageMaker endpoint")
    sagemaker_base_url: str = _setting(
        "", "another address of InvokeEndpoint; empty = SageMaker's in `aws_region`"
    )
    sagemaker_timeout_ms: int = _setting(200, "deadline of one InvokeEndpoint request")
    sagemaker_rest_ms: int = _setting(
        5_000, "after a failure the endpoint is left alone this long, and the index judges"
    )


@dataclass(frozen=True, kw_only=True)
class RetrievalSettings:
    """Who finds passages."""

    retriever: Literal["index", "opensearch"] = _setting(
        "index",
        "`index` = in the worker's own memory; with `opensearch` the refresh copies it there",
    )
    opensearch_url: str = _setting("", "address of the OpenSearch domain, `https://host`")
    opensearch_index: str = _setting("burstchat-passages", "alias of the index that is searched")
    opensearch_timeout_ms: int = _setting(300, "deadline of one search")
    opensearch_write_timeout_ms: int = _setting(10_000, "deadline of one request of the refresh")


@dataclass(frozen=True, kw_only=True)
class GuardrailSettings:
    """What is kept from the model and from readers."""

    pii_masking: Literal["on", "off"] = _setting(
        "on", "mask card numbers, bank accounts, e-mail addresses and phone numbers in messages"
    )
    guardrail_provider: Literal["local", "bedrock"] = _setting(
        "local", "who judges messages and replies; the local rules for replies hold in either case"
    )
    guardrail_id: str = _setting("", "Bedrock guardrail, id or ARN")
    guardrail_version: str = _setting("", "its version, a number; DRAFT changes under your feet")
    guardrail_base_url: str = _setting(
        "", "another address of ApplyGuardrail; empty = Bedrock's in `aws_region`"
    )
    guardrail_timeout_ms: int = _setting(500, "deadline of one ApplyGuardrail request")
    guardrail_on_failure: Literal["closed", "open"] = _setting(
        "closed", "when nobody can judge: `closed` = nothing unjudged goes on, `open` = it does"
    )
    guardrail_review_characters: int = _setting(
        1_000, "a reply is judged each time so much more of it was shown, and at its end"
    )


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """Sockets, identity and limits at the door."""

    public_port: int = _setting(8080, "`/ws`, `/v1`, pages, health")
    private_port: int = _setting(8081, "Management API")
    bind_host: str = _setting("127.0.0.1", "address that the ports listen on")
    private_endpoint: str = _setting(
        "", "this task's Management API address for others; empty = bind_host and private_port"
    )
    intake_urls: tuple[str, ...] = _setting(
        (), "orchestrator addresses, comma separated", required_by=("gateway",)
    )
    intake_timeout_ms: int = _setting(500, "then the gateway enqueues itself")
    auth_mode: Literal["dev", "jwt"] = _setting("jwt", "`dev` admits the anonymous user `dev`")
    jwt_secret: str = _setting("", "HS256 key of the tokens", secret=True)
    jwt_audience: str = _setting("burstchat", "`aud` that tokens must carry")
    jwt_issuer: str = _setting("burstchat", "`iss` that tokens must carry")
    token_lifetime_ms: int = _setting(3_600_000, "of tokens from `POST /v1/tokens`")
    allowed_origins: tuple[str, ...] = _setting(
        (), "browser origins, comma separated; empty = the page's own origin"
    )
    trusted_proxies: int = _setting(
        0, "proxies in front that append to X-Forwarded-For; 0 = the socket's own address"
    )
    assistant_file: str = _setting("", "JSON shown by the page: name, greeting, suggestions")
    heartbeat_ms: int = _setting(25_000, "WebSocket pings; under half of every idle timer")
    idle_close_ms: int = _setting(300_000, "without user activity the socket closes with 4408")
    max_age_ms: int = _setting(6_600_000, "a socket is renewed after this, never in mid-answer")
    outbox_bytes: int = _setting(262_144, "per connection; half full answers 429")
    outbox_stuck_ms: int = _setting(10_000, "a reader that stands still this long is closed 4409")
    inbound_frame_bytes: int = _setting(32_768, "larger frames close with 1009")
    message_bytes: int = _setting(16_384, "longest user message, UTF-8")
    metadata_bytes: int = _setting(1_024, "longest `metadata`")
    http_body_bytes: int = _setting(65_536, "longest request body")
    history_page_bytes: int = _setting(98_304, "a `chat.history` page ends here")
    protocol_errors_per_min: int = _setting(20, "more close the socket with 4400")
    reply_wait_limit_ms: int = _setting(
        25_000, "a synchronous call waits this long, then 504; under every proxy's own limit"
    )
    event_comment_ms: int = _setting(15_000, "an event stream without events sends a comment")
    virtual_connections: int = _setting(
        2_000, "HTTP calls per process that wait for a reply; more are refused"
    )
    user_frames_per_s: int = _setting(30, "frames per connection; 0 = off")
    user_turns_per_min: int = _setting(20, "interactive turns; 0 = off")
    user_connections: int = _setting(10, "open sockets; 0 = off")
    address_handshakes_per_s: int = _setting(20, "per client address; 0 = off")
    new_handshakes_per_s: int = _setting(
        200, "handshakes without a session per gateway, others get 503; 0 = off"
    )
    returning_handshakes_per_s: int = _setting(
        400, "handshakes that name their session per gateway, others get 503; 0 = off"
    )
    owner_lease_ms: int = _setting(
        5_000, "connections of a silent gateway count as gone after this"
    )
    owner_renew_ms: int = _setting(1_500, "time between renewals of that lease")
    silent_turn_check_ms: int = _setting(3_000, "silence after which the ledger is asked")
    lost_turn_after_ms: int = _setting(10_000, "a turn nobody knows ends `failed` after this")
    accepted_hold_ms: int = _setting(3_000, "frames wait at most this long for `chat.accepted`")
    gateway_drain_ms: int = _setting(60_000, "from SIGTERM to the last socket")


@dataclass(frozen=True, kw_only=True)
class OrchestratorSettings:
    """The intake and its slots."""

    intake_port: int = _setting(8082, "`POST /turns`, health")
    inline_slots: int = _setting(100, "turns at once per task")
    burst_capacity_turns: int = _setting(1_000, "trigger concurrency times batch size")
    lag_high_ms: int = _setting(100, "no inline work above this event-loop lag")
    lag_low_ms: int = _setting(40, "inline again below this")
    cpu_high_share: float = _setting(0.8, "no inline work above this CPU share")
    cpu_low_share: float = _setting(0.6, "inline again below this")
    load_sample_ms: int = _setting(1_000, "time between published samples")
    intake_send_timeout_ms: int = _setting(400, "deadline of the intake's own SQS send")
    waiting_burst_limit: int = _setting(5_000, "turns waiting in burst above which more are shed")
    orchestrator_drain_ms: int = _setting(60_000, "from SIGTERM to the last turn")


@dataclass(frozen=True, kw_only=True)
class QueueRunnerSettings:
    """Who drains the queues, and how."""

    queue_runner_port: int = _setting(8086, "health of the queue_runner")
    burst_consumer: Literal["lambda", "ecs"] = _setting(
        "lambda", "who drains burst and retry; `ecs` = the queue_runner, without burst_worker"
    )
    queue_slots: int = _setting(20, "turns at once per queue_runner task")
    queue_consumers: int = _setting(5, "receives at once; more than queues, or nobody waits long")
    queue_poll_s: int = _setting(20, "how long a receive from an empty queue waits, 1 to 20")
    queue_visibility_s: int = _setting(120, "a message under work is hidden this long at a time")
    queue_extend_s: int = _setting(40, "time between extensions while its turn runs")
    queue_tier_weight: int = _setting(
        4, "each priority gets this many times the turns of the one below"
    )
    queue_paused_interval_ms: int = _setting(
        5_000, "the paused background queue gives one turn per this"
    )
    queue_promoted_after_ms: int = _setting(
        600_000, "a queue with older messages counts as the priority above"
    )
    queue_runner_drain_ms: int = _setting(60_000, "from SIGTERM to the last turn")


@dataclass(frozen=True, kw_only=True)
class LocalStackSettings:
    """Knobs of `make run`."""

    port_base: int = _setting(8080, "first port of the stack")
    gateways: int = _setting(1, "gateway processes")
    orchestrators: int = _setting(1, "orchestrator processes")
    state_dir: str = _setting("var/local", "logs, pids and data of this stack")
    knowledge_dir: str = _setting("knowledge", "folder of the documents, intents and prompt")
    model_ttft_ms: int = _setting(300, "model server: time to the first token")
    model_tokens_per_s: float = _setting(50.0, "model server: pace")


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """Logs and metrics."""

    log_level: Literal["debug", "info", "warning", "error"] = _setting("info", "least severe event")
    metrics_namespace: str = _setting("burstchat", "CloudWatch namespace of the EMF metrics")
    environment: str = _setting("local", "name of this deployment; `local` permits dev settings")


@dataclass(frozen=True, kw_only=True)
class AnalyticsSettings:
    """One event for each ended turn."""

    analytics_stream: str = _setting("", "Kinesis stream of the events; empty = none")
    analytics_user_key: str = _setting(
        "",
        "key of the hash that stands for a user in events; empty = they name no user",
        secret=True,
    )
    analytics_buffer_events: int = _setting(10_000, "waiting events; more are dropped and counted")
    analytics_flush_ms: int = _setting(1_000, "events are sent at least this often")
    kinesis_timeout_ms: int = _setting(2_000, "deadline of one Kinesis request")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All groups; each process reads the ones it needs."""

    turn: TurnSettings = TurnSettings()
    redis: RedisSettings = RedisSettings()
    aws: AwsSettings = AwsSettings()
    push: PushSettings = PushSettings()
    model: ModelSettings = ModelSettings()
    intent: IntentSettings = IntentSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    guardrail: GuardrailSettings = GuardrailSettings()
    gateway: GatewaySettings = GatewaySettings()
    orchestrator: OrchestratorSettings = OrchestratorSettings()
    queue_runner: QueueRunnerSettings = QueueRunnerSettings()
    local_stack: LocalStackSettings = LocalStackSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    analytics: AnalyticsSettings = AnalyticsSettings()

    @property
    def renew_interval_ms(self) -> int:
        """Time between lease renewals."""
        return self.turn.renew_interval_ms or max(1, self.turn.lease_ms // 3)


def load_settings(role: Role, environ: Mapping[str, str] | None = None) -> Settings:
    """Read and validate the settings of one process; `environ` None = the process's own environment.

    Raises ConfigurationError with one sentence per fault.
    """
    source = _unpacked(os.environ if environ is None else environ)
    faults: list[str] = []
    groups = {
        group.name: _read_group(type(group.default), source, role, faults)
        for group in fields(Settings)
    }
    settings = Settings(**groups)
    if not faults:
        faults.extend(_contradictions(settings, role))
    if faults:
        raise ConfigurationError(" ".join(faults))
    return settings


def is_set(name: str, environ: Mapping[str, str] | None = None) -> bool:
    """True when the environment gives the variable a value."""
    source = os.environ if environ is None else environ
    return bool(source.get(name, "").strip())


def variable_name(setting: Field[Any]) -> str:
    """The environment variable of a setting."""
    return setting.metadata["env"] or PREFIX + setting.name.upper()


def unknown_variables(environ: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """Variables with our prefix that are no setting, each with the nearest known name."""
    source = os.environ if environ is None else environ
    known = {
        variable_name(setting)
        for group in fields(Settings)
        for setting in fields(group.default)  # type: ignore[arg-type]
    }
    known.add(PACKED)
    given = _unpacked(source)
    unknown = (name for name in given if name.startswith(PREFIX) and name not in known)
    return {
        name: next(iter(difflib.get_close_matches(name, known, n=1)), None)
        for name in sorted(unknown)
    }


def _unpacked(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with what stands in PACKED as variables; a word without `=` becomes a variable without value."""
    pairs = (word.partition("=") for word in environ.get(PACKED, "").split())
    return {**{PREFIX + name: value for name, _, value in pairs}, **environ}


def _read_group(group: type[Any], environ: Mapping[str, str], role: Role, faults: list[str]) -> Any:
    types = get_type_hints(group)
    values: dict[str, Any] = {}
    for setting in fields(group):
        name = variable_name(setting)
        raw = environ.get(name, "").strip()
        if not raw:
            if role in setting.metadata["required_by"]:
                faults.append(f"{name} is missing: {setting.metadata['doc']}.")
            continue
        try:
            values[setting.name] = _parse(raw, types[setting.name])
        except ValueError as error:
            faults.append(f"{name} {error}.")
    return group(**values)


def _parse(raw: str, expected: Any) -> Any:
    if get_origin(expected) is Literal:
        if raw not in get_args(expected):
            raise ValueError(f"must be one of {', '.join(get_args(expected))}")
        return raw
    if get_origin(expected) is tuple:
        return tuple(part.strip() for part in raw.split(",") if part.strip())
    if expected is int or expected is float:
        try:
            number = expected(raw)
        except ValueError:
            raise ValueError("must be a number") from None
        if not 0 <= number < 2**53:
            raise ValueError("must be zero or more")
        return number
    return raw


def _contradictions(settings: Settings, role: Role) -> Iterator[str]:
    turn, gateway, orchestrator = settings.turn, settings.gateway, settings.orchestrator
    below = [
        ("stale_after_ms", turn.stale_after_ms, "first_text_limit_ms", turn.first_text_limit_ms),
        ("lag_low_ms", orchestrator.lag_low_ms, "lag_high_ms", orchestrator.lag_high_ms),
        (
            "cpu_low_share",
            orchestrator.cpu_low_share,
            "cpu_high_share",
            orchestrator.cpu_high_share,
        ),
        ("flush_tick_ms", turn.flush_tick_ms, "flush_tick_max_ms", turn.flush_tick_max_ms),
        ("history_tokens", turn.history_tokens, "prompt_tokens", turn.prompt_tokens),
        ("crashes_per_turn", turn.crashes_per_turn, "attempts_per_turn", turn.attempts_per_turn),
        (
            "message_bytes",
            gateway.message_bytes,
            "inbound_frame_bytes",
            gateway.inbound_frame_bytes,
        ),
    ]
    for low_name, low, high_name, high in below:
        if low >= high:
            low_name, high_name = PREFIX + low_name.upper(), PREFIX + high_name.upper()
            yield f"{low_name} ({low}) must be below {high_name} ({high})."
    if settings.renew_interval_ms * 3 > turn.lease_ms:
        yield (
            f"{PREFIX}RENEW_INTERVAL_MS ({turn.renew_interval_ms}) must be at most a third of "
            f"{PREFIX}LEASE_MS ({turn.lease_ms})."
        )
    if gateway.owner_renew_ms * 3 > gateway.owner_lease_ms:
        yield (
            f"{PREFIX}OWNER_RENEW_MS ({gateway.owner_renew_ms}) must be at most a third of "
            f"{PREFIX}OWNER_LEASE_MS ({gateway.owner_lease_ms})."
        )
    yield from _size_faults(gateway)
    if role == "gateway":
        yield from _identity_faults(settings)
    if role == "queue_runner":
        yield from _queue_faults(settings)
    if role in _WORKERS:
        yield from _guardrail_faults(settings.guardrail)
        yield from _intent_faults(settings)
    keyless = not settings.model.model_api_key and not settings.model.model_base_url
    if role in _WORKERS and settings.model.model_provider == "anthropic" and keyless:
        yield "ANTHROPIC_API_KEY is missing: set it, or BURSTCHAT_MODEL_BASE_URL."
    if role in _WORKERS:
        yield from _model_faults(settings.model)
    yield from _retrieval_faults(settings.retrieval)


def _guardrail_faults(guardrail: GuardrailSettings) -> Iterator[str]:
    if guardrail.guardrail_provider == "bedrock":
        for name in ("guardrail_id", "guardrail_version"):
            if not getattr(guardrail, name):
                yield f"{PREFIX}{name.upper()} is missing: {PREFIX}GUARDRAIL_PROVIDER=bedrock needs it."
    if guardrail.guardrail_review_characters < 1:
        yield f"{PREFIX}GUARDRAIL_REVIEW_CHARACTERS must be 1 or more."


def _intent_faults(settings: Settings) -> Iterator[str]:
    intent, source_timeout_ms = settings.intent, settings.turn.source_timeout_ms
    if intent.intent_classifier == "sagemaker":
        if not intent.sagemaker_endpoint:
            yield (
                f"{PREFIX}SAGEMAKER_ENDPOINT is missing: {PREFIX}INTENT_CLASSIFIER=sagemaker "
                "needs it."
            )
        # Otherwise nothing would be left of a turn's patience for the classifier that stands in.
        if intent.sagemaker_timeout_ms >= source_timeout_ms:
            yield (
                f"{PREFIX}SAGEMAKER_TIMEOUT_MS ({intent.sagemaker_timeout_ms}) must be less than "
                f"{PREFIX}SOURCE_TIMEOUT_MS ({source_timeout_ms})."
            )


def _model_faults(model: ModelSettings) -> Iterator[str]:
    """A model id of the other provider would fail every single turn."""
    for name, model_id in (
        ("model_primary", model.model_primary),
        ("model_fast", model.model_fast),
    ):
        # `anthropic.claude-…`, `eu.anthropic.claude-…`, or the ARN of an inference profile.
        is_bedrock = "anthropic." in model_id or model_id.startswith("arn:")
        if is_bedrock != (model.model_provider == "bedrock"):
            yield (
                f"{PREFIX}{name.upper()} ({model_id}) is no model id of {PREFIX}MODEL_PROVIDER="
                f"{model.model_provider}."
            )


def _retrieval_faults(retrieval: RetrievalSettings) -> Iterator[str]:
    if retrieval.retriever == "opensearch" and not retrieval.opensearch_url:
        yield f"{PREFIX}OPENSEARCH_URL is missing: {PREFIX}RETRIEVER=opensearch searches there."


def _queue_faults(settings: Settings) -> Iterator[str]:
    queue = settings.queue_runner
    for name, low, value, high in (
        ("queue_slots", 1, queue.queue_slots, 1_000),
        ("queue_consumers", 1, queue.queue_consumers, 100),
        ("queue_tier_weight", 1, queue.queue_tier_weight, 100),
        # SQS's own limits.
        ("queue_poll_s", 1, queue.queue_poll_s, 20),
        ("queue_visibility_s", 1, queue.queue_visibility_s, 43_200),
    ):
        if not low <= value <= high:
            yield f"{PREFIX}{name.upper()} ({value}) must be from {low} to {high}."
    if queue.queue_extend_s * 2 > queue.queue_visibility_s:
        yield (
            f"{PREFIX}QUEUE_EXTEND_S ({queue.queue_extend_s}) must be at most half of "
            f"{PREFIX}QUEUE_VISIBILITY_S ({queue.queue_visibility_s})."
        )
    if queue.queue_poll_s * 1_000 >= queue.queue_runner_drain_ms:
        # A receive that is cut goes on at SQS and swallows what the drain gives back, for its visibility.
        yield (
            f"{PREFIX}QUEUE_POLL_S ({queue.queue_poll_s}) must end within "
            f"{PREFIX}QUEUE_RUNNER_DRAIN_MS ({queue.queue_runner_drain_ms})."
        )
    if queue.burst_consumer == "ecs" and not settings.aws.retry_dlq_url:
        yield f"{PREFIX}RETRY_DLQ_URL is missing: {PREFIX}BURST_CONSUMER=ecs drains retry, too."


def _size_faults(gateway: GatewaySettings) -> Iterator[str]:
    """What the door lets in must fit into a queue message, or a turn is accepted that nobody can send."""
    # In a queue message a text is as long as in its frame at most, and no character takes more than an escape.
    text_bytes = min(gateway.inbound_frame_bytes, _ESCAPE_BYTES * gateway.message_bytes)
    message_bytes = text_bytes + gateway.metadata_bytes + _ENVELOPE_BYTES
    if message_bytes > MESSAGE_LIMIT_BYTES:
        yield (
            f"{PREFIX}INBOUND_FRAME_BYTES ({gateway.inbound_frame_bytes}) or {PREFIX}MESSAGE_BYTES "
            f"({gateway.message_bytes}), and {PREFIX}METADATA_BYTES ({gateway.metadata_bytes}), let in turns whose "
            f"queue message has {message_bytes} bytes; it may have {MESSAGE_LIMIT_BYTES}."
        )


def _identity_faults(settings: Settings) -> Iterator[str]:
    gateway = settings.gateway
    if len(gateway.jwt_secret.encode()) < 32:
        yield f"{PREFIX}JWT_SECRET must have at least 32 bytes."
    if gateway.auth_mode == "dev" and settings.telemetry.environment != "local":
        yield (
            f"{PREFIX}AUTH_MODE=dev admits everyone: it needs {PREFIX}ENVIRONMENT=local, "
            f"not {settings.telemetry.environment}."
        )
