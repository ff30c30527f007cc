"""A SageMaker endpoint over HTTP that refuses what the service's own model does not allow.

Behind it stands a classifier as the Hugging Face inference containers serve them.
"""

from __future__ import annotations

from typing import Any

import botocore.session
import msgspec

from shared.policy.sigv4 import Credential, verify
from tests.fakes.http_server import Exchange, RawRequest

CREDENTIAL = Credential("AKIDEXAMPLE", "secret", "us-east-1")
ENDPOINT = "shop-intents"
_OPERATION = (
    botocore.session.get_session()
    .get_service_model("sagemaker-runtime")
    .operation_model("InvokeEndpoint")
)
ERROR_STATUS = {
    shape.name: shape.metadata["error"]["httpStatusCode"] for shape in _OPERATION.error_shapes
}


class FakeSageMaker:
    """Scores labels by words; `fails_with` names an error of the service's model, `says` replaces the answer's body."""

    def __init__(self, labels_by_word: dict[str, str], now_ms: int) -> None:
        self.labels_by_word = labels_by_word
        self.now_ms = now_ms
        self.fails_with = ""
        self.says: bytes | None = None
        self.is_silent = False
        self.bodies: list[dict[str, Any]] = []

    async def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        if self.is_silent:
            await exchange.until_client_left()
            return
        fault = self.fails_with or _fault(request, self.now_ms)
        if fault:
            body = msgspec.json.encode({"Message": "no text of the request here"})
            headers = {"x-amzn-errortype": f"{fault}:http://internal.amazon.com/coral/"}
            await exchange.answer(ERROR_STATUS.get(fault, 403), body, headers)
            return
        self.bodies.append(msgspec.json.decode(request.body))
        headers = {
            "content-type": "application/json",
            "x-amzn-invoked-production-variant": "AllTraffic",
        }
        await exchange.answer(200, self.says or self._scores(), headers)

    def _scores(self) -> bytes:
        text = self.bodies[-1]["inputs"]
        found = [label for word, label in self.labels_by_word.items() if word in text]
        best = found[0] if found else "general"
        scores = dict.fromkeys(self.labels_by_word.values(), 0.02) | {best: 0.9}
        return msgspec.json.encode(
            [{"label": label, "score": score} for label, score in scores.items()]
        )


def _fault(request: RawRequest, now_ms: int) -> str:
    """The name of the error that the service would answer, empty for a request as its model wants it."""
    assert _OPERATION.http["requestUri"] == "/endpoints/{EndpointName}/invocations"
    members = _OPERATION.input_shape.members
    named = {shape.serialization.get("name", "").lower() for shape in members.values()}
    sent = {name for name in request.headers if name.startswith("x-amzn-sagemaker")}
    if not sent <= named or request.method != _OPERATION.http["method"] or not request.body:
        return "ValidationError"
    fault = verify(
        CREDENTIAL,
        request.method,
        request.path,
        request.query,
        request.headers,
        request.body,
        now_ms,
        service=_OPERATION.service_model.signing_name,
    )
    if fault is not None:
        return "InvalidSignatureException"
    is_known = request.path == f"/endpoints/{ENDPOINT}/invocations" and not request.query
    return "" if is_known else "ValidationError"
