"""Does a short message find what the conversation was about?"""

from __future__ import annotations

import io
from collections.abc import Sequence
from time import thread_time

import msgspec

from ops.evaluation.subject import Subject, percentile
from ops.evaluation.table import Measure, Table
from shared.adapters.index_catalogue import IndexCatalogue, IndexRecommender
from shared.adapters.index_retriever import IndexRetriever
from shared.adapters.linear_intent_classifier import LinearIntentClassifier
from shared.bootstrap.limits import turn_limits
from shared.clock import SystemClock
from shared.contracts.identifiers import MessageId, SessionId, TenantId, TurnId, UserId
from shared.contracts.orders import Order
from shared.contracts.stored_turns import HistoryEntry
from shared.contracts.turns import TurnRequest
from shared.settings import Settings
from shared.telemetry import Metrics
from shared.turn.fan_out import FanOut, SourcePorts
from shared.turn.findings import Findings
from shared.turn.left_out import LeftOut
from shared.turn.understanding import Understanding


class LabelledFollowUp(msgspec.Struct, frozen=True):
    """Turns before a message, question and answer each, the message, and documents any of which it is about.

    No documents: the message needs none.
    """

    before: tuple[tuple[str, str], ...]
    text: str
    sources: tuple[str, ...]


class _NoOrders:
    async def of_user(self, tenant: TenantId, user: UserId, limit: int) -> Sequence[Order]:
        return ()


class _Reader:
    """Understanding and fan-out as a worker has them, without orders."""

    def __init__(self, subject: Subject) -> None:
        clock, limits = SystemClock(), turn_limits(Settings(), "orchestrator")
        left_out = LeftOut(Metrics("evaluation", "evaluation", clock, io.StringIO()))
        catalogue = IndexCatalogue(lambda: subject.index)
        sources = SourcePorts(
            retriever=IndexRetriever(lambda: subject.index, subject.embedder),
            catalogue=catalogue,
            recommender=IndexRecommender(lambda: subject.index, subject.embedder),
            orders=_NoOrders(),
        )
        classifier = LinearIntentClassifier(lambda: subject.index, subject.embedder)
        self._understanding = Understanding(classifier, catalogue, clock, limits, left_out)
        self._fan_out = FanOut(sources, clock, limits, left_out)

    async def found(self, text: str, history: Sequence[HistoryEntry]) -> set[str]:
        """The documents that would be sources of an answer."""
        wish = await self._understanding.read(text, history)
        return _documents(await self._fan_out.gather(wish, _request(text)))


async def measure_follow_ups(subject: Subject) -> Table | None:
    """Whether sources fit on `follow_ups.jsonl`; None without that file."""
    labelled = subject.labelled("follow_ups.jsonl", LabelledFollowUp)
    if not labelled:
        return None
    reader = _Reader(subject)
    alone = right = 0
    missed: list[str] = []
    spans_us: list[float] = []
    for each in labelled:
        history = [HistoryEntry(str(at), *turn) for at, turn in enumerate(each.before)]
        alone += _fits(await reader.found(each.text, ()), each)
        started = thread_time()
        found = await reader.found(each.text, history)
        spans_us.append((thread_time() - started) * 1e6)
        if _fits(found, each):
            right += 1
        else:
            missed.append(f"missed: {each.text} → {', '.join(sorted(found)) or 'nothing'}")
    return Table(
        title=f"Follow-ups: {len(labelled)} messages after a conversation",
        measures=(
            Measure(name="sources fit", value=right / len(labelled), goal=0.9),
            Measure(name="sources fit, by the message alone", value=alone / len(labelled)),
            Measure(
                name="reading and finding p50, CPU time",
                value=percentile(spans_us, 0.5),
                digits=0,
                unit="µs",
            ),
        ),
        notes=tuple(missed),
    )


def _fits(found: set[str], labelled: LabelledFollowUp) -> bool:
    return bool(found.intersection(labelled.sources)) if labelled.sources else not found


def _documents(findings: Findings) -> set[str]:
    return {passage.source_id for passage in findings.passages} | {
        title.passage.source_id for title in findings.similar
    }


def _request(text: str) -> TurnRequest:
    return TurnRequest(
        turn_id=TurnId("evaluation"),
        session_id=SessionId("evaluation"),
        message_id=MessageId("evaluation"),
        tenant=TenantId("evaluation"),
        user=UserId("evaluation"),
        text=text,
        accepted_at_ms=0,
    )
