"""The Management API of the private port: AWS's names and shapes (PROTOCOL §7), and our batch extension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from services.asgi import (
    CLOSE_HEADER,
    JSON_HEADERS,
    BodyTooLarge,
    BodyTooSlow,
    Disconnected,
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    respond,
    respond_json,
)
from services.gateway.connections import Connections, Receiver
from shared.clock import Clock
from shared.contracts.identifiers import ConnectionId
from shared.contracts.pushes import (
    BATCH_CONTENT_TYPE,
    BATCH_LIMIT_BYTES,
    PUSH_LIMIT_BYTES,
    PushStatus,
    decode_batch,
    encode_statuses,
)
from shared.policy.sigv4 import Credential, verify
from shared.telemetry import Log

_MARK = "@connections"
_ERRORS = {
    400: ("BadRequestException", "The body is missing or is not text."),
    403: ("ForbiddenException", "Forbidden"),
    404: ("NotFoundException", "Not Found"),
    405: ("MethodNotAllowedException", "Method Not Allowed"),
    408: ("RequestTimeoutException", "The body did not arrive in time."),
    410: ("GoneException", "The connection is gone."),
    413: ("PayloadTooLargeException", "The message is too large."),
    429: ("LimitExceededException", "The connection's outbox is full."),
}

BODY_TIMEOUT_S = 2.0
"""As long as a worker waits for its push."""

_log = Log("management_api")

Stats = Callable[[], Mapping[str, Any]]


class ManagementApi:
    """The private port's ASGI app. Every request is signed with the service's own push credential.

    Posts for one connection keep the order in which their bodies arrived: nothing waits between body and outbox.
    """

    def __init__(
        self, connections: Connections, credential: Credential, stats: Stats, clock: Clock
    ) -> None:
        self._connections = connections
        self._credential = credential
        self._stats = stats
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP request."""
        if scope["type"] != "http":
            return
        headers = headers_of(scope)
        path = scope.get("raw_path") or scope["path"].encode()
        segments = [unquote(part) for part in path.decode("latin-1").split("/")[1:]]
        try:
            body = await read_body(receive, BATCH_LIMIT_BYTES, within_s=BODY_TIMEOUT_S)
        except BodyTooLarge:
            await _fail(send, 413, close=True)
            return
        except BodyTooSlow:
            await _fail(send, 408, close=True)
            return
        except Disconnected:
            return
        fault = verify(
            self._credential,
            scope["method"],
            path.decode("latin-1"),
            scope["query_string"].decode("latin-1"),
            headers,
            body,
            self._clock.now_ms(),
        )
        if fault is not None:
            _log.warning("request.forbidden", reason=fault.value)
            await _fail(send, 403)
        elif segments[-1] == _MARK and len(segments) <= 2:
            await self._batch(scope["method"], headers, body, send)
        elif len(segments) in {2, 3} and segments[-2] == _MARK:
            await self._one(scope["method"], ConnectionId(segments[-1]), body, send)
        elif segments == ["internal", "stats"] and scope["method"] == "GET":
            await respond_json(send, 200, self._stats())
        else:
            await _fail(send, 404)

    async def _one(self, method: str, connection_id: ConnectionId, body: bytes, send: Send) -> None:
        receiver = self._connections.find(connection_id)
        if method == "POST":
            status = self._deliver(connection_id, body)
            await (respond(send, 200) if status == PushStatus.SENT else _fail(send, status))
        elif method not in {"GET", "DELETE"}:
            await _fail(send, 405)
        elif receiver is None:
            await _fail(send, 410)
        elif method == "GET":
            await respond_json(send, 200, _description(receiver))
        else:
            receiver.disconnect()
            await respond(send, 204)

    async def _batch(
        self, method: str, headers: Mapping[str, str], body: bytes, send: Send
    ) -> None:
        if method != "POST":
            await _fail(send, 405)
            return
        if headers.get("content-type", "").partition(";")[0].strip().lower() != BATCH_CONTENT_TYPE:
            await _fail(send, 400)
            return
        lines = decode_batch(body)
        if lines is None:
            await _fail(send, 400)
            return
        statuses = [
            _batch_status(self._deliver(line.connection_id, line.data.encode())) for line in lines
        ]
        await respond(send, 200, encode_statuses(statuses), JSON_HEADERS)

    def _deliver(self, connection_id: ConnectionId, data: bytes) -> int:
        if len(data) > PUSH_LIMIT_BYTES:
            return PushStatus.TOO_LARGE
        if not data or not _is_text(data):
            return 400
        return self._connections.deliver(connection_id, data)


def _is_text(data: bytes) -> bool:
    # It travels as a text message, and a client must fail the whole connection over bad UTF-8.
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _batch_status(status: int) -> PushStatus:
    """A batch answers with the codes of the push port only; an empty line counts as delivered."""
    return PushStatus.SENT if status == 400 else PushStatus(status)


def _description(receiver: Receiver) -> dict[str, object]:
    return {
        "connectedAt": _iso(receiver.connected_at_ms),
        "lastActiveAt": _iso(receiver.last_active_at_ms),
        "identity": {
            "sourceIp": receiver.peer.address,
            "userAgent": receiver.peer.user_agent,
        },
    }


def _iso(at_ms: int) -> str:
    stamp = datetime.fromtimestamp(at_ms / 1_000, tz=UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


async def _fail(send: Send, status: int, *, close: bool = False) -> None:
    kind, message = _ERRORS[status]
    headers = [(b"x-amzn-errortype", kind.encode())]
    if close:
        headers.append(CLOSE_HEADER)
    await respond_json(send, status, {"message": message}, headers)
