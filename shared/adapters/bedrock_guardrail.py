"""Amazon Bedrock Guardrails, asked with ApplyGuardrail: it judges texts without a model call of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_endpoint import AwsEndpoint, regional_url
from shared.adapters.http_session import HttpSession
from shared.clock import Clock
from shared.contracts.guardrails import Allowed, Blocked, JudgedText, Verdict
from shared.errors import ConfigurationError, DependencyUnavailable

_SERVICE: Final = "bedrock"
_HEADERS: Final = {"content-type": "application/json", "accept": "application/json"}
_SOURCES: Final[dict[JudgedText, str]] = {"message": "INPUT", "reply": "OUTPUT"}
_STALE_KEYS = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})
_MISCONFIGURED = frozenset(
    {
        "AccessDeniedException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "ResourceNotFoundException",
        "ValidationException",
    }
)


class _Text(msgspec.Struct):
    text: str = ""


class _Answer(msgspec.Struct):
    """The part of ApplyGuardrailResponse that decides."""

    action: str
    outputs: list[_Text] = []
    assessments: list[dict[str, Any]] = []


class BedrockGuardrail:
    """One guardrail in one version. A text is judged once, within the time-out; asking again is its caller's affair."""

    def __init__(
        self,
        *,
        guardrail_id: str,
        version: str,
        http: HttpSession,
        credentials: AwsCredentials,
        clock: Clock,
        base_url: str = "",
        timeout_ms: int,
    ) -> None:
        self._endpoint = AwsEndpoint(
            base_url or regional_url("bedrock-runtime", credentials.region),
            setting="BURSTCHAT_GUARDRAIL_BASE_URL",
            service=_SERVICE,
            http=http,
            credentials=credentials,
            clock=clock,
            timeout_ms=timeout_ms,
        )
        # An identifier may be an ARN, whose colons and slashes belong to one segment of the path.
        self._path = (
            f"/guardrail/{quote(guardrail_id, safe='')}/version/{quote(version, safe='')}/apply"
        )

    async def judge(self, what: JudgedText, text: str) -> Verdict:
        """Ask for a verdict.

        Raises DependencyUnavailable (could not ask in time, throttled, a fault of AWS) and ConfigurationError (no
        permission, no such guardrail or version, a request that Bedrock calls invalid).
        """
        body = msgspec.json.encode(
            {"source": _SOURCES[what], "content": [{"text": {"text": text}}]}
        )
        answer = await self._endpoint.send("POST", self._path, _HEADERS, body)
        if answer.status != 200:
            raise self._fault(answer.status, answer.headers)
        try:
            return _verdict(msgspec.json.decode(answer.body, type=_Answer), text)
        except msgspec.DecodeError as error:
            raise DependencyUnavailable("ApplyGuardrail: an answer that is none") from error

    def _fault(
        self, status: int, headers: Mapping[str, str]
    ) -> ConfigurationError | DependencyUnavailable:
        code = headers.get("x-amzn-errortype", "").partition(":")[0]
        if code in _STALE_KEYS:
            self._endpoint.forget_keys()
            return DependencyUnavailable(f"ApplyGuardrail: {code}")
        if code in _MISCONFIGURED:
            return ConfigurationError(
                f"ApplyGuardrail: {code}: check the role's bedrock:ApplyGuardrail permission, "
                "BURSTCHAT_GUARDRAIL_ID and BURSTCHAT_GUARDRAIL_VERSION."
            )
        return DependencyUnavailable(f"ApplyGuardrail: {status} {code}")


def _verdict(answer: _Answer, text: str) -> Verdict:
    if answer.action == "NONE":
        return Allowed(text)
    actions = list(_actions(answer.assessments))
    policies = sorted({policy for policy, action in actions if action == "BLOCKED"})
    masked = "".join(output.text for output in answer.outputs)
    if policies or not masked or all(action != "ANONYMIZED" for _, action in actions):
        return Blocked(" ".join(policies) or "intervened")
    return Allowed(masked)


def _actions(assessments: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each policy's name with each action that it took: `{policy: {list: [{"action": …}]}}`."""
    for assessment in assessments:
        for policy, findings in assessment.items():
            if not (policy.endswith("Policy") and isinstance(findings, dict)):
                continue
            for found in findings.values():
                for one in found if isinstance(found, list) else ():
                    if isinstance(one, dict):
                        yield policy, str(one.get("action", ""))
