import pytest

from infra.local.model_server.planning import Ending, Pace, plan_answer, plan_script
from infra.local.model_server.scripting import Script


def test_an_answer_is_cut_into_words_that_add_up_to_it():
    text = "One  two\n\n- three *four*"
    plan = plan_answer(text, 100, Pace(ttft_ms=300, tokens_per_s=50))
    assert "".join(plan.pieces) == text
    assert (plan.first_after_s, plan.interval_s, plan.stop_reason) == (0.3, 0.02, "end_turn")


def test_an_answer_longer_than_the_request_allows_stops_with_max_tokens():
    plan = plan_answer("a b c d", 2, Pace())
    assert (plan.pieces, plan.stop_reason) == (("a", " b"), "max_tokens")


@pytest.mark.parametrize(
    ("fault", "ending", "error_type"),
    [
        ("overloaded_after", Ending.ERROR_EVENT, "overloaded_error"),
        ("rate_limit_after", Ending.ERROR_EVENT, "rate_limit_error"),
        ("abort_after", Ending.RESET, None),
        ("end_after", Ending.CUT, None),
        ("stall_after", Ending.STALL, None),
    ],
)
def test_a_fault_after_n_deltas_sends_n_of_the_same_text(fault, ending, error_type):
    whole = plan_script(Script(tokens=10), 100)
    plan = plan_script(Script(tokens=10, fault=fault, fault_count=4), 100)
    assert plan.pieces == whole.pieces[:4]
    assert plan.ending is ending
    assert plan.is_fault
    assert (plan.late_error.error_type if plan.late_error else None) == error_type


@pytest.mark.parametrize(
    ("fault", "status"), [("overloaded", 529), ("rate_limit", 429), ("invalid_request", 400)]
)
def test_a_refused_call_has_no_text(fault, status):
    plan = plan_script(Script(fault=fault, retry_after_s=3), 100)
    assert plan.refusal is not None
    assert plan.refusal.status == status
    assert plan.refusal.retry_after_s == (3 if fault == "rate_limit" else None)
    assert plan.pieces == ()


def test_waiting_faults_answer_in_full_afterwards():
    pings = plan_script(Script(fault="ping_only_s", fault_count=3), 1_000)
    slow = plan_script(Script(fault="slow_start_ms", fault_count=1_500), 1_000)
    assert (pings.pings_for_s, slow.headers_after_s) == (3, 1.5)
    assert not pings.is_fault
    assert not slow.is_fault


def test_an_immediate_refusal_has_no_content_block():
    assert not plan_script(Script(fault="refusal"), 100).has_block
    assert plan_script(Script(fault="refusal", fault_count=2), 100).has_block


def test_zero_tokens_per_second_means_all_at_once():
    assert plan_script(Script(tokens_per_s=0), 100).interval_s == 0


def test_an_answer_may_take_longer_than_a_second_for_a_token():
    assert plan_answer("a b", 2, Pace(tokens_per_s=0.5)).interval_s == 2
