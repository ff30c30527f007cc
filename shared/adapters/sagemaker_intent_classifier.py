"""Port IntentClassifier by a model of one's own on a SageMaker real-time endpoint.

Request and answer are those of the Hugging Face inference containers for text classification: `{"inputs": text}`, and
a list of `{"label", "score"}`, or a list of one such list.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from shared.adapters.aws_credentials import AwsCredentials
from shared.adapters.aws_endpoint import AwsEndpoint, regional_url
from shared.adapters.http_session import HttpAnswer, HttpSession
from shared.clock import Clock
from shared.contracts.knowledge import GENERAL_INTENT, Intent
from shared.errors import ConfigurationError, DependencyUnavailable

TEXT_LIMIT_CHARACTERS: Final = 2_000
"""More than classifiers read (512 tokens), and a body that any container takes."""
_SERVICE: Final = "sagemaker"
_HEADERS: Final = {"content-type": "application/json", "accept": "application/json"}
_LABEL_LIMIT_CHARACTERS: Final = 64
_STALE_KEYS = frozenset({"ExpiredTokenException", "UnrecognizedClientException"})
_MISCONFIGURED = frozenset(
    {
        "AccessDeniedException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "ValidationError",
        "ValidationException",
    }
)


class _Score(msgspec.Struct):
    label: str
    score: float


class SageMakerIntentClassifier:
    """One endpoint. A message is judged once, within the time-out; what else to do is its caller's affair."""

    def __init__(
        self,
        *,
        endpoint: str,
        http: HttpSession,
        credentials: AwsCredentials,
        clock: Clock,
        base_url: str = "",
        timeout_ms: int,
    ) -> None:
        self._endpoint = AwsEndpoint(
            base_url or regional_url("runtime.sagemaker", credentials.region),
            setting="BURSTCHAT_SAGEMAKER_BASE_URL",
            service=_SERVICE,
            http=http,
            credentials=credentials,
            clock=clock,
            timeout_ms=timeout_ms,
        )
        self._path = f"/endpoints/{quote(endpoint, safe='')}/invocations"

    async def classify(self, text: str) -> Intent:
        """The label with the highest score; `general` with confidence 0 for a blank text, which is not sent.

        Raises DependencyUnavailable (could not ask in time, a fault of the endpoint or its model, an answer that is
        none) and ConfigurationError (no permission, no such endpoint).
        """
        if not text.strip():
            return Intent(GENERAL_INTENT, 0.0)
        cut = text[:TEXT_LIMIT_CHARACTERS].encode("utf-8", "replace").decode()
        body = msgspec.json.encode({"inputs": cut})
        answer = await self._endpoint.send("POST", self._path, _HEADERS, body)
        if answer.status != 200:
            raise self._fault(answer)
        return _likeliest(answer.body)

    def _fault(self, answer: HttpAnswer) -> ConfigurationError | DependencyUnavailable:
        code = answer.headers.get("x-amzn-errortype", "").partition(":")[0]
        if code in _STALE_KEYS:
            self._endpoint.forget_keys()
            return DependencyUnavailable(f"InvokeEndpoint: {code}")
        if code in _MISCONFIGURED:
            return ConfigurationError(
                f"InvokeEndpoint: {code}: check the role's sagemaker:InvokeEndpoint permission and "
                "BURSTCHAT_SAGEMAKER_ENDPOINT."
            )
        return DependencyUnavailable(f"InvokeEndpoint: {answer.status} {code}")


def _likeliest(body: bytes) -> Intent:
    try:
        answer = msgspec.json.decode(body, type=list[_Score | list[_Score]])
    except msgspec.MsgspecError as error:
        raise DependencyUnavailable("InvokeEndpoint: an answer that is none") from error
    scores = [score for part in answer for score in (part if isinstance(part, list) else [part])]
    best = max(scores, key=lambda score: score.score, default=None)
    if best is None or not 0 <= best.score <= 1 or not best.label.strip():
        raise DependencyUnavailable("InvokeEndpoint: an answer without a likely label")
    return Intent(best.label.strip()[:_LABEL_LIMIT_CHARACTERS], best.score)
