"""Lambda entry: rebuilds the knowledge index from the documents in S3, on a schedule or when invoked by hand."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from functions.knowledge_refresh.composition import KnowledgeRefresh, build_knowledge_refresh
from functions.knowledge_refresh.refresh import RefreshReport
from shared.settings import load_settings

_SERVICE = "knowledge_refresh"
_LOGGED_NAMES = 50
logger = Logger(service=_SERVICE)


@lru_cache(maxsize=1)
def _function() -> KnowledgeRefresh:
    """Built at the first invocation, kept as long as the execution environment."""
    settings = load_settings("knowledge_refresh")
    logger.setLevel(settings.telemetry.log_level.upper())
    return build_knowledge_refresh(settings)


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
    metrics = Metrics(namespace=function.metrics_namespace, service=_SERVICE)
    metrics.add_metric("KnowledgeRefreshFaults", MetricUnit.Count, len(report.faults))
    metrics.add_metric(
        "KnowledgeRefreshReplaced", MetricUnit.Count, int(report.status == "replaced")
    )
    if report.status == "replaced":
        metrics.add_metric("KnowledgePassages", MetricUnit.Count, report.passages)
    metrics.flush_metrics()
    level = logger.error if report.status == "refused" else logger.info
    level("knowledge.refreshed", extra={"report": _brief(report)})


def _brief(report: RefreshReport) -> dict[str, Any]:
    """The report for a log line, whose size CloudWatch limits: lists end after _LOGGED_NAMES entries."""
    fields: dict[str, Any] = msgspec.to_builtins(report)
    return {
        name: value[:_LOGGED_NAMES] if isinstance(value, tuple | list) else value
        for name, value in fields.items()
    } | {f"{name}_count": len(fields[name]) for name in ("added", "changed", "removed", "faults")}
