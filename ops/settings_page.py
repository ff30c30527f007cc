"""Renders `docs/settings.md` from the settings types, so that the page cannot drift from the code."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from shared.settings import Settings, variable_name

_HEAD = """# Settings

Generated from `shared/settings.py` by `make docs`. Each is read from the environment variable named here; a process
refuses to start when one that it needs is missing or when two contradict each other, and names them.
"""


def render() -> str:
    """The whole page, Markdown."""
    parts = [_HEAD]
    for group in fields(Settings):
        settings_type: type[Any] = type(group.default)
        parts.append(f"\n## {group.name.replace('_', ' ').capitalize()}\n")
        parts.append(f"{settings_type.__doc__}\n")
        parts.append("| variable | default | meaning | needed by |\n|---|---|---|---|")
        types = get_type_hints(settings_type)
        parts.extend(_row(setting, types[setting.name]) for setting in fields(settings_type))
    return "\n".join(parts) + "\n"


def _row(setting: Field[Any], expected: Any) -> str:
    needed_by = ", ".join(setting.metadata["required_by"])
    secret = " (secret)" if setting.metadata["secret"] else ""
    choices = f" ({' or '.join(get_args(expected))})" if get_origin(expected) is Literal else ""
    meaning = setting.metadata["doc"] + choices + secret
    return f"| `{variable_name(setting)}` | {_default(setting.default)} | {meaning} | {needed_by} |"


def _default(value: Any) -> str:
    if value in ("", ()):
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


if __name__ == "__main__":
    print(render(), end="")
