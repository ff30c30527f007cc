"""An HttpSession that records requests and answers from a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.adapters.http_session import HttpAnswer, HttpSession


@dataclass
class HttpCall:
    method: str
    origin: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class FakeHttp(HttpSession):
    """`answers` are given in order, the last one again and again."""

    answers: list[tuple[int, bytes] | Exception] = field(default_factory=lambda: [(200, b"{}")])
    calls: list[HttpCall] = field(default_factory=list)

    async def send(
        self,
        method: str,
        origin: str,
        target: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        timeout_s: float,
    ) -> HttpAnswer:
        answer = self.answers[min(len(self.calls), len(self.answers) - 1)]
        self.calls.append(HttpCall(method, origin, target, headers, body))
        if isinstance(answer, Exception):
            raise answer
        return HttpAnswer(answer[0], {}, answer[1])
