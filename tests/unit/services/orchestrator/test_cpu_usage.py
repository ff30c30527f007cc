from pathlib import Path

import pytest

from services.orchestrator.cpu_usage import WINDOW, CpuMeter, parse_quota_cpus, usable_cpus
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("50000 100000\n", 0.5),
        ("200000 100000", 2.0),
        ("max 100000", None),
        ("", None),
        ("0 100000", None),
        ("5 0", None),
    ],
)
def test_quota_is_read_from_cpu_max(text: str, cpus: float | None):
    assert parse_quota_cpus(text) == cpus


@pytest.mark.parametrize(
    ("text", "cpus"), [("50000 100000", 0.5), ("400000 100000", 1.0), ("max 100000", 1.0)]
)
def test_a_loop_can_fill_its_quota_but_never_more_than_one_core(
    tmp_path: Path, text: str, cpus: float
):
    (tmp_path / "cpu.max").write_text(text)
    assert usable_cpus(tmp_path / "cpu.max") == cpus


def test_without_a_cgroup_one_core_is_assumed(tmp_path: Path):
    assert usable_cpus(tmp_path / "absent") == 1.0


def test_cpu_share_is_what_was_used_over_the_window():
    clock, used_s = FakeClock(), 10.0
    meter = CpuMeter(clock, 0.5, lambda: used_s)
    assert meter.share() == 0.0
    clock.skip(1)
    used_s += 0.25
    assert meter.share() == pytest.approx(0.5)
    clock.skip(1)
    assert meter.share() == pytest.approx(0.25)
    for _ in range(WINDOW):
        clock.skip(1)
    assert [round(meter.share(), 2) for _ in range(WINDOW)][-1] == 0.0


def test_the_time_before_the_first_reading_does_not_count():
    clock, used_s = FakeClock(), 0.0
    meter = CpuMeter(clock, 1.0, lambda: used_s)
    used_s = 30.0  # start-up
    assert meter.share() == 0.0
    clock.skip(1)
    assert meter.share() == 0.0
