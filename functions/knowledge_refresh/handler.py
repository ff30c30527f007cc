"""Lambda entry: rebuilds the knowledge index from the documents in S3, on a schedule or when invoked by hand."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from functions.knowledge_refresh.composition import (
    ROLE,
    KnowledgeRefresh,
    build_knowledge_refresh,
)
from functions.knowledge_refresh.refresh import RefreshReport
from shared.telemetry import Log

_LOGGED_NAMES = 20
_log = Log(ROLE)


@lru_cache(maxsize=1)
def _function() -> KnowledgeRefresh:
    """Built at the first invocation, kept as long as the execution environment."""
    return build_knowledge_refresh()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Refresh once and answer the report; the event's content does not matter.

    A refused corpus is an answer (trying again cannot help), an S3 failure is raised, so that Lambda tries again.
    """
    del event, context
    function = _function()
    report = function.refresh()
    _tell(report, function)
    answer: dict[str, Any] = msgspec.to_builtins(report)
    return answer


def _tell(report: RefreshReport, function: KnowledgeRefresh) -> None:
    """One line for the refresh and one for each of the first faults; file names and counts, no texts."""
    function.metrics.count("KnowledgeRefreshFaults", len(report.faults))
    function.metrics.count("KnowledgeRefreshReplaced", int(report.status == "replaced"))
    if report.status == "replaced":
        function.metrics.gauge("KnowledgePassages", report.passages)
    _log.info(
        "knowledge.refreshed",
        status=report.status,
        added=_brief(report.added),
        added_count=len(report.added),
        changed=_brief(report.changed),
        changed_count=len(report.changed),
        removed=_brief(report.removed),
        removed_count=len(report.removed),
        documents=report.documents,
        passages=report.passages,
        examples=report.examples,
        index_bytes=report.index_bytes,
        faults_count=len(report.faults),
    )
    for fault in report.faults[:_LOGGED_NAMES]:
        _log.error(
            "knowledge.refused", document=fault.document, line=fault.line, reason=fault.reason
        )


def _brief(names: tuple[str, ...]) -> str:
    """The first names; the count beside them tells whether there are more."""
    return " ".join(names[:_LOGGED_NAMES])
