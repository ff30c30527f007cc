"""What the user wants, and what to search for: the message alone, or with what it leans on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.clock import Clock
from shared.contracts.knowledge import GENERAL_INTENT, Intent
from shared.contracts.stored_turns import HistoryEntry
from shared.policy.fanout import (
    SUGGESTION_INTENT,
    TITLE_SOURCES,
    settle_intent,
    sources_for,
)
from shared.policy.follow_up import (
    LOOK_BACK_TURNS,
    SUBJECTS,
    SURE,
    asks,
    choose_subjects,
    marked_text,
    may_lean,
    points_back,
    says_little,
    search_text,
    stands_alone,
    wants_others,
)
from shared.policy.limits import TurnLimits
from shared.ports import Catalogue, IntentClassifier
from shared.turn.left_out import LeftOut, ask_within

_MOST_LISTED = 10


@dataclass(frozen=True)
class Wish:
    """The intent to act on, and the text to search for; `leans` = it means something said before."""

    intent: Intent
    search_text: str
    leans: bool = False


class Understanding:
    """Reads a message. What cannot be asked costs understanding, never an answer."""

    def __init__(
        self,
        classifier: IntentClassifier,
        catalogue: Catalogue,
        clock: Clock,
        limits: TurnLimits,
        left_out: LeftOut,
    ) -> None:
        self._classifier = classifier
        self._catalogue = catalogue
        self._clock = clock
        self._limits = limits
        self._left_out = left_out

    async def read(self, question: str, recalled: Sequence[HistoryEntry]) -> Wish:
        """The wish behind the newest message; `recalled` are the turns before it, oldest first."""
        wish = Wish(await self._classify(question), question)
        if not recalled or not may_lean(question):
            return wish
        return await ask_within(
            self._clock,
            self._limits.source_timeout_ms,
            self._resolve(wish, recalled[-LOOK_BACK_TURNS:]),
            source="follow_up",
            left_out=self._left_out,
            otherwise=wish,
        )

    async def _resolve(self, wish: Wish, recalled: Sequence[HistoryEntry]) -> Wish:
        own = await self._own_wish(wish)
        if own is not None:
            return own
        question, sources = wish.search_text, sources_for(wish.intent.label)
        together = f"{recalled[-1].user_text} {question}"
        is_idle = "retrieval" not in sources
        if is_idle and not (asks(question) and points_back(question) and says_little(question, 1)):
            return wish
        is_rule = not is_idle and not TITLE_SOURCES.intersection(sources)
        telling_words = 0 if wish.intent.confidence >= SURE else 1
        if is_rule and not (
            points_back(question)
            and says_little(question, telling_words)
            and await self._subjects(question, recalled[-1:])
        ):
            return await self._resolve_rule(wish, recalled[-1].user_text)
        if await self._catalogue.named(question, 1):
            return wish
        subjects = await self._subjects(question, recalled)
        if subjects:
            # What sounds idle, or like a parcel ("how long is it?"), is about the title that was just named.
            label = GENERAL_INTENT if is_idle or is_rule else wish.intent.label
            if label == GENERAL_INTENT and wants_others(question):
                label = SUGGESTION_INTENT
            intent = Intent(label, wish.intent.confidence)
            return Wish(intent, search_text(question, subjects), leans=True)
        if wish.intent.label != GENERAL_INTENT:
            return wish
        before = await self._classify(recalled[-1].user_text)
        return Wish(before, together, leans=True) if sources_for(before.label) else wish

    async def _own_wish(self, wish: Wish) -> Wish | None:
        """The wish of a message that says itself what to suggest ("horror", "recommend me something"), else None."""
        question, label = wish.search_text, wish.intent.label
        if label not in (SUGGESTION_INTENT, GENERAL_INTENT) or not stands_alone(question):
            return None
        if label == SUGGESTION_INTENT and not points_back(question):
            return wish
        if says_little(question) and await self._catalogue.traits(question):
            return Wish(Intent(SUGGESTION_INTENT, wish.intent.confidence), question)
        return None

    async def _resolve_rule(self, wish: Wish, before: str) -> Wish:
        """A question about rules of the store or about orders: the one before tells which are meant."""
        question = wish.search_text
        if not (points_back(question) and says_little(question)):
            return wish
        intent = wish.intent
        if "orders" not in sources_for(intent.label):
            # "When will it arrive?" after "Where is my order?" is about the order, not about parcels at large.
            earlier = await self._classify(before)
            intent = earlier if "orders" in sources_for(earlier.label) else intent
        return Wish(intent, f"{before} {question}", leans=True)

    async def _subjects(self, question: str, recalled: Sequence[HistoryEntry]) -> Sequence[str]:
        """Titles of the newest turn that named any."""
        for turn in reversed(recalled):
            asked = await self._titles(turn.user_text, SUBJECTS)
            answered = await self._titles(marked_text(turn.assistant_text), _MOST_LISTED)
            if asked or answered:
                return choose_subjects(question, asked, answered)
        return ()

    async def _titles(self, text: str, limit: int) -> Sequence[str]:
        return [passage.title for passage in await self._catalogue.named(text, limit)]

    async def _classify(self, question: str) -> Intent:
        intent = await ask_within(
            self._clock,
            self._limits.source_timeout_ms,
            self._classifier.classify(question),
            source="intent",
            left_out=self._left_out,
            otherwise=Intent(GENERAL_INTENT, 0.0),
        )
        return settle_intent(intent, self._limits.intent_confidence_floor)
