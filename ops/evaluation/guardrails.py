"""Is personal data masked where a person says so, and what do the local guardrails cost?

Goals: of what is masked 98 % must be personal data, as every wrong mask takes a word from an answer; of what a person
marked 95 % must be masked. The lines of the first file have shaped the rules, those of the second have not.
A cost is CPU time, as nothing here waits; the filter's is told beside that of the reply's own bookkeeping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import thread_time

import msgspec

from ops.evaluation.subject import Subject, percentile
from ops.evaluation.table import Measure, Table
from shared.contracts.model import TextDelta
from shared.policy.blocked_phrases import PhraseBook
from shared.policy.pii import find_pii, mask_pii
from shared.turn.reply import Reply, fold, fresh_text
from shared.turn.reply_filter import ReplyFilter

ROUNDS = 200
REPLY = (
    "Volume 12 of this series is out and ships in 3 to 5 days; it costs 9.99 EUR like all others."
)
TOKENS = [REPLY[start : start + 4] for start in range(0, len(REPLY), 4)]


class LabelledMessage(msgspec.Struct, frozen=True):
    """A message and its personal data as pairs of kind and words."""

    text: str
    pii: tuple[tuple[str, str], ...]


class _Score:
    """Finds held against labels."""

    def __init__(self, lines: list[LabelledMessage]) -> None:
        self.right = self.found = self.labelled = 0
        self.notes: list[str] = []
        for line in lines:
            wanted = Counter(line.pii)
            found = Counter(
                (str(kind), line.text[slice(*span)]) for kind, span in find_pii(line.text)
            )
            self.right += (wanted & found).total()
            self.found += found.total()
            self.labelled += wanted.total()
            self.notes += [f"wrongly masked: {line.text}" for _ in (found - wanted).elements()]
            self.notes += [f"not masked: {line.text}" for _ in (wanted - found).elements()]

    def measures(self, name: str) -> tuple[Measure, Measure]:
        """Precision and recall."""
        return (
            Measure(name=f"{name}: precision", value=self.right / max(self.found, 1), goal=0.98),
            Measure(name=f"{name}: recall", value=self.right / max(self.labelled, 1), goal=0.95),
        )


async def measure_guardrails(subject: Subject) -> Table | None:
    """Precision and recall on `guardrails/pii*.jsonl`, and costs; None without these files."""
    tuned = subject.labelled("guardrails/pii.jsonl", LabelledMessage)
    held_out = subject.labelled("guardrails/pii_held_out.jsonl", LabelledMessage)
    if not (tuned and held_out):
        return None
    scores = (_Score(tuned), _Score(held_out))
    book = PhraseBook(subject.corpus.blocked)
    filtering_us = _median_us(lambda: _filter_reply(book)) / len(TOKENS)
    bookkeeping_us = _median_us(_fold_reply) / len(TOKENS)
    return Table(
        title=f"Guardrails: {len(tuned)} labelled messages, {len(held_out)} held out",
        measures=(
            *scores[0].measures("personal data"),
            *scores[1].measures("personal data, held out"),
            _cost("mask a message, p99", _spans_us(tuned, lambda line: mask_pii(line.text))),
            _cost("first text through the filter, p99", _first_text_us(book)),
            Measure(name="filter per token", value=filtering_us, digits=2, unit="µs"),
            Measure(
                name="filter per token, of the reply's bookkeeping",
                value=filtering_us / bookkeeping_us,
                digits=1,
                unit="x",
            ),
        ),
        notes=tuple(note for score in scores for note in score.notes),
    )


def _cost(name: str, spans_us: list[float]) -> Measure:
    return Measure(
        name=f"{name}, CPU time",
        value=percentile(spans_us, 0.99),
        digits=0,
        unit="µs",
        goal=1_000,
        at_most=True,
    )


def _spans_us(
    lines: list[LabelledMessage], work: Callable[[LabelledMessage], object]
) -> list[float]:
    spans: list[float] = []
    for line in lines * 5:
        started = thread_time()
        work(line)
        spans.append((thread_time() - started) * 1e6)
    return spans


def _first_text_us(book: PhraseBook) -> list[float]:
    spans: list[float] = []
    for _ in range(ROUNDS):
        started = thread_time()
        ReplyFilter(book, frozenset).feed("Hello")
        spans.append((thread_time() - started) * 1e6)
    return spans


def _filter_reply(book: PhraseBook) -> None:
    reply_filter = ReplyFilter(book, frozenset)
    for token in TOKENS:
        reply_filter.feed(token)
    reply_filter.finish()


def _fold_reply() -> None:
    reply = Reply()
    for token in TOKENS:
        before, reply = reply, fold(reply, [TextDelta(token)])
        fresh_text(before, reply)


def _median_us(work: Callable[[], None]) -> float:
    spans: list[float] = []
    for _ in range(ROUNDS):
        started = thread_time()
        work()
        spans.append((thread_time() - started) * 1e6)
    return percentile(spans, 0.5)
