"""Adapters that several ports of one process share, and the credential that its requests are signed with."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Final

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_json_api import AwsJsonApi, Service
from shared.adapters.bedrock_guardrail import BedrockGuardrail
from shared.adapters.dynamodb_dead_turns import DynamoDbDeadTurns
from shared.adapters.dynamodb_turn_store import DynamoDbTurnStore
from shared.adapters.http_session import HttpSession
from shared.adapters.management_api_push import ManagementApiPush
from shared.adapters.opensearch_api import OpenSearchApi
from shared.adapters.redis_budget_window import RedisBudgetWindow
from shared.adapters.redis_client import RedisClient
from shared.adapters.redis_due_turns import RedisDueTurns
from shared.adapters.redis_session_queue import RedisSessionQueue
from shared.adapters.redis_turn_claims import RedisTurnClaims
from shared.adapters.redis_turn_followers import RedisTurnFollowers
from shared.adapters.redis_turn_revival import RedisTurnRevival
from shared.adapters.sagemaker_intent_classifier import SageMakerIntentClassifier
from shared.adapters.sqs_dead_letters import SqsDeadLetters
from shared.adapters.sqs_queue_gauges import SqsQueueGauges
from shared.adapters.sqs_turn_inbox import SqsTurnInbox
from shared.adapters.sqs_turn_queue import SqsTurnQueue
from shared.clock import Clock, Randomness
from shared.contracts.turns import QueueName
from shared.policy.sigv4 import Credential
from shared.settings import Settings

FUNCTION_REDIS_CONNECTIONS: Final = 2
"""Per execution environment: a thousand of them share the server's connection limit."""


def push_credential(settings: Settings) -> Credential:
    """The credential that signs pushes and intake requests, and that their receivers verify."""
    return Credential(
        settings.push.push_access_key_id,
        settings.push.push_secret_access_key,
        settings.push.push_region,
    )


class ProcessAdapters:
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
        self._sqs = self.aws_api("sqs", settings.aws.sqs_timeout_ms)

    def aws_api(self, service: Service, timeout_ms: int) -> AwsJsonApi:
        """Requests to one service, each with that deadline."""
        return AwsJsonApi(
            service,
            http=self.http,
            credentials=self._credentials,
            clock=self._clock,
            endpoint_url=self._settings.aws.aws_endpoint_url,
            timeout_ms=timeout_ms,
        )

    def sessions(self) -> RedisSessionQueue:
        """Which turn of a session may run."""
        turn = self._settings.turn
        return RedisSessionQueue(
            self.redis,
            waiting_turns_per_session=turn.waiting_turns_per_session,
            followers_per_turn=turn.followers_per_turn,
            log_kept_ms=turn.log_kept_ms,
            outcome_kept_ms=turn.outcome_kept_ms,
        )

    def claims(self) -> RedisTurnClaims:
        """One producer per turn."""
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
        """A dead turn to life again."""
        return RedisTurnRevival(self.redis, outcome_kept_ms=self._settings.turn.outcome_kept_ms)

    def dead_turns(self) -> DynamoDbDeadTurns:
        """Triaged dead letters."""
        aws = self._settings.aws
        api = self.aws_api("dynamodb", aws.dynamodb_timeout_ms)
        return DynamoDbDeadTurns(api, aws.dead_turns_table, self._clock)

    def due(self) -> RedisDueTurns:
        """Unended turns by their next check."""
        return RedisDueTurns(self.redis, outcome_kept_ms=self._settings.turn.outcome_kept_ms)

    def followers(self) -> RedisTurnFollowers:
        """Who reads a turn."""
        turn = self._settings.turn
        return RedisTurnFollowers(
            self.redis,
            followers_per_turn=turn.followers_per_turn,
            outcome_kept_ms=turn.outcome_kept_ms,
        )

    def store(self) -> DynamoDbTurnStore:
        """Ended turns."""
        aws = self._settings.aws
        api = self.aws_api("dynamodb", aws.dynamodb_timeout_ms)
        return DynamoDbTurnStore(
            api, aws.turns_table, self._clock, kept_days=self._settings.turn.stored_turn_days
        )

    def kinesis(self) -> AwsJsonApi:
        """Requests to Kinesis."""
        return self.aws_api("kinesis", self._settings.analytics.kinesis_timeout_ms)

    def budget_window(self) -> RedisBudgetWindow:
        """The model budget that all processes share."""
        return RedisBudgetWindow(self.redis)

    def sagemaker_classifier(self) -> SageMakerIntentClassifier:
        """The endpoint that the settings name."""
        intent = self._settings.intent
        return SageMakerIntentClassifier(
            endpoint=intent.sagemaker_endpoint,
            http=self.http,
            credentials=self._credentials,
            clock=self._clock,
            base_url=intent.sagemaker_base_url,
            timeout_ms=intent.sagemaker_timeout_ms,
        )

    def bedrock_guardrail(self) -> BedrockGuardrail:
        """The guardrail that the settings name."""
        guardrail = self._settings.guardrail
        return BedrockGuardrail(
            guardrail_id=guardrail.guardrail_id,
            version=guardrail.guardrail_version,
            http=self.http,
            credentials=self._credentials,
            clock=self._clock,
            base_url=guardrail.guardrail_base_url,
            timeout_ms=guardrail.guardrail_timeout_ms,
        )

    def turn_queue(self) -> SqsTurnQueue:
        """The queues of work, to send to."""
        return SqsTurnQueue(self._sqs, self._queue_urls())

    def turn_inbox(self) -> SqsTurnInbox:
        """The queues of work, to receive from."""
        return SqsTurnInbox(self._sqs, self._queue_urls())

    def opensearch_api(self, url: str, timeout_ms: int) -> OpenSearchApi:
        """Requests to one OpenSearch domain."""
        return OpenSearchApi(
            url,
            http=self.http,
            credentials=self._credentials,
            clock=self._clock,
            timeout_ms=timeout_ms,
        )

    def queue_gauges(self) -> SqsQueueGauges:
        """How full the queues are."""
        cloudwatch = self.aws_api("cloudwatch", self._settings.aws.signals_timeout_ms)
        return SqsQueueGauges(self._sqs, cloudwatch, self._queue_urls(), self._clock)

    def _queue_urls(self) -> dict[QueueName, str]:
        aws = self._settings.aws
        return {
            "burst": aws.burst_queue_url,
            "retry": aws.retry_queue_url,
            "deferred": aws.deferred_queue_url,
            "background": aws.background_queue_url,
        }

    def dead_letters(self) -> SqsDeadLetters:
        """The dead-letter queues."""
        aws = self._settings.aws
        urls: dict[QueueName, str] = {
            "burst": aws.burst_dlq_url,
            "retry": aws.retry_dlq_url,
            "deferred": aws.deferred_dlq_url,
            "background": aws.background_dlq_url,
        }
        return SqsDeadLetters(self._sqs, urls)

    def push(self) -> ManagementApiPush:
        """The Management API of any gateway."""
        push = self._settings.push
        return ManagementApiPush(
            self.http,
            push_credential(self._settings),
            self._clock,
            aws=self._credentials,
            timeout_ms=push.push_timeout_ms,
            requests_per_endpoint=push.push_requests_per_endpoint,
        )
