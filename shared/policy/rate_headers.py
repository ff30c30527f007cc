"""What the Anthropic API says of its limits in the headers of an answer."""

from __future__ import annotations

from collections.abc import Mapping

from shared.contracts.model_budget import ProviderAllowance
from shared.policy.retry_after import retry_after_ms

_PREFIX = "anthropic-ratelimit-"


def allowance_of(
    headers: Mapping[str, str], *, is_refusal: bool, now_ms: int
) -> ProviderAllowance | None:
    """The provider's limits as of this answer, None when it says nothing of them.

    Where input and output have limits of their own, the fuller one counts: the sum of both limits, and of that the
    smaller share left. A refusal for rate stops everyone for its `retry-after` (`now_ms` for one given as a date)
    only when it tells that a limit is used up, too: any other refusal is about the one call. `headers` finds names in
    any case.
    """
    requests = _pair(headers, "requests")
    inputs, outputs = _pair(headers, "input-tokens"), _pair(headers, "output-tokens")
    tokens = _pair(headers, "tokens")
    if inputs and outputs:
        limit = inputs[0] + outputs[0]
        share = min(inputs[1] / inputs[0], outputs[1] / outputs[0])
        tokens = (limit, int(limit * min(1.0, share)))
    if requests is None and tokens is None:
        return None
    is_used_up = any(pair is not None and pair[1] == 0 for pair in (requests, tokens))
    is_for_all = is_refusal and is_used_up
    pause_ms = retry_after_ms(headers.get("retry-after"), now_ms) if is_for_all else None
    return ProviderAllowance(
        requests_limit=requests[0] if requests else None,
        requests_left=requests[1] if requests else None,
        tokens_limit=tokens[0] if tokens else None,
        tokens_left=tokens[1] if tokens else None,
        pause_ms=pause_ms or 0,
    )


def _pair(headers: Mapping[str, str], name: str) -> tuple[int, int] | None:
    """Limit and what is left of it; None unless both can be read and the limit is one."""
    limit = _number(headers.get(f"{_PREFIX}{name}-limit"))
    left = _number(headers.get(f"{_PREFIX}{name}-remaining"))
    return (limit, left) if limit and left is not None else None


def _number(value: str | None) -> int | None:
    text = (value or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
