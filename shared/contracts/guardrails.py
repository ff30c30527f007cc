"""What a guardrail says of a text."""

from __future__ import annotations

from typing import Literal

import msgspec

JudgedText = Literal["message", "reply"]


class Allowed(msgspec.Struct, frozen=True):
    """The text may go on; `text` is what goes on, parts of it masked where the guardrail says so."""

    text: str


class Blocked(msgspec.Struct, frozen=True):
    """The text must not go on. `reason` names rules or policies, never words of the text."""

    reason: str


Verdict = Allowed | Blocked
