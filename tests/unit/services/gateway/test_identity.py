from __future__ import annotations

import jwt
import pytest

from services.gateway.identity import Identities, Identity, Unauthorized, is_allowed_origin
from tests.fakes.clock import FakeClock

SECRET = "a-secret-of-sixty-four-bytes-" + "x" * 40
CLOCK = FakeClock()
NOW_S = CLOCK.now_ms() // 1_000


def identities(mode: str = "jwt") -> Identities:
    return Identities(
        mode=mode,  # type: ignore[arg-type]
        secret=SECRET,
        audience="burstchat",
        issuer="issuer",
        clock=CLOCK,
    )


def token(secret: str = SECRET, algorithm: str = "HS256", **changes: object) -> str:
    claims = {"sub": "ann", "exp": NOW_S + 60, "aud": "burstchat", "iss": "issuer", **changes}
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(present, secret, algorithm=algorithm)


def test_a_bearer_token_in_the_header_names_the_user() -> None:
    who = identities().identify(f"Bearer {token(tenant='acme')}")
    assert who == Identity("acme", "ann", (NOW_S + 60) * 1_000)


def test_a_browser_brings_the_token_as_a_subprotocol() -> None:
    who = identities().identify(None, ["burstchat.v1", f"bearer.{token()}"])
    assert (who.tenant, who.user) == ("default", "ann")


def test_a_token_without_our_subprotocol_does_not_count() -> None:
    with pytest.raises(Unauthorized):
        identities().identify(None, [f"bearer.{token()}"])
    with pytest.raises(Unauthorized):
        identities().identify(None, ["burstchat.v1"])


def test_the_header_comes_before_the_subprotocol() -> None:
    other = token(sub="bob")
    who = identities().identify(f"bearer {token()}", ["burstchat.v1", f"bearer.{other}"])
    assert who.user == "ann"


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer x.y.z",
        "Basic YTpi",
        f"Bearer {token(secret='another-secret-of-thirty-two-bytes-or-more')}",
        f"Bearer {token(algorithm='HS512')}",
        f"Bearer {token(aud='other')}",
        f"Bearer {token(iss='other')}",
        f"Bearer {token(exp=NOW_S - 6)}",
        f"Bearer {token(exp=None)}",
        f"Bearer {token(exp=1e308)}",
        f"Bearer {token(nbf=NOW_S + 60)}",
        f"Bearer {token(nbf=True)}",
        f"Bearer {token(aud=None)}",
        f"Bearer {token(iss=None)}",
        f"Bearer {token(sub='')}",
        f"Bearer {token(sub='a' * 129)}",
        "Bearer " + token(sub="a\0b"),
        f"Bearer {token(tenant='')}",
        f"Bearer {token(tenant=5)}",
        "Bearer " + jwt.encode({"sub": "ann"}, "", algorithm="none"),
    ],
)
def test_anything_else_is_refused(authorization: str | None) -> None:
    with pytest.raises(Unauthorized):
        identities().identify(authorization)


def test_a_token_may_be_a_little_late_or_early() -> None:
    assert identities().identify(f"Bearer {token(exp=NOW_S - 4, nbf=NOW_S + 4)}").user == "ann"


def test_dev_admits_without_a_token_but_not_with_a_bad_one() -> None:
    assert identities("dev").identify(None) == Identity("default", "dev", None)
    with pytest.raises(Unauthorized):
        identities("dev").identify("Bearer nonsense")


def test_an_issued_token_is_accepted() -> None:
    issued, expires_at_ms = identities().issue("ann", "acme", 60_000)
    assert identities().identify(f"Bearer {issued}") == Identity("acme", "ann", expires_at_ms)
    with pytest.raises(ValueError, match="printable"):
        identities().issue("a\nb", "acme", 60_000)


@pytest.mark.parametrize(
    ("origin", "host", "allowed", "verdict"),
    [
        (None, "a.example", (), True),
        ("https://a.example", "a.example", (), True),
        ("https://A.example:8443", "a.example:8443", (), True),
        ("https://evil.example", "a.example", (), False),
        ("https://a.example", None, (), False),
        ("null", "a.example", (), False),
        ("https://[", "a.example", (), False),
        ("https://b.example", "a.example", ("https://b.example/",), True),
        ("https://a.example", "a.example", ("https://b.example",), False),
    ],
)
def test_origins(
    origin: str | None, host: str | None, allowed: tuple[str, ...], verdict: bool
) -> None:
    assert is_allowed_origin(origin, host, allowed) is verdict
