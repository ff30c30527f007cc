"""AWS Signature Version 4 in the `Authorization` header: signing and verifying, without I/O.

Canonical form as AWS SDKs build it for every service but S3: the path as sent, dot segments removed, percent-encoded
once more; the query as sent, sorted; header values with runs of blanks folded; the SHA-256 of the body.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote

EXECUTE_API = "execute-api"
CLOCK_SKEW_LIMIT_MS = 300_000
_ALGORITHM = "AWS4-HMAC-SHA256"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 +Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request, *"
    r"SignedHeaders=([a-z0-9_;.-]+), *Signature=([0-9a-f]{64})",
    re.ASCII,
)
_AMZ_DATE = re.compile(r"\d{8}T\d{6}Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    """An access key and the region it signs for; `session_token` only for temporary credentials."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    region: str
    session_token: str | None = field(default=None, repr=False)


class SignatureFault(StrEnum):
    """Why a request is refused; each text is fit for a log, none names a secret."""

    MISSING = "no authorization header"
    MALFORMED = "authorization is not a Signature Version 4 header"
    WRONG_SCOPE = "signed for another day, region or service"
    UNKNOWN_KEY = "unknown access key"
    EXPIRED = "signed at a time more than five minutes away"
    HOST_NOT_SIGNED = "the host header is not signed"
    BODY_CHANGED = "the body differs from its declared hash"
    MISMATCH = "the signature does not match"


def sign(
    credential: Credential,
    method: str,
    host: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    at_ms: int,
    *,
    service: str = EXECUTE_API,
) -> dict[str, str]:
    """The headers to add to a request: `authorization`, `x-amz-date` and, when temporary, the token.

    `host`, `path` and `query` exactly as they go over the wire; all of `headers` (lower-case names, without
    `host`) are signed and must be sent unchanged. `at_ms` epoch milliseconds.
    """
    amz_date = _amz_date(at_ms)
    added = {"x-amz-date": amz_date}
    if credential.session_token is not None:
        added["x-amz-security-token"] = credential.session_token
    values = {"host": host, **headers, **added}
    names = sorted(values)
    body_hash = values.get("x-amz-content-sha256") or hashlib.sha256(body).hexdigest()
    request = _canonical_request(method, path, query, names, values, body_hash)
    signature = _signature(credential, service, amz_date, request)
    scope = f"{amz_date[:8]}/{credential.region}/{service}/aws4_request"
    added["authorization"] = (
        f"{_ALGORITHM} Credential={credential.access_key_id}/{scope}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return added


def verify(
    credential: Credential,
    method: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    body: bytes,
    now_ms: int,
    *,
    service: str = EXECUTE_API,
) -> SignatureFault | None:
    """None when the request was signed with `credential` at most five minutes away from `now_ms`.

    `path` and `query` raw, as received (still percent-encoded); header names in lower case. A security token is
    accepted as any signed header and not itself checked. Compares in constant time.
    """
    header = headers.get("authorization")
    if not header:
        return SignatureFault.MISSING
    parsed = _AUTHORIZATION.fullmatch(header.strip())
    amz_date = headers.get("x-amz-date", "")
    if parsed is None or _AMZ_DATE.fullmatch(amz_date) is None:
        return SignatureFault.MALFORMED
    key_id, day, region, signed_service, signed_headers, signature = parsed.groups()
    names = signed_headers.split(";")
    body_hash = hashlib.sha256(body).hexdigest()
    fault = _scope_fault(
        credential,
        key_id,
        (day, region, signed_service),
        (amz_date[:8], credential.region, service),
    ) or _time_fault(amz_date, now_ms)
    if fault is not None:
        return fault
    if "host" not in names or any(name not in headers for name in names):
        return SignatureFault.HOST_NOT_SIGNED if "host" not in names else SignatureFault.MISMATCH
    if not _same(headers.get("x-amz-content-sha256", body_hash), body_hash):
        return SignatureFault.BODY_CHANGED
    request = _canonical_request(method, path, query, names, headers, body_hash)
    expected = _signature(credential, service, amz_date, request)
    return None if _same(signature, expected) else SignatureFault.MISMATCH


def _scope_fault(
    credential: Credential, key_id: str, scope: tuple[str, ...], expected: tuple[str, ...]
) -> SignatureFault | None:
    if not _same(key_id, credential.access_key_id):
        return SignatureFault.UNKNOWN_KEY
    return None if scope == expected else SignatureFault.WRONG_SCOPE


def _time_fault(amz_date: str, now_ms: int) -> SignatureFault | None:
    try:
        at = datetime.strptime(amz_date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return SignatureFault.MALFORMED
    skew_ms = abs(now_ms - int(at.timestamp()) * 1000)
    return SignatureFault.EXPIRED if skew_ms > CLOCK_SKEW_LIMIT_MS else None


def _canonical_request(
    method: str,
    path: str,
    query: str,
    names: list[str],
    values: Mapping[str, str],
    body_hash: str,
) -> str:
    lines = [method, quote(_without_dot_segments(path), safe="/~"), _sorted_query(query)]
    lines.extend(f"{name}:{' '.join(values[name].split())}" for name in names)
    lines.extend(("", ";".join(names), body_hash))
    return "\n".join(lines)


def _signature(credential: Credential, service: str, amz_date: str, canonical: str) -> str:
    day = amz_date[:8]
    scope = f"{day}/{credential.region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    key = _signing_key(credential.secret_access_key, day, credential.region, service)
    text = f"{_ALGORITHM}\n{amz_date}\n{scope}\n{digest}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


@lru_cache(maxsize=16)
def _signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    # Changes once a day; four HMACs otherwise cost more than the rest of a signature.
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _amz_date(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, tz=UTC).strftime("%Y%m%dT%H%M%SZ")


def _sorted_query(query: str) -> str:
    if not query:
        return ""
    pairs = sorted(part.partition("=")[::2] for part in query.split("&"))
    return "&".join(f"{name}={value}" for name, value in pairs)


def _without_dot_segments(path: str) -> str:
    if "//" not in path and "/." not in path:
        return path or "/"
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in {"", "."}:
            kept.append(part)
    tail = "/" if path.endswith("/") and kept else ""
    return "/" + "/".join(kept) + tail


def _same(left: str, right: str) -> bool:
    return hmac.compare_digest(
        left.encode("utf-8", "surrogateescape"), right.encode("utf-8", "surrogateescape")
    )
