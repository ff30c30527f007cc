"""Which adapter stands behind which port, and with which settings: the only importer of adapters.

Each `open_…` is one process's set of ports: made lazily connected, closed in reverse order. Adapters with heavy
imports (the model's SDK, numpy, boto3) are imported where they are needed, so that the gateway never loads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi
from shared.adapters.dynamodb_dead_turns import DynamoDbDeadTurns
from shared.adapters.dynamodb_turn_store import DynamoDbTurnStore
from shared.adapters.http_session import HttpSession
from shared.adapters.http_turn_intake import HttpTurnIntake
from shared.adapters.management_api_push import ManagementApiPush
from shared.adapters.redis_client import RedisClient
from shared.adapters.redis_connection_registry import RedisConnectionRegistry
from shared.adapters.redis_due_turns import RedisDueTurns
from shared.adapters.redis_load_board import RedisLoadBoard
from shared.adapters.redis_session_queue import RedisSessionQueue
from shared.adapters.redis_turn_claims import RedisTurnClaims
from shared.adapters.redis_turn_followers import RedisTurnFollowers
from shared.adapters.redis_turn_revival import RedisTurnRevival
from shared.adapters.sqs_dead_letters import SqsDeadLetters
from shared.adapters.sqs_turn_queue import SqsTurnQueue
from shared.clock import Clock, Randomness
from shared.contracts.turns import QueueName
from shared.policy.limits import AnswerPlan, FlushLimits, PushLimits, TurnLimits
from shared.policy.load_level import answer_plan
from shared.policy.sigv4 import Credential
from shared.policy.sweeping import SweepLimits
from shared.ports import (
    ChatModel,
    ConnectionRegistry,
    DeadLetterQueue,
    DeadTurns,
    DueTurns,
    FramePush,
    LoadBoard,
    SessionQueue,
    TurnClaims,
    TurnDispatcher,
    TurnFollowers,
    TurnIntake,
    TurnQueue,
    TurnRevival,
    TurnStore,
)
from shared.settings import Role, Settings
from shared.telemetry import Metrics
from shared.turn.engine import TurnEngine, TurnPorts
from shared.turn.load_watch import LoadWatch

if TYPE_CHECKING:
    from shared.adapters.watched_index import WatchedIndex
    from shared.adapters.wordllama_embedder import WordLlamaEmbedder

FUNCTION_REDIS_CONNECTIONS: Final = 2
"""Per execution environment: a thousand of them share the server's connection limit."""
S3_TIMEOUT_MS: Final = 5_000
OFFLINE_API_KEY: Final = "offline"
"""Sent to a model server at `model_base_url` that wants none."""


@dataclass(frozen=True, kw_only=True)
class GatewayPorts:
    """What a gateway talks to."""

    queue: SessionQueue
    claims: TurnClaims
    followers: TurnFollowers
    registry: ConnectionRegistry
    store: TurnStore
    intake: TurnIntake
    turn_queue: TurnQueue
    load: LoadBoard
    push: FramePush
    due: DueTurns
    dead_letters: DeadLetterQueue


@dataclass(frozen=True, kw_only=True)
class Worker:
    """What a consumer of turns is made of; `background` flushes, renews and watches until the worker closes.

    When `background` ends before that, turns no longer move: stop the process, or open another worker.
    """

    engine: TurnEngine
    sessions: SessionQueue
    turn_queue: TurnQueue
    dead_letters: DeadLetterQueue
    load: LoadBoard
    watch: LoadWatch
    claims: TurnClaims
    followers: TurnFollowers
    store: TurnStore
    push: FramePush
    due: DueTurns
    background: asyncio.Task[None]


@dataclass(frozen=True, kw_only=True)
class TriagePorts:
    """What triage of dead letters talks to."""

    sessions: SessionQueue
    claims: TurnClaims
    store: TurnStore
    push: FramePush
    turn_queue: TurnQueue
    dead_turns: DeadTurns


@dataclass(frozen=True, kw_only=True)
class RedrivePorts:
    """What the `burstchat dlq` commands talk to."""

    sessions: SessionQueue
    revival: TurnRevival
    store: TurnStore
    turn_queue: TurnQueue
    dead_turns: DeadTurns


@asynccontextmanager
async def open_gateway_ports(
    settings: Settings, clock: Clock, randomness: Randomness
) -> AsyncIterator[GatewayPorts]:
    """The gateway's ports, closed on leaving. Nothing is asked yet, so a dependency may still be down."""
    async with AsyncExitStack() as closing:
        shared = _Shared(settings, clock, randomness, closing)
        yield GatewayPorts(
            queue=shared.sessions(),
            claims=shared.claims(),
            followers=shared.followers(),
            registry=RedisConnectionRegistry(
                shared.redis,
                owner_lease_ms=settings.gateway.owner_lease_ms,
                connection_kept_ms=2 * settings.gateway.max_age_ms,
            ),
            store=shared.store(),
            intake=HttpTurnIntake(
                shared.http,
                settings.gateway.intake_urls,
                push_credential(settings),
                clock,
                timeout_ms=settings.gateway.intake_timeout_ms,
            ),
            turn_queue=shared.turn_queue(),
            load=RedisLoadBoard(shared.redis, clock),
            push=shared.push(),
            due=shared.due(),
            dead_letters=shared.dead_letters(),
        )


