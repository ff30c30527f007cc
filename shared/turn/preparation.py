"""From a claim to a prompt: memory, intent, sources, prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.clock import Clock
from shared.contracts.knowledge import GENERAL_INTENT, Intent, Passage
from shared.contracts.ledger import Claimed
from shared.contracts.model import Prompt
from shared.contracts.server_frames import SourceLink
from shared.contracts.stored_turns import HistoryEntry, StoredTurn
from shared.policy.fanout import settle_intent, sources_for
from shared.policy.history_window import fit_history
from shared.policy.limits import AnswerPlan, TurnLimits
from shared.ports import IntentClassifier, Retriever
from shared.telemetry import Log
from shared.turn.deadline import within
from shared.turn.memory import Memory
from shared.turn.prompt import build_prompt, source_links

_log = Log("preparation")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a model call needs, and what is told about it afterwards."""

    prompt: Prompt
    intent: str
    sources: tuple[SourceLink, ...]
    recalled: tuple[HistoryEntry, ...]


@dataclass(frozen=True)
class Repeated:
    """The answer that an earlier attempt stored for this very turn, and the turns before it."""

    stored: StoredTurn
    recalled: tuple[HistoryEntry, ...]


class Preparation:
    """Intent and sources help an answer; without them it is poorer, never missing. Memory is needed.

    `system_prompt` is read once per turn, so that an exchanged prompt counts from the next one on.
    """

    def __init__(
        self,
        memory: Memory,
        classifier: IntentClassifier,
        retriever: Retriever,
        clock: Clock,
        *,
        system_prompt: Callable[[], str],
        limits: TurnLimits,
    ) -> None:
        self._memory = memory
        self._classifier = classifier
        self._retriever = retriever
        self._clock = clock
        self._system_prompt = system_prompt
        self._limits = limits

    async def prepare(self, claimed: Claimed, plan: AnswerPlan) -> Prepared | Repeated:
        """The prompt; or the answer that an earlier attempt stored, to be delivered instead.

        Raises DependencyUnavailable without memory, MalformedMessage for a blank message.
        """
        recall = await self._memory.recall(claimed, limit=self._limits.cached_history_turns)
        if recall.answered is not None:
            return Repeated(recall.answered, recall.turns)
        question = claimed.request.text
        intent = await self._classify(question)
        passages = await self._retrieve(question) if sources_for(intent.label) else ()
        history = fit_history(
            recall.turns, max_turns=plan.history_turns, max_tokens=plan.history_tokens
        )
        prompt = build_prompt(
            system=self._system_prompt(),
            history=history,
            passages=passages,
            question=question,
            plan=plan,
        )
        return Prepared(
            prompt=prompt,
            intent=intent.label,
            sources=source_links(passages),
            recalled=recall.turns,
        )

    async def _classify(self, question: str) -> Intent:
        try:
            intent = await within(
                self._clock, self._limits.source_timeout_ms, self._classifier.classify(question)
            )
        except Exception as error:  # noqa: BLE001 - a broken classifier must not cost an answer
            _log.warning("intent.unknown", error_type=type(error).__name__)
            return Intent(GENERAL_INTENT, 0.0)
        return settle_intent(intent, self._limits.intent_confidence_floor)

    async def _retrieve(self, question: str) -> Sequence[Passage]:
        try:
            return await within(
                self._clock,
                self._limits.source_timeout_ms,
                self._retriever.search(question, self._limits.passages_per_prompt),
            )
        except Exception as error:  # noqa: BLE001 - a broken source must not cost an answer
            _log.warning("source.left_out", source="retrieval", error_type=type(error).__name__)
            return ()
