"""Where a connection's Management API listens: read and checked before anything is posted to it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from shared.errors import ConfigurationError

SETTING = "BURSTCHAT_PRIVATE_ENDPOINT"
_PORTS = {"http": 80, "https": 443}
_AWS_HOST_ENDS = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True, slots=True)
class PushEndpoint:
    """A checked endpoint. `host` is what the Host header says; `stage_path` is empty or `/{stage}`.

    API Gateway speaks TLS only and our own gateways serve the Management API as plain HTTP inside the VPC, so
    the scheme tells which of the two it is. `region` is known from API Gateway's default host names only.
    """

    scheme: str
    host: str
    stage_path: str
    is_api_gateway: bool
    region: str | None

    @property
    def origin(self) -> str:
        """Scheme and host."""
        return f"{self.scheme}://{self.host}"

    @property
    def batch_path(self) -> str:
        """The path of the batch extension, ours only."""
        return f"{self.stage_path}/@connections"

    def connection_path(self, connection_id: str) -> str:
        """The path of one connection, percent-encoded as it goes over the wire."""
        return f"{self.stage_path}/@connections/{quote(connection_id, safe='-._~')}"


def parse_push_endpoint(text: str) -> PushEndpoint:
    """Check an endpoint such as `http://10.0.3.7:8081` or `https://{id}.execute-api.{region}.amazonaws.com/prod`.

    Raises ConfigurationError, naming the setting and the fault.
    """
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise _fault(text, "is not a URL") from error
    stages = [part for part in url.path.split("/") if part]
    fault = _address_fault(url.scheme, url.hostname, text) or _path_fault(stages)
    if fault is not None:
        raise _fault(text, fault)
    host = url.hostname or ""
    region = _region(host)
    if region is not None and url.scheme != "https":
        raise _fault(text, "must use https for API Gateway")
    if region is not None and not stages:
        raise _fault(text, "lacks the API's stage, as in https://…/prod")
    name = f"[{host}]" if ":" in host else host
    return PushEndpoint(
        scheme=url.scheme,
        host=name if port in {None, _PORTS[url.scheme]} else f"{name}:{port}",
        stage_path="/" + "/".join(stages) if stages else "",
        is_api_gateway=url.scheme == "https",
        region=region,
    )


def _address_fault(scheme: str, hostname: str | None, text: str) -> str | None:
    if scheme in {"ws", "wss"}:
        return "is the address of sockets; the Management API needs http or https"
    if scheme not in _PORTS or not hostname:
        return "needs a scheme (http or https) and a host"
    if any(mark in text for mark in "?#@ ") and "@connections" not in text:
        return "must have no user, query or fragment"
    return None


def _path_fault(stages: list[str]) -> str | None:
    if "@connections" in stages:
        return "must end before /@connections"
    if len(stages) != len(set(stages)):
        return "names its stage twice"
    return None


def _region(host: str) -> str | None:
    parts = host.split(".")
    if host.endswith(_AWS_HOST_ENDS) and len(parts) > 3 and parts[1] == "execute-api":
        return parts[2]
    return None


def _fault(text: str, fault: str) -> ConfigurationError:
    return ConfigurationError(f"{SETTING}: the push endpoint {text!r} {fault}.")