@asynccontextmanager
async def open_triage_ports(
    settings: Settings, clock: Clock, randomness: Randomness
) -> AsyncIterator[TriagePorts]:
    """The ports of dlq_triage, closed on leaving. Nothing is asked yet."""
    async with AsyncExitStack() as closing:
        shared = _Shared(
            settings, clock, randomness, closing, redis_connections=FUNCTION_REDIS_CONNECTIONS
        )
        yield TriagePorts(
            sessions=shared.sessions(),
            claims=shared.claims(),
            store=shared.store(),
            push=shared.push(),
            turn_queue=shared.turn_queue(),
            dead_turns=shared.dead_turns(),
        )


@asynccontextmanager
async def open_redrive_ports(
    settings: Settings, clock: Clock, randomness: Randomness, credential: Credential | None = None
) -> AsyncIterator[RedrivePorts]:
    """The ports of the `burstchat dlq` commands, closed on leaving. Nothing is asked yet.

    `credential` None = AWS's default chain.
    """
    async with AsyncExitStack() as closing:
        shared = _Shared(
            settings,
            clock,
            randomness,
            closing,
            redis_connections=FUNCTION_REDIS_CONNECTIONS,
            credential=credential,
        )
        yield RedrivePorts(
            sessions=shared.sessions(),
            revival=shared.revival(),
            store=shared.store(),
            turn_queue=shared.turn_queue(),
            dead_turns=shared.dead_turns(),
        )


@asynccontextmanager
async def open_worker(
    settings: Settings,
    role: Role,
    *,
    worker: str,
    dispatcher: Callable[[TurnQueue, SessionQueue], TurnDispatcher],
    clock: Clock,
    randomness: Randomness,
    metrics: Metrics,
) -> AsyncIterator[Worker]:
    """A worker that is ready to run turns; `worker` names it in claims, logs and dead letters.

    Raises DependencyUnavailable when the knowledge index cannot be read: it holds the prompt, without which nobody
    should answer. Leaving waits for the pushes under way, then closes.
    """
    async with AsyncExitStack() as closing:
        connections = FUNCTION_REDIS_CONNECTIONS if role == "burst_worker" else None
        shared = _Shared(settings, clock, randomness, closing, redis_connections=connections)
        embedder, index = await _open_knowledge(settings, clock, closing)
        load = RedisLoadBoard(shared.redis, clock)
        watch = LoadWatch(
            load, clock, burst_capacity_turns=settings.orchestrator.burst_capacity_turns
        )
        turn_queue, sessions, dead_letters = (
            shared.turn_queue(),
            shared.sessions(),
            shared.dead_letters(),
        )
        ports = _turn_ports(
            shared,
            embedder,
            index,
            model=_open_model(settings, clock, closing),
            dispatcher=dispatcher(turn_queue, sessions),
            dead_letters=dead_letters,
        )
        engine = TurnEngine(
            ports,
            system_prompt=index.current().prompt,
            plan=_answer_plans(settings, watch),
            worker=worker,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
            limits=_turn_limits(settings, role),
            flush=FlushLimits(
                tick_ms=settings.turn.flush_tick_ms, tick_max_ms=settings.turn.flush_tick_max_ms
            ),
            pushes=PushLimits(requests_per_endpoint=settings.push.push_requests_per_endpoint),
        )
        background = asyncio.create_task(_run_background(engine, watch, index), name="background")
        closing.push_async_callback(_stop, background)
        closing.push_async_callback(engine.close)
        yield Worker(
            engine=engine,
            sessions=sessions,
            turn_queue=turn_queue,
            dead_letters=dead_letters,
            load=load,
            watch=watch,
            claims=ports.claims,
            followers=ports.followers,
            store=ports.store,
            push=ports.push,
            due=shared.due(),
            background=background,
        )


def import_worker_adapters() -> None:
    """Import what `open_worker` needs, so that a function's snapshot holds it."""
    import shared.adapters.anthropic_model
    import shared.adapters.linear_intent_classifier
    import shared.adapters.s3_artefacts
    import shared.adapters.vector_retriever
    import shared.adapters.wordllama_embedder  # noqa: F401


def push_credential(settings: Settings) -> Credential:
    """The credential that signs pushes and intake requests, and that their receivers verify."""
    return Credential(
        settings.push.push_access_key_id,
        settings.push.push_secret_access_key,
        settings.push.push_region,
    )


