"""The guardrail that needs nobody: personal data in messages is masked, blocked phrases are blocked."""

from __future__ import annotations

from collections.abc import Callable

from shared.contracts.guardrails import Allowed, Blocked, JudgedText, Verdict
from shared.policy.blocked_phrases import PhraseBook, PhraseMatcher
from shared.policy.pii import mask_pii


class LocalGuardrail:
    """Never waits and never fails. Phrases count in replies alone: a user may quote what the assistant may not say."""

    def __init__(self, book: Callable[[], PhraseBook], *, masks_pii: bool) -> None:
        self._book = book
        self._masks_pii = masks_pii

    async def judge(self, what: JudgedText, text: str) -> Verdict:
        """Mask a message, look through a reply."""
        if what == "message":
            return Allowed(mask_pii(text).text if self._masks_pii else text)
        matcher = PhraseMatcher(self._book())
        if matcher.read(text) or matcher.finish():
            return Blocked("phrase")
        return Allowed(text)
