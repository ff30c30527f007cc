"""`python -m loadtest.asynchronous`: many asynchronous messages within one second, then what became of each.

Nothing may be refused and nothing lost, however short the model budget of the stack is: asynchronous turns wait for it.
The exit code is 1 when a message was refused or a turn did not complete.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shared.contracts.turns import Priority

_CALLERS = 50
_POLL_S = 1.0
_CALL_TIMEOUT_S = 30.0
_UNENDED = ("waiting", "running")


@dataclass(frozen=True)
class Outcome:
    """What `count` messages came to."""

    answers: Counter[int]
    """HTTP statuses of the messages."""
    sent_within_s: float
    ends: Counter[str]
    """Statuses of the turns, unended ones included when the time was over."""
    ended_within_s: float

    @property
    def is_whole(self) -> bool:
        """True when every message was accepted and every turn completed."""
        return set(self.answers) == {202} and set(self.ends) == {"completed"}

    def __str__(self) -> str:
        answers = ", ".join(f"{count} × {status}" for status, count in self.answers.items())
        ends = ", ".join(f"{count} {status}" for status, count in self.ends.items())
        return (
            f"answered {answers} within {self.sent_within_s:.2f} s\n"
            f"turns    {ends} within {self.ended_within_s:.1f} s"
        )


def run(url: str, text: str, *, count: int, priority: Priority, patience_s: float) -> Outcome:
    """Send `count` messages, each in a session of its own, and poll their turns until all have ended."""
    started_s = time.perf_counter()
    with ThreadPoolExecutor(_CALLERS) as callers:
        sent = list(
            callers.map(lambda number: _send(url, text, number, priority, started_s), range(count))
        )
        sent_within_s = time.perf_counter() - started_s
        open_ids = {turn_id for _, turn_id in sent if turn_id}
        ends: Counter[str] = Counter()
        while open_ids and time.perf_counter() - started_s < patience_s:
            time.sleep(_POLL_S)
            statuses = dict(callers.map(lambda turn_id: (turn_id, _status(url, turn_id)), open_ids))
            ended = {turn_id for turn_id, status in statuses.items() if status not in _UNENDED}
            ends.update(_of(statuses, ended))
            open_ids -= ended
    if open_ids:
        ends.update(_of(statuses, open_ids))
    answers = Counter(status for status, _ in sent)
    return Outcome(answers, sent_within_s, ends, time.perf_counter() - started_s)


def _of(statuses: dict[str, str], turn_ids: Iterable[str]) -> list[str]:
    return [statuses[turn_id] for turn_id in turn_ids]


def _send(
    url: str, text: str, number: int, priority: Priority, started_s: float
) -> tuple[int, str | None]:
    body = {
        "text": text,
        "priority": priority,
        "session_id": f"async-{int(started_s * 1_000)}-{number}",
    }
    request = urllib.request.Request(
        f"{url}/v1/chat",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "prefer": "respond-async"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_CALL_TIMEOUT_S) as answer:
            return answer.status, json.load(answer).get("turn_id")
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, None


def _status(url: str, turn_id: str) -> str:
    with urllib.request.urlopen(f"{url}/v1/turns/{turn_id}", timeout=_CALL_TIMEOUT_S) as answer:
        status: str = json.load(answer)["status"]
    return status


def main() -> int:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.asynchronous", description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="a gateway of the stack")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--priority", choices=["high", "normal", "low"], default="normal")
    parser.add_argument("--text", default="/sim tokens=20 ttft_ms=100 tokens_per_s=100")
    parser.add_argument("--patience-s", type=float, default=900.0)
    given = parser.parse_args()
    outcome = run(
        given.url,
        given.text,
        count=given.count,
        priority=given.priority,
        patience_s=given.patience_s,
    )
    print(outcome)
    return 0 if outcome.is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
