from __future__ import annotations

import pytest

from clients.address import ServerAddress


@pytest.mark.parametrize(
    ("given", "socket", "origin"),
    [
        ("http://127.0.0.1:8080", "ws://127.0.0.1:8080/ws", "http://127.0.0.1:8080"),
        ("https://chat.example/", "wss://chat.example/ws", "https://chat.example"),
        ("wss://chat.example/ws", "wss://chat.example/ws", "https://chat.example"),
        ("localhost:9000", "ws://localhost:9000/ws", "http://localhost:9000"),
        ("https://example.com/chat/", "wss://example.com/chat/ws", "https://example.com/chat"),
    ],
)
def test_address_names_socket_and_origin(given: str, socket: str, origin: str) -> None:
    address = ServerAddress.parse(given)
    assert address.socket_url(None) == socket
    assert address.origin == origin


def test_address_carries_the_session_and_quotes_turn_ids() -> None:
    address = ServerAddress.parse("http://h")
    assert address.socket_url("s 1") == "ws://h/ws?session_id=s%201"
    assert address.turn_url("s1.01/J") == "http://h/v1/turns/s1.01%2FJ"


@pytest.mark.parametrize("given", ["ftp://h", "http://", ""])
def test_address_refuses_what_is_no_server(given: str) -> None:
    with pytest.raises(ValueError, match="not the address"):
        ServerAddress.parse(given)


@pytest.mark.parametrize(("given", "expected"), [("http://[::1]:1", True), ("http://h", False)])
def test_address_knows_loopback(given: str, expected: bool) -> None:
    assert ServerAddress.parse(given).is_loopback is expected
