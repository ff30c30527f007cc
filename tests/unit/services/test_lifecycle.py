import asyncio
import os
import signal

import pytest

from services.lifecycle import (
    EXIT_CONFIGURATION,
    EXIT_CRASH,
    PartStopped,
    StopSignals,
    run_parts,
    run_process,
)
from shared.errors import ConfigurationError


class FakePart:
    def __init__(self, name: str, journal: list[str]) -> None:
        self.name = name
        self.end = asyncio.Event()
        self.error: Exception | None = None
        self._journal = journal

    async def run(self) -> None:
        self._journal.append(f"{self.name} runs")
        try:
            await self.end.wait()
            if self.error is not None:
                raise self.error
        finally:
            self._journal.append(f"{self.name} stopped")


@pytest.fixture
def journal() -> list[str]:
    return []


@pytest.fixture
def parts(journal: list[str]) -> list[FakePart]:
    return [FakePart("monitor", journal), FakePart("server", journal)]


def start(parts, drain, *, signals, limit_s=5.0):
    return asyncio.create_task(
        run_parts(parts, drain=drain, drain_limit_s=limit_s, signals=signals)
    )


@pytest.mark.case("B-07")
async def test_parts_keep_running_during_the_drain_and_stop_in_reverse(parts, journal):
    signals = StopSignals()

    async def drain() -> None:
        journal.append("drain")
        await asyncio.sleep(0)
        journal.append("drained")

    running = start(parts, drain, signals=signals)
    await asyncio.sleep(0)
    signals.receive()
    await running

    assert journal == [
        "monitor runs",
        "server runs",
        "drain",
        "drained",
        "server stopped",
        "monitor stopped",
    ]


@pytest.mark.case("B-07")
async def test_a_second_signal_cuts_the_drain(parts, journal):
    signals = StopSignals()

    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = start(parts, endless, signals=signals, limit_s=3_600)
    await asyncio.sleep(0)
    signals.receive()
    await begun.wait()
    signals.receive()
    await running

    assert journal[-2:] == ["server stopped", "monitor stopped"]


@pytest.mark.case("B-07")
async def test_the_drain_ends_at_its_limit(parts, journal):
    signals = StopSignals()
    signals.receive()
    await start(parts, asyncio.Event().wait, signals=signals, limit_s=0.01)
    assert journal[-1] == "monitor stopped"


async def test_a_crashed_part_drains_and_stops_its_siblings_and_is_raised(parts, journal):
    async def drain() -> None:
        journal.append("drain")

    running = start(parts, drain, signals=StopSignals())
    await asyncio.sleep(0)
    parts[1].error = OSError("gone")
    parts[1].end.set()
    with pytest.raises(OSError, match="gone"):
        await running
    assert journal[2:] == ["server stopped", "drain", "monitor stopped"]


async def test_a_part_that_ends_by_itself_counts_as_crashed(parts):
    async def drain() -> None: ...

    running = start(parts, drain, signals=StopSignals())
    await asyncio.sleep(0)
    parts[0].end.set()
    with pytest.raises(PartStopped, match="monitor"):
        await running


async def test_a_failing_drain_still_stops_the_parts(parts, journal):
    async def drain() -> None:
        raise RuntimeError

    signals = StopSignals()
    signals.receive()
    await start(parts, drain, signals=signals)
    assert journal[-2:] == ["server stopped", "monitor stopped"]


async def test_cancelling_the_group_stops_the_parts(parts, journal):
    running = start(parts, asyncio.Event().wait, signals=StopSignals())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert journal[-2:] == ["server stopped", "monitor stopped"]


async def test_signals_of_the_process_are_received():
    signals = StopSignals()
    signals.install()
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(signals.drain_asked.wait(), 5)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(signals.exit_asked.wait(), 5)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


def test_a_configuration_error_is_one_line_and_its_own_exit_code(capsys):
    async def main() -> None:
        raise ConfigurationError("BURSTCHAT_X is missing:\n  the port.")

    with pytest.raises(SystemExit) as stopped:
        run_process(main)
    assert stopped.value.code == EXIT_CONFIGURATION
    assert capsys.readouterr().err == "cannot start: BURSTCHAT_X is missing: the port.\n"


def test_a_crash_and_an_ordered_stop_have_their_exit_codes():
    async def crash() -> None:
        raise RuntimeError

    async def stop() -> None: ...

    with pytest.raises(SystemExit) as crashed:
        run_process(crash)
    with pytest.raises(SystemExit) as stopped:
        run_process(stop)
    assert (crashed.value.code, stopped.value.code) == (EXIT_CRASH, 0)
