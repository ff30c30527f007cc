import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.contracts.load import FleetLoad, LoadSample
from shared.policy.admission import (
    RETRY_AFTER_MAX_MS,
    RETRY_AFTER_MIN_MS,
    BurstLimits,
    SlotCount,
    Strain,
    StrainLimits,
    burst_refusal,
    door_refusal,
    next_strain,
    place,
    takeover_reserve,
)

STRAIN = StrainLimits(lag_high_ms=100, lag_low_ms=40, cpu_high_share=0.8, cpu_low_share=0.6)
BURST = BurstLimits(capacity_turns=1_000, waiting_turns=5_000, wait_ms=45_000)


def fleet(
    waiting: int = 0,
    *,
    slots: int = 100,
    running: int = 0,
    mean: float = 4_000,
    model_wait: float = 0,
) -> FleetLoad:
    sample = LoadSample(
        worker="w",
        at_ms=0,
        slots=slots,
        running=running,
        lag_ms=0,
        cpu_share=0,
        mean_turn_ms=mean,
        model_wait_ms=model_wait,
    )
    return FleetLoad(samples=(sample,), burst_waiting=waiting)


def decide(
    running: int,
    *,
    slots: int = 100,
    strain: Strain = "none",
    draining: bool = False,
    takeover: bool = False,
    over_share: bool = False,
    queued: bool = False,
    crowding: bool = False,
    waiting: int = 0,
    model_wait: float = 0,
):
    return place(
        count=SlotCount(slots, running),
        strain=strain,
        is_draining=draining,
        is_takeover=takeover,
        is_over_share=over_share,
        is_queued=queued,
        is_crowding=crowding,
        load=fleet(waiting, model_wait=model_wait),
        limits=BURST,
    )


def test_a_free_slot_takes_the_turn_at_once():
    assert decide(0) == decide(94)
    assert (decide(0).path, decide(0).reason) == ("inline", "free_slot")


def test_a_turn_that_would_be_too_old_when_the_model_budget_lets_it_go_is_shed_at_once():
    assert decide(0, model_wait=44_999).path == "inline"
    for running in (0, 100):
        shed = decide(running, model_wait=45_000)
        assert (shed.path, shed.reason, shed.retry_after_ms) == (None, "model_budget", 22_500)
    full = fleet(slots=100, running=100, model_wait=50_000)
    refusal = door_refusal(full, BURST)
    assert refusal is not None
    assert refusal.reason == "model_budget"


def test_takeovers_and_queued_turns_wait_for_the_model_budget_in_their_slot():
    assert decide(0, model_wait=50_000, takeover=True).path == "inline"
    assert decide(0, model_wait=50_000, queued=True).path == "inline"


@pytest.mark.case("B-07")
def test_a_draining_task_gives_out_no_slot_and_its_turns_overflow_like_all_others():
    assert (decide(0, draining=True).path, decide(0, draining=True).reason) == ("burst", "draining")
    full = decide(0, draining=True, waiting=BURST.waiting_turns)
    assert (full.path, full.reason) == (None, "burst_full")
    for kind in ({"takeover": True}, {"queued": True}):
        left = decide(0, draining=True, **kind)
        assert (left.path, left.reason) == (None, "draining")


def test_the_slot_that_comes_free_is_used_without_hysteresis():
    assert decide(95).path == "burst"
    assert decide(94).path == "inline"


def test_a_twentieth_of_the_slots_is_kept_for_takeovers():
    assert decide(95).reason == "takeover_reserve"
    assert decide(99, takeover=True).path == "inline"
    assert decide(100, takeover=True).path is None


@pytest.mark.parametrize(("slots", "kept"), [(8, 0), (19, 0), (20, 1), (39, 1), (100, 5)])
def test_takeover_reserve_is_a_rounded_down_twentieth(slots: int, kept: int):
    assert takeover_reserve(slots) == kept


def test_without_a_slot_the_turn_overflows():
    assert (decide(100).path, decide(100).reason) == ("burst", "no_slots")


