"""What of a message reaches the model, and what of a reply stays with its readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache

from shared.contracts.guardrails import Allowed, Blocked, JudgedText, Verdict
from shared.contracts.model import Prompt
from shared.errors import ChatError, GuardrailBlocked
from shared.policy.blocked_phrases import PhraseBook
from shared.ports import Guardrail
from shared.telemetry import Log, Metrics
from shared.turn.reply_filter import ReplyFilter, known_accounts

_log = Log("screening")
_NO_PHRASES = PhraseBook(())
_OVERLAP = 200
"""Characters that two reviewed pieces have in common, so that nothing hides where they meet."""


class Screening:
    """The guardrails of a process.

    `book` is read once per reply. Every `review_characters` of a shown reply, and its end, are judged by `guardrail`
    while it goes on; 0 = never. Where the guardrail cannot be asked, `fails_open` lets the text pass.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        guardrail: Guardrail | None = None,
        book: Callable[[], PhraseBook] = lambda: _NO_PHRASES,
        review_characters: int = 0,
        fails_open: bool = False,
    ) -> None:
        self._metrics = metrics
        self._guardrail = guardrail
        self._book = book
        self._review_characters = review_characters
        self._fails_open = fails_open

    async def admit(self, message: str) -> str:
        """The message as the model may see it.

        Raises GuardrailBlocked, and what the guardrail raises when it cannot be asked and nothing unjudged may pass.
        """
        if self._guardrail is None:
            return message
        verdict = await self._judge(self._guardrail, "message", message)
        if isinstance(verdict, Blocked):
            self._note_block("message", verdict.reason)
            raise GuardrailBlocked("the guardrail blocked the message")
        return verdict.text

    def open_reply(self, prompt: Prompt, interrupt: Callable[[], None]) -> ScreenedReply:
        """A reply to `prompt`; `interrupt` is called when it must end at once. The caller must close it."""
        reply_filter = ReplyFilter(self._book(), cache(lambda: known_accounts(prompt)))
        guardrail = self._guardrail
        if guardrail is None or not self._review_characters:
            return ScreenedReply(reply_filter, None, self._note_block)

        async def judge(text: str) -> Verdict:
            try:
                return await self._judge(guardrail, "reply", text)
            except ChatError:
                return Blocked("unavailable")

        review = _Review(judge, self._review_characters, interrupt)
        return ScreenedReply(reply_filter, review, self._note_block)

    async def _judge(self, guardrail: Guardrail, what: JudgedText, text: str) -> Verdict:
        try:
            return await guardrail.judge(what, text)
        except ChatError as error:
            self._metrics.count("GuardrailFailures", what=what)
            _log.warning(
                "guardrail.unavailable",
                what=what,
                passes=self._fails_open,
                error_type=type(error).__name__,
            )
            if self._fails_open:
                return Allowed(text)
            raise

    def _note_block(self, what: JudgedText, reason: str) -> None:
        self._metrics.count("GuardrailBlocks", what=what)
        _log.info("guardrail.blocked", what=what, reason=reason)


class ScreenedReply:
    """One reply on its way to its readers."""

    def __init__(
        self,
        reply_filter: ReplyFilter,
        review: _Review | None,
        note_block: Callable[[JudgedText, str], None],
    ) -> None:
        self._filter = reply_filter
        self._review = review
        self._note_block = note_block

    def feed(self, text: str) -> str:
        """What may be shown now that the model said `text`. Raises GuardrailBlocked."""
        return self._filtered(lambda: self._filter.feed(text))

    def finish(self) -> str:
        """What was held back when the answer is complete. Raises GuardrailBlocked."""
        return self._filtered(self._filter.finish)

    def check(self) -> None:
        """Raise GuardrailBlocked when what was shown has been judged so."""
        if self._review is not None and self._review.fault is not None:
            if isinstance(self._review.fault, GuardrailBlocked):
                self._note_block("reply", str(self._review.fault))
            raise self._review.fault

    async def settle(self) -> None:
        """Wait until all that was shown is judged. Raises GuardrailBlocked."""
        if self._review is not None:
            await self._review.settle()
            self.check()

    def close(self) -> None:
        """Drop what is still being judged. Idempotent."""
        if self._review is not None:
            self._review.close()

    def _filtered(self, release: Callable[[], str]) -> str:
        try:
            shown = release()
        except GuardrailBlocked:
            self._note_block("reply", "phrase")
            raise
        if self._review is not None:
            self._review.add(shown)
        return shown


class _Review:
    """Judges a growing text piece by piece, one piece at a time. `fault` is why it must not go on."""

    def __init__(
        self,
        judge: Callable[[str], Awaitable[Verdict]],
        every: int,
        interrupt: Callable[[], None],
    ) -> None:
        self.fault: Exception | None = None
        self._judge = judge
        self._every = every
        self._interrupt = interrupt
        self._unjudged = ""
        self._overlap = ""
        self._task: asyncio.Task[None] | None = None

    def add(self, text: str) -> None:
        """More was shown."""
        self._unjudged += text
        if self._task is None and len(self._unjudged) >= self._every:
            self._task = asyncio.create_task(self._run(), name="reply-review")

    async def settle(self) -> None:
        """Judge all that is left."""
        if self._task is not None:
            await self._task
        if self._unjudged and self.fault is None:
            await self._judge_piece()

    def close(self) -> None:
        """Stop judging."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while len(self._unjudged) >= self._every and self.fault is None:
            await self._judge_piece()
        self._task = None

    async def _judge_piece(self) -> None:
        piece = self._overlap + self._unjudged
        self._overlap, self._unjudged = piece[-_OVERLAP:], ""
        try:
            verdict = await self._judge(piece)
        except Exception as error:  # noqa: BLE001 - a bug, raised again by whoever reads the reply
            self.fault = error
        else:
            if isinstance(verdict, Blocked):
                self.fault = GuardrailBlocked(verdict.reason)
        if self.fault is not None:
            self._interrupt()
