"""Template parameters from settings: pure.

A parameter that is named like a setting (StaleAfterMs, stale_after_ms) takes the setting's value, so that
a knob turned in the environment turns in the functions too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields

from shared.settings import Settings, variable_name

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def setting_name(parameter: str) -> str:
    """The setting that a parameter or output is named after, whether it exists or not."""
    return _HUMP.sub("_", parameter).lower()


def choose_parameters(
    declared: Iterable[str],
    file_values: Mapping[str, str],
    settings: Settings,
    given: Mapping[str, str],
) -> dict[str, str]:
    """Values for the declared parameters: given before settings before the parameter file.

    Parameters that none of them names keep the template's default.
    """
    values = _setting_values(settings)
    chosen: dict[str, str] = {}
    for parameter in declared:
        if parameter in given:
            chosen[parameter] = given[parameter]
        elif setting_name(parameter) in values:
            chosen[parameter] = values[setting_name(parameter)]
        elif parameter in file_values:
            chosen[parameter] = file_values[parameter]
    return chosen


def output_variables(outputs: Mapping[str, str]) -> dict[str, str]:
    """Environment variables of the settings that stack outputs are named after."""
    known = {
        setting.name: variable_name(setting)
        for group in fields(Settings)
        for setting in fields(group.default)  # type: ignore[arg-type]  # each default is a group
    }
    return {
        known[setting_name(name)]: value
        for name, value in outputs.items()
        if setting_name(name) in known
    }


def _setting_values(settings: Settings) -> dict[str, str]:
    return {
        setting.name: str(getattr(group, setting.name))
        for group in (getattr(settings, field.name) for field in fields(settings))
        for setting in fields(group)
    }
