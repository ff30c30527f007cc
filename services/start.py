"""The first steps of every service process, before it has opened anything."""

from __future__ import annotations

from dataclasses import dataclass

from services.lifecycle import StopSignals
from shared.clock import Clock, Randomness, SystemClock, SystemRandomness
from shared.settings import Role, Settings, load_settings, unknown_variables
from shared.telemetry import Log, configure_logging

_log = Log("start")


@dataclass(frozen=True)
class Start:
    """What a composition root builds on."""

    settings: Settings
    clock: Clock
    randomness: Randomness
    signals: StopSignals


def start_process(role: Role) -> Start:
    """Read the settings, begin to log, and take over the signals of this process; on the running loop.

    Raises ConfigurationError for settings that cannot be used. A variable that nobody reads is only logged.
    """
    clock = SystemClock()
    settings = load_settings(role)
    configure_logging(role, settings.telemetry.log_level, clock)
    for name, nearest in unknown_variables().items():
        _log.warning("setting.unknown", name=name, nearest=nearest)
    signals = StopSignals()
    signals.install()
    return Start(settings, clock, SystemRandomness(), signals)
