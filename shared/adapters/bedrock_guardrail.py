"""Amazon Bedrock Guardrails, asked with ApplyGuardrail: it judges texts without a model call of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.http_session import HttpSession
from shared.clock import Clock
from shared.contracts.guardrails import Allowed, Blocked, JudgedText, Verdict
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import sign

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
        parts = urlsplit(base_url or f"https://bedrock-runtime.{credentials.region}.amazonaws.com")
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ConfigurationError(
                f"BURSTCHAT_GUARDRAIL_BASE_URL: {base_url!r} is no http address."
            )
        self._http = http
        self._credentials = credentials
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
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
        signature = sign(
            await self._credentials.current(),
            "POST",
            self._host,
            self._path,
            "",
            _HEADERS,
            body,
            self._clock.now_ms(),
            service=_SERVICE,
        )
        answer = await self._http.send(
            "POST",
            self._origin,
            self._path,
            headers={**_HEADERS, **signature},
            body=body,
            timeout_s=self._timeout_s,
        )
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
            self._credentials.forget()
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
