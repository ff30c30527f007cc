"""An OpenSearch domain in memory that speaks as much of its HTTP API as burstchat uses, and refuses the rest."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from shared.policy.sigv4 import Credential, verify
from tests.fakes.http_server import Exchange

CREDENTIAL = Credential("AKIDOPENSEARCH", "secret", "us-east-1")
_SOURCES = {
    "_score / (_score + params.half) / 2": lambda score, params: (
        score / (score + params["half"]) / 2
    ),
    "Math.max(_score - 0.5, 0)": lambda score, params: max(score - 0.5, 0.0),
}


class FakeOpenSearch:
    """Indices by name; `status` answers every request so instead, `now_ms` is when signatures are judged."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.status = 0
        self.loses_writes = False
        self.indices: dict[str, dict[str, Any]] = {}
        self.mappings: dict[str, Any] = {}
        self.aliases: dict[str, set[str]] = {}

    async def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        fault = verify(
            CREDENTIAL,
            request.method,
            request.path,
            request.query,
            request.headers,
            request.body,
            self.now_ms,
            service="es",
        )
        if fault is not None or self.status:
            await exchange.answer_json({"error": "refused"}, self.status or 403)
            return
        status, answer = self._answer(request.method, request.path, request.body)
        await exchange.answer_json(answer, status)

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        match method, path.strip("/").split("/"):
            case "POST", ["_bulk"]:
                return 200, self._bulk(body)
            case "POST", ["_aliases"]:
                return 200, self._turn(json.loads(body)["actions"])
            case "GET", ["_alias", alias]:
                behind = self.aliases.get(alias, set())
                return (200 if behind else 404), {name: {"aliases": {alias: {}}} for name in behind}
            case "POST", [_, "_refresh"]:
                return 200, {}
            case "POST", [alias, "_search"]:
                return self._search(alias, json.loads(body))
            case "PUT", [name]:
                if name in self.indices:
                    return 400, {"error": {"type": "resource_already_exists_exception"}}
                self.indices[name], self.mappings[name] = {}, json.loads(body)
                return 200, {}
            case "GET", [name]:
                return (200 if name in self.indices else 404), {}
            case "DELETE", [name]:
                del self.indices[name]
                return 200, {}
        return 405, {}

    def _bulk(self, body: bytes) -> dict[str, Any]:
        lines = [json.loads(line) for line in body.splitlines()]
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            place = action["index"]
            known = self.mappings[place["_index"]]["mappings"]["properties"]
            assert document.keys() <= known.keys(), "the mapping is strict"
            if not self.loses_writes:
                self.indices[place["_index"]][place["_id"]] = document
        return {"errors": self.loses_writes, "items": []}

    def _turn(self, actions: list[dict[str, Any]]) -> dict[str, Any]:
        for action in actions:
            [(what, place)] = action.items()
            behind = self.aliases.setdefault(place["alias"], set())
            (behind.add if what == "add" else behind.discard)(place["index"])
        return {"acknowledged": True}

    def _search(self, alias: str, request: dict[str, Any]) -> tuple[int, Any]:
        behind = self.aliases.get(alias, set())
        if not behind:
            return 404, {"error": {"type": "index_not_found_exception"}}
        documents = [each for name in behind for each in self.indices[name].values()]
        scored = [(_score(request["query"], document), document) for document in documents]
        scored.sort(key=lambda pair: -pair[0])
        hits = [
            {"_score": score, "_source": {key: document[key] for key in request["_source"]}}
            for score, document in scored[: request["size"]]
            if score > 0
        ]
        return 200, {"took": 1, "hits": {"hits": hits}}


def _score(query: dict[str, Any], document: dict[str, Any]) -> float:
    [(kind, body)] = query.items()
    match kind:
        case "bool":
            return sum(_score(each, document) for each in body["should"])
        case "script_score":
            inner = _score(body["query"], document)
            script = body["script"]
            return _SOURCES[script["source"]](inner, script["params"]) if inner else 0.0
        case "constant_score":
            names = set(body["filter"]["terms"]["names"])
            return float(body["boost"]) if names & set(document["names"]) else 0.0
        case "match":
            asked = set(re.findall(r"\w+", body["content"]["query"].lower()))
            held = re.findall(r"\w+", document["content"].lower())
            return 3.0 * len(asked & set(held))
        case "knn":
            vector = body["vector"]["vector"]
            assert any(vector), "cosinesimil refuses a vector of zeros"
            if "vector" not in document:
                return 0.0
            return (1 + float(np.dot(vector, document["vector"]))) / 2
    raise AssertionError(f"unknown query {kind}")