def sweep_limits(settings: Settings) -> SweepLimits:
    """The limits that every sweeper of the deployment goes by."""
    turn = settings.turn
    return SweepLimits(
        stale_after_ms=turn.stale_after_ms,
        predecessor_wait_limit_ms=turn.predecessor_wait_limit_ms,
        unclaimed_limit_ms=turn.unclaimed_limit_ms,
        attempts_per_turn=turn.attempts_per_turn,
        crashes_per_turn=turn.crashes_per_turn,
        lease_ms=turn.lease_ms,
        reservation_ms=turn.reservation_ms,
    )


class _Shared:
    """Connections that several ports of one process share."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        randomness: Randomness,
        closing: AsyncExitStack,
        *,
        redis_connections: int | None = None,
        credential: Credential | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self.redis = RedisClient(
            settings.redis.redis_url,
            clock=clock,
            randomness=randomness,
            timeout_ms=settings.redis.redis_timeout_ms,
            connections=redis_connections or settings.redis.redis_connections,
        )
        closing.push_async_callback(self.redis.aclose)
        self.http = HttpSession()
        closing.push_async_callback(self.http.close)
        self._credentials = AwsCredentials(settings.aws.aws_region, fixed=credential)
        self._sqs = self._aws_api("sqs", settings.aws.sqs_timeout_ms)

    def _aws_api(self, service: Literal["dynamodb", "sqs"], timeout_ms: int) -> AwsJsonApi:
        return AwsJsonApi(
            service,
            http=self.http,
            credentials=self._credentials,
            clock=self._clock,
            endpoint_url=self._settings.aws.aws_endpoint_url,
            timeout_ms=timeout_ms,
        )

    def sessions(self) -> RedisSessionQueue:
        turn = self._settings.turn
        return RedisSessionQueue(
            self.redis,
            waiting_turns_per_session=turn.waiting_turns_per_session,
            followers_per_turn=turn.followers_per_turn,
            log_kept_ms=turn.log_kept_ms,
            outcome_kept_ms=turn.outcome_kept_ms,
        )

    def claims(self) -> RedisTurnClaims:
        turn = self._settings.turn
        return RedisTurnClaims(
            self.redis,
            lease_ms=turn.lease_ms,
            owner_lease_ms=self._settings.gateway.owner_lease_ms,
            log_kept_ms=turn.log_kept_ms,
            outcome_kept_ms=turn.outcome_kept_ms,
            history_cached_ms=turn.history_cached_ms,
            reservation_ms=turn.reservation_ms,
            attempts_per_turn=turn.attempts_per_turn,
            crashes_per_turn=turn.crashes_per_turn,
        )

    def revival(self) -> RedisTurnRevival:
        return RedisTurnRevival(self.redis, outcome_kept_ms=self._settings.turn.outcome_kept_ms)

    def dead_turns(self) -> DynamoDbDeadTurns:
        aws = self._settings.aws
        api = self._aws_api("dynamodb", aws.dynamodb_timeout_ms)
        return DynamoDbDeadTurns(api, aws.dead_turns_table, self._clock)

    def due(self) -> RedisDueTurns:
        return RedisDueTurns(self.redis, outcome_kept_ms=self._settings.turn.outcome_kept_ms)

    def followers(self) -> RedisTurnFollowers:
        turn = self._settings.turn
        return RedisTurnFollowers(
            self.redis,
            followers_per_turn=turn.followers_per_turn,
            outcome_kept_ms=turn.outcome_kept_ms,
        )

    def store(self) -> DynamoDbTurnStore:
        aws = self._settings.aws
        api = self._aws_api("dynamodb", aws.dynamodb_timeout_ms)
        return DynamoDbTurnStore(
            api, aws.turns_table, self._clock, kept_days=self._settings.turn.stored_turn_days
        )

    def turn_queue(self) -> SqsTurnQueue:
        aws = self._settings.aws
        urls: dict[QueueName, str] = {
            "burst": aws.burst_queue_url,
            "retry": aws.retry_queue_url,
            "deferred": aws.deferred_queue_url,
            "background": aws.background_queue_url,
        }
        return SqsTurnQueue(self._sqs, urls)

    def dead_letters(self) -> SqsDeadLetters:
        aws = self._settings.aws
        urls: dict[QueueName, str] = {
            "burst": aws.burst_dlq_url,
            "retry": aws.retry_dlq_url,
            "deferred": aws.deferred_dlq_url,
            "background": aws.background_dlq_url,
        }
        return SqsDeadLetters(self._sqs, urls)

    def push(self) -> ManagementApiPush:
        push = self._settings.push
        return ManagementApiPush(
            self.http,
            push_credential(self._settings),
            self._clock,
            aws=self._credentials,
            timeout_ms=push.push_timeout_ms,
            requests_per_endpoint=push.push_requests_per_endpoint,
        )


def _turn_ports(
    shared: _Shared,
    embedder: WordLlamaEmbedder,
    index: WatchedIndex,
    *,
    model: ChatModel,
    dispatcher: TurnDispatcher,
    dead_letters: DeadLetterQueue,
) -> TurnPorts:
    from shared.adapters.linear_intent_classifier import LinearIntentClassifier
    from shared.adapters.vector_retriever import VectorRetriever

    return TurnPorts(
        claims=shared.claims(),
        followers=shared.followers(),
        store=shared.store(),
        push=shared.push(),
        model=model,
        classifier=LinearIntentClassifier(index.current, embedder),
        retriever=VectorRetriever(index.current, embedder),
        dispatcher=dispatcher,
        dead_letters=dead_letters,
    )


async def _open_knowledge(
    settings: Settings, clock: Clock, closing: AsyncExitStack
) -> tuple[WordLlamaEmbedder, WatchedIndex]:
    from shared.adapters.index_sources import S3IndexSource
    from shared.adapters.s3_artefacts import S3Artefacts, connect_s3
    from shared.adapters.watched_index import WatchedIndex
    from shared.adapters.wordllama_embedder import WordLlamaEmbedder

    aws = settings.aws
    client = connect_s3(
        region=aws.aws_region, endpoint_url=aws.aws_endpoint_url, timeout_ms=S3_TIMEOUT_MS
    )
    closing.callback(client.close)
    embedder = WordLlamaEmbedder()
    index = WatchedIndex(
        S3IndexSource(S3Artefacts(client, aws.knowledge_bucket), embedder),
        clock,
        poll_interval_ms=aws.index_poll_ms,
    )
    await asyncio.gather(asyncio.to_thread(embedder.load), index.refresh())
    return embedder, index


def _open_model(settings: Settings, clock: Clock, closing: AsyncExitStack) -> ChatModel:
    model = settings.model
    limits = {
        "first_event_timeout_ms": model.model_first_event_timeout_ms,
        "silence_timeout_ms": model.model_silence_timeout_ms,
    }
    opened: AnthropicChatModel | BedrockChatModel
    match model.model_provider:
        case "anthropic":
            from shared.adapters.anthropic_model import AnthropicChatModel

            opened = AnthropicChatModel(
                api_key=model.model_api_key or (OFFLINE_API_KEY if model.model_base_url else ""),
                clock=clock,
                base_url=model.model_base_url,
                **limits,
            )
        case "bedrock":
            from shared.adapters.bedrock_model import BedrockChatModel

            opened = BedrockChatModel(
                region=settings.aws.aws_region,
                clock=clock,
                base_url=model.model_base_url,
                **limits,
            )
    closing.push_async_callback(opened.close)
    return opened


def _turn_limits(settings: Settings, role: Role) -> TurnLimits:
    turn, model = settings.turn, settings.model
    return TurnLimits(
        stale_after_ms=turn.stale_after_ms,
        first_text_limit_ms=turn.first_text_limit_ms,
        late_attempt_min_ms=turn.late_attempt_min_ms,
        generation_limit_ms=turn.generation_limit_ms,
        first_event_timeout_ms=model.model_first_event_timeout_ms,
        silence_timeout_ms=model.model_silence_timeout_ms,
        attempts_per_turn=turn.attempts_per_turn,
        retry_backoff_ms=turn.retry_backoff_ms,
        # A function pays for every second it waits; a service waits for nothing.
        retry_in_process_limit_ms=(
            turn.retry_in_process_limit_ms if role == "burst_worker" else None
        ),
        lease_ms=turn.lease_ms,
        renew_interval_ms=settings.renew_interval_ms,
        reader_grace_ms=turn.reader_grace_ms,
        passages_per_prompt=turn.passages_per_prompt,
        source_timeout_ms=turn.source_timeout_ms,
        intent_confidence_floor=turn.intent_confidence_floor,
    )


def _answer_plans(settings: Settings, watch: LoadWatch) -> Callable[[], AnswerPlan]:
    normal = AnswerPlan(
        model=settings.model.model_primary,
        max_tokens=settings.turn.max_tokens,
        history_turns=settings.turn.history_turns,
        history_tokens=settings.turn.history_tokens,
    )
    return lambda: answer_plan(watch.level, normal, settings.model.model_fast)


async def _run_background(engine: TurnEngine, watch: LoadWatch, index: WatchedIndex) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.run(), name="engine")
        tasks.create_task(watch.run(), name="load-watch")
        tasks.create_task(index.run(), name="index-watch")


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    # Its error has been the owner's to see: `Worker.background`.
    with suppress(asyncio.CancelledError, Exception):
        await task
