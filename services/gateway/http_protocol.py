"""uvicorn's HTTP protocol, opened up for answers that go on for long: what is unsent, and a way to cut a peer off."""

from __future__ import annotations

from typing import Any, cast

from services.asgi import Scope
from services.gateway.http_socket import Transport
from services.http_protocol import HttpProtocol

_EXTENSION = "burstchat.transport"


class GatewayHttpProtocol(HttpProtocol):
    """Puts the request's transport into the ASGI scope."""

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        scope = cast("dict[str, Any]", self.scope)
        scope["extensions"] = {_EXTENSION: self.transport}


def transport_of(scope: Scope) -> Transport:
    """The TCP connection of a request that this protocol received."""
    transport: Transport = scope["extensions"][_EXTENSION]
    return transport
