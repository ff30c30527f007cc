"""From a claim to a prompt: memory, intent, sources, prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shared.clock import Clock
from shared.contracts.ledger import Claimed
from shared.contracts.model import Prompt
from shared.contracts.server_frames import SourceLink
from shared.contracts.stored_turns import HistoryEntry, StoredTurn
from shared.contracts.turns import TurnRequest
from shared.policy.limits import AnswerPlan, TurnLimits
from shared.policy.token_estimate import estimate_prompt_tokens
from shared.ports import IntentClassifier, TurnStore
from shared.telemetry import Log, Metrics
from shared.turn.fan_out import FanOut, SourcePorts
from shared.turn.left_out import LeftOut
from shared.turn.memory import Memory
from shared.turn.prompt import compose_prompt
from shared.turn.understanding import Understanding

_log = Log("preparation")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What a model call needs, and what is told about it afterwards. `sources` are those that stand in the prompt."""

    prompt: Prompt
    intent: str
    sources: tuple[SourceLink, ...]
    recalled: tuple[HistoryEntry, ...]


@dataclass(frozen=True)
class Repeated:
    """The answer that an earlier attempt stored for this very turn, and the turns before it."""

    stored: StoredTurn
    recalled: tuple[HistoryEntry, ...]


def make_preparation(
    store: TurnStore,
    classifier: IntentClassifier,
    sources: SourcePorts,
    *,
    admit: Callable[[str], Awaitable[str]],
    system_prompt: Callable[[], str],
    clock: Clock,
    metrics: Metrics,
    limits: TurnLimits,
) -> Preparation:
    """A preparation over its ports."""
    left_out = LeftOut(metrics)
    return Preparation(
        Memory(store),
        Understanding(classifier, sources.catalogue, clock, limits, left_out),
        FanOut(sources, clock, limits, left_out),
        admit=admit,
        system_prompt=system_prompt,
        limits=limits,
    )


class Preparation:
    """Intent and sources help an answer; without them it is poorer, never missing. Memory is needed.

    `system_prompt` is read once per turn, so that an exchanged prompt counts from the next one on. `admit` gives the
    message as it may be worked with, or raises.
    """

    def __init__(
        self,
        memory: Memory,
        understanding: Understanding,
        fan_out: FanOut,
        *,
        admit: Callable[[str], Awaitable[str]],
        system_prompt: Callable[[], str],
        limits: TurnLimits,
    ) -> None:
        self._memory = memory
        self._understanding = understanding
        self._fan_out = fan_out
        self._admit = admit
        self._system_prompt = system_prompt
        self._limits = limits

    async def prepare(self, claimed: Claimed, plan: AnswerPlan) -> Prepared | Repeated:
        """The prompt; or the answer that an earlier attempt stored, to be delivered instead.

        Raises DependencyUnavailable without memory, MalformedMessage for a blank message, GuardrailBlocked.
        """
        recall = await self._memory.recall(claimed, limit=self._limits.cached_history_turns)
        if recall.answered is not None:
            return Repeated(recall.answered, recall.turns)
        return await self.compose(claimed.request, recall.turns, plan)

    async def compose(
        self, request: TurnRequest, recalled: tuple[HistoryEntry, ...], plan: AnswerPlan
    ) -> Prepared:
        """The prompt of a message after these turns, oldest first. Nothing is written anywhere but a line in the log.

        Raises MalformedMessage for a blank message, GuardrailBlocked.
        """
        question = await self._admit(request.text)
        wish = await self._understanding.read(question, recalled)
        findings = await self._fan_out.gather(wish, request)
        composed = compose_prompt(
            system=self._system_prompt(),
            history=recalled,
            findings=findings,
            question=question,
            plan=plan,
            max_tokens=self._limits.prompt_tokens,
        )
        _log.info(
            "turn.prepared",
            intent=wish.intent.label,
            leans=wish.leans,
            sources=len(composed.sources),
            history_turns=len(composed.prompt.messages) // 2,
            prompt_tokens=estimate_prompt_tokens(composed.prompt),
        )
        return Prepared(
            prompt=composed.prompt,
            intent=wish.intent.label,
            sources=composed.sources,
            recalled=recalled,
        )
