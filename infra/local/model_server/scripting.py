"""The `/sim` line: what a user message may order the model server to do (PROTOCOL §8).

Pure: text in, script out. A script that cannot be read is an error that says which word is wrong,
because a mistyped fault that silently does nothing makes a test prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

TextKind = Literal["lorem", "emoji", "cjk", "leak"]

# Fault name → the count it takes when the script gives none; None = the fault takes no count.
FAULTS: dict[str, int | None] = {
    "overloaded": None,
    "overloaded_after": 1,
    "rate_limit": None,
    "rate_limit_after": 1,
    "abort_after": 1,
    "end_after": 1,
    "stall_after": 1,
    "ping_only_s": 1,
    "refusal": 0,
    "max_tokens": None,
    "empty": None,
    "slow_start_ms": 1_000,
    "invalid_request": None,
}
MAX_TOKENS = 100_000
_MAX_TOKENS_PER_S = 100_000


class Mistyped(Exception):
    """A script with an unknown word or a value out of range; the text names it."""


@dataclass(frozen=True, slots=True)
class Script:
    """One parsed `/sim` line. `times` None = every call fails; `tokens_per_s` 0 = all at once."""

    tokens: int = 100
    ttft_ms: int = 300
    tokens_per_s: int = 50
    text: TextKind = "lorem"
    seed: int = 1
    fault: str | None = None
    fault_count: int = 0
    times: int | None = None
    id: str = ""
    keep: bool = False
    retry_after_s: int | None = None

    def without_fault(self) -> Script:
        """The same script once its failing calls are used up."""
        return replace(self, fault=None)


# A prompt may wrap the user's words, so a line or the text behind a tag counts as a beginning.
_SIM_LINE = re.compile(r"(?:\A|[\n>])[ \t]*/sim(?=\s|<|\Z)([^\n<]*)")
_INTEGERS = {
    "tokens": MAX_TOKENS,
    "ttft_ms": 600_000,
    "tokens_per_s": _MAX_TOKENS_PER_S,
    "seed": 2**31,
    "times": 1_000_000,
    "retry_after_s": 86_400,
}
_TEXT_KINDS: tuple[TextKind, ...] = ("lorem", "emoji", "cjk", "leak")


def find_script(texts: Sequence[str]) -> Script | None:
    """The script of a user message given as its text blocks, or None.

    The user's own words are the last block; earlier blocks are retrieved passages and are never
    searched, so that a document that mentions `/sim` does not steer anything.

    Raises:
        Mistyped: the line is a script but has an unknown word or a value out of range.
    """
    if not texts:
        return None
    found = _SIM_LINE.search(texts[-1].lstrip())
    return None if found is None else parse_script(found.group(1))


def parse_script(words: str) -> Script:
    """Parse the words behind `/sim`; raises Mistyped naming the first bad one."""
    values: dict[str, object] = {}
    for word in words.split():
        name, separator, value = word.partition("=")
        if not separator or name not in _NAMES:
            raise Mistyped(f"/sim: unknown word {word!r}; known: {', '.join(sorted(_NAMES))}")
        if name == "fault":
            values["fault"], values["fault_count"] = _fault(value)
        else:
            values[name] = _value(name, value)
    return Script(**values)  # type: ignore[arg-type]  # each name is checked above


_NAMES = {field.name for field in fields(Script)} - {"fault_count"}


def _value(name: str, value: str) -> object:
    if name in _INTEGERS:
        return _integer(name, value, _INTEGERS[name])
    if name == "keep":
        return _integer(name, value, 1) == 1
    if name == "text":
        if value not in _TEXT_KINDS:
            raise Mistyped(f"/sim: text={value!r} is none of {', '.join(_TEXT_KINDS)}")
        return value
    return value


def _fault(value: str) -> tuple[str, int]:
    name, separator, count = value.partition(":")
    if name not in FAULTS:
        raise Mistyped(f"/sim: unknown fault {name!r}; known: {', '.join(FAULTS)}")
    default = FAULTS[name]
    if not separator:
        return name, default or 0
    if default is None:
        raise Mistyped(f"/sim: fault {name!r} takes no count")
    return name, _integer(name, count, 1_000_000)


def _integer(name: str, value: str, highest: int) -> int:
    if not value.isascii() or not value.isdigit() or int(value[:12]) > highest:
        raise Mistyped(f"/sim: {name}={value!r} is not a whole number from 0 to {highest}")
    return int(value)