@pytest.mark.parametrize("strain", ["lag", "cpu"])
def test_a_strained_task_takes_nothing_inline_although_slots_are_free(strain: Strain):
    assert (decide(0, strain=strain).path, decide(0, strain=strain).reason) == ("burst", strain)


def test_a_tenant_over_its_share_overflows():
    assert (decide(60, over_share=True).path, decide(60, over_share=True).reason) == (
        "burst",
        "tenant_share",
    )
    assert decide(60, over_share=True, takeover=True).path == "inline"


def test_takeovers_and_queued_turns_are_never_put_on_a_second_queue():
    assert decide(100, takeover=True).path is None
    assert decide(100, queued=True).path is None
    assert decide(0, queued=True).path == "inline"


def test_a_tenant_that_crowds_the_queue_is_shed_from_it_and_keeps_its_slots():
    shed = decide(100, crowding=True)
    assert (shed.path, shed.reason) == (None, "tenant_share")
    assert decide(50, crowding=True).path == "inline"
    assert decide(100, crowding=True, waiting=5_000).reason == "burst_full"


def test_the_turn_is_shed_when_too_many_wait_in_burst():
    shed = decide(100, waiting=5_000)
    assert (shed.path, shed.reason) == (None, "burst_full")
    assert shed.retry_after_ms is not None


def test_the_turn_is_shed_when_its_wait_would_outlive_it():
    refusal = burst_refusal(fleet(4_000, mean=12_000), BURST)
    assert refusal is not None
    assert (refusal.path, refusal.reason) == (None, "burst_wait")


@pytest.mark.case("B-31")
def test_overflow_starts_from_taken_slots_while_the_processor_is_idle():
    assert decide(100, strain=next_strain("none", 1, 0.1, STRAIN)).path == "burst"


def test_the_door_refuses_only_what_nobody_could_take():
    assert door_refusal(fleet(5_000, running=50), BURST) is None
    assert door_refusal(fleet(10, running=100), BURST) is None
    assert door_refusal(fleet(5_000, running=95), BURST) is not None


def test_strain_is_entered_above_the_high_mark_and_left_below_both_low_marks():
    assert next_strain("none", 101, 0, STRAIN) == "lag"
    assert next_strain("none", 0, 0.81, STRAIN) == "cpu"
    assert next_strain("lag", 39, 0.7, STRAIN) == "lag"
    assert next_strain("cpu", 50, 0.1, STRAIN) == "cpu"
    assert next_strain("lag", 39, 0.59, STRAIN) == "none"


@given(
    start=st.sampled_from(["none", "lag", "cpu"]),
    samples=st.lists(st.tuples(st.floats(40, 100), st.floats(0.6, 0.8)), max_size=50),
)
@pytest.mark.case("B-31")
def test_inside_the_band_the_strain_never_changes(
    start: Strain, samples: list[tuple[float, float]]
):
    strain = start
    for lag_ms, cpu in samples:
        strain = next_strain(strain, lag_ms, cpu, STRAIN)
        assert strain == start


RANK = {"inline": 0, "burst": 1, None: 2}
running = st.integers(0, 300)
waiting = st.integers(0, 10_000)


@given(running, running, waiting, waiting, st.sampled_from(["none", "lag", "cpu"]), st.booleans())
def test_more_load_never_gives_a_better_place(
    low: int, more: int, few: int, extra: int, strain: Strain, takeover: bool
):
    calm = decide(low, strain=strain, takeover=takeover, waiting=few)
    loaded = decide(low + more, strain=strain, takeover=takeover, waiting=few + extra)
    assert RANK[loaded.path] >= RANK[calm.path]


@given(running, waiting, st.booleans(), st.booleans(), st.booleans())
def test_every_refusal_says_when_to_come_back_and_nothing_else_does(
    taken: int, behind: int, takeover: bool, queued: bool, over_share: bool
):
    decision = decide(
        taken, takeover=takeover, queued=queued, over_share=over_share, waiting=behind
    )
    if decision.path is None:
        assert decision.retry_after_ms is not None
        assert RETRY_AFTER_MIN_MS <= decision.retry_after_ms <= RETRY_AFTER_MAX_MS
    else:
        assert decision.retry_after_ms is None
