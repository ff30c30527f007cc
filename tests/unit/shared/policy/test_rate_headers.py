"""The Anthropic API's headers about its limits."""

from __future__ import annotations

import pytest

from shared.contracts.model_budget import ProviderAllowance
from shared.policy.rate_headers import allowance_of


def headers(**values: str) -> dict[str, str]:
    return {f"anthropic-ratelimit-{name.replace('_', '-')}": each for name, each in values.items()}


REQUESTS = headers(requests_limit="4000", requests_remaining="3999")


USED_UP = headers(requests_limit="4000", requests_remaining="0")


def heard(found: dict[str, str], *, is_refusal: bool = False) -> ProviderAllowance | None:
    return allowance_of(found, is_refusal=is_refusal, now_ms=1_000)


def test_an_answer_without_such_headers_says_nothing():
    assert heard({"request-id": "r"}) is None


def test_requests_and_tokens_are_read():
    tokens = headers(tokens_limit="80000", tokens_remaining="79000")

    assert heard(REQUESTS | tokens) == ProviderAllowance(
        requests_limit=4_000, requests_left=3_999, tokens_limit=80_000, tokens_left=79_000
    )


def test_either_may_be_missing():
    assert heard(headers(tokens_limit="8", tokens_remaining="7")) == ProviderAllowance(
        tokens_limit=8, tokens_left=7
    )
    assert heard(REQUESTS) == ProviderAllowance(requests_limit=4_000, requests_left=3_999)


def test_of_input_and_output_the_fuller_one_counts():
    found = headers(
        input_tokens_limit="400000",
        input_tokens_remaining="400000",
        output_tokens_limit="80000",
        output_tokens_remaining="20000",
        tokens_limit="80000",
        tokens_remaining="20000",
    )

    assert heard(found) == ProviderAllowance(tokens_limit=480_000, tokens_left=120_000)


@pytest.mark.parametrize("value", ["", "many", "-1", "1.5", "\u0661", "9" * 20])
def test_what_cannot_be_read_is_not_said(value):
    assert heard(headers(requests_limit="4000", requests_remaining=value)) is None


def test_a_limit_of_nothing_is_none():
    assert heard(headers(requests_limit="0", requests_remaining="0")) is None


@pytest.mark.parametrize(
    "used_up", [USED_UP, REQUESTS | headers(tokens_limit="80000", tokens_remaining="0")]
)
def test_a_refusal_that_tells_of_a_limit_used_up_stops_everyone_until_its_retry_after(used_up):
    told = heard(used_up | {"retry-after": "7"}, is_refusal=True)

    assert told is not None
    assert told.pause_ms == 7_000


def test_a_refusal_without_the_limits_or_with_something_left_is_about_the_one_call():
    assert heard({"retry-after": "7"}, is_refusal=True) is None
    told = heard(REQUESTS | {"retry-after": "7"}, is_refusal=True)

    assert told is not None
    assert told.pause_ms == 0


def test_an_answer_is_no_refusal_whatever_it_says():
    told = heard(USED_UP | {"retry-after": "7"})

    assert told is not None
    assert told.pause_ms == 0


def test_a_refusal_without_a_time_stops_nobody():
    told = heard(USED_UP, is_refusal=True)

    assert told is not None
    assert told.pause_ms == 0
