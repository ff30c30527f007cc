"""AWS services that speak JSON over one POST (DynamoDB, SQS …), called over the process's HTTP session.

boto3 costs 1.5 ms of CPU per call and a thread; this costs the request and a signature.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_endpoint import AwsEndpoint, regional_url
from shared.adapters.http_session import HttpSession
from shared.clock import Clock
from shared.errors import ConfigurationError, DependencyUnavailable, PermanentError

Service = Literal["cloudwatch", "dynamodb", "ecs", "kinesis", "sqs"]


class _Protocol(NamedTuple):
    """`host` names the service in addresses and signatures; the rest is its model's metadata."""

    host: str
    target: str
    json_version: str


_PROTOCOLS: Final[dict[Service, _Protocol]] = {
    "cloudwatch": _Protocol("monitoring", "GraniteServiceVersion20100801", "1.0"),
    "dynamodb": _Protocol("dynamodb", "DynamoDB_20120810", "1.0"),
    "ecs": _Protocol("ecs", "AmazonEC2ContainerServiceV20141113", "1.1"),
    "kinesis": _Protocol("kinesis", "Kinesis_20131202", "1.1"),
    "sqs": _Protocol("sqs", "AmazonSQS", "1.0"),
}
_STALE_KEYS = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidClientTokenId"}
)
_MISCONFIGURED = frozenset(
    {
        "AccessDeniedException",
        "AccessDenied",
        "ClusterNotFoundException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "NonExistentQueue",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "UnrecognizedClientException",
    }
)
_THROTTLED = frozenset(
    {
        "LimitExceededException",
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)


class _Fault(msgspec.Struct):
    type: str = msgspec.field(name="__type", default="")


class AwsRefusal(PermanentError):
    """AWS refused this very request; `code` is the error's short name, `body` its JSON."""

    def __init__(self, operation: str, code: str, body: bytes) -> None:
        super().__init__(f"{operation} refused: {code}")
        self.code = code
        self.body = body


class AwsJsonApi:
    """One service in one region. A call is made once: its caller knows whether repeating it is safe."""

    def __init__(
        self,
        service: Service,
        *,
        http: HttpSession,
        credentials: AwsCredentials,
        clock: Clock,
        endpoint_url: str = "",
        timeout_ms: int,
    ) -> None:
        protocol = _PROTOCOLS[service]
        self._service = service
        self._protocol = protocol
        self._endpoint = AwsEndpoint(
            endpoint_url or regional_url(protocol.host, credentials.region),
            setting="BURSTCHAT_AWS_ENDPOINT_URL",
            service=protocol.host,
            http=http,
            credentials=credentials,
            clock=clock,
            timeout_ms=timeout_ms,
        )

    async def call(self, operation: str, body: bytes, *, held_s: int = 0) -> bytes:
        """The answer's JSON, within the time-out; `held_s` on top of it when the service may wait on purpose.

        Raises DependencyUnavailable (could not ask, throttled, a fault of AWS), ConfigurationError (no permission, no
        such table or queue) and AwsRefusal for anything that is wrong with the request.
        """
        headers = {
            "content-type": f"application/x-amz-json-{self._protocol.json_version}",
            "x-amz-target": f"{self._protocol.target}.{operation}",
        }
        answer = await self._endpoint.send("POST", "/", headers, body, held_s=held_s)
        if answer.status == 200:
            return answer.body
        raise self._fault(operation, answer.status, answer.body)

    def _fault(
        self, operation: str, status: int, body: bytes
    ) -> AwsRefusal | ConfigurationError | DependencyUnavailable:
        code = _code(body)
        name = f"{self._service} {operation}"
        if code in _STALE_KEYS:
            self._endpoint.forget_keys()
            return DependencyUnavailable(f"{name}: {code}")
        if code in _MISCONFIGURED:
            return ConfigurationError(
                f"{name}: {code}: check the role's permissions and the names in BURSTCHAT_*_TABLE, BURSTCHAT_*_URL "
                "and those of streams and clusters."
            )
        if status >= 500 or status == 429 or code in _THROTTLED or not code:
            return DependencyUnavailable(f"{name}: {status} {code}")
        return AwsRefusal(name, code, body)


def _code(body: bytes) -> str:
    """`com.amazonaws.dynamodb.v20120810#Name` and `com.amazonaws.sqs#Name` without their namespaces."""
    try:
        type_ = msgspec.json.decode(body, type=_Fault).type
    except msgspec.MsgspecError:
        return ""
    return type_.rpartition("#")[2].rpartition(".")[2]
