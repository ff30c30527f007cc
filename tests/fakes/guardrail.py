"""A guardrail that says what the test wants."""

from __future__ import annotations

import asyncio

from shared.contracts.guardrails import Allowed, Blocked, JudgedText, Verdict


class FakeGuardrail:
    """Blocks texts that hold a forbidden word, masks others; raises what `faults` holds for the kind of text."""

    def __init__(self, *forbidden: str) -> None:
        self.forbidden = forbidden
        self.masks: dict[str, str] = {}
        self.faults: dict[JudgedText, Exception] = {}
        self.gate = asyncio.Event()  # judging replies waits for it
        self.gate.set()
        self.judged: list[tuple[JudgedText, str]] = []

    async def judge(self, what: JudgedText, text: str) -> Verdict:
        self.judged.append((what, text))
        await asyncio.sleep(0)
        if what == "reply":
            await self.gate.wait()
        if what in self.faults:
            raise self.faults[what]
        if any(word in text for word in self.forbidden):
            return Blocked("word")
        for word, mask in self.masks.items():
            text = text.replace(word, mask)
        return Allowed(text)
