"""A function gets every setting that its code reads, or this file says why it does not.

A knob that is turned for the services and not for the functions makes the two compute paths disagree.
"""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
from cfnlint.decode import cfn_yaml

from shared.settings import PACKED, PREFIX, Settings, variable_name

ROOT = Path(__file__).parents[2]
SETTINGS = {
    setting.name: setting for group in fields(Settings) for setting in fields(group.default)
}
BOOTSTRAP = tuple((ROOT / "shared/bootstrap").glob("*.py"))

ANALYTICS_PACE = dict.fromkeys(
    ("analytics_buffer_events", "analytics_flush_ms", "kinesis_timeout_ms"),
    "a function sends its events at the end of each batch",
)
NOT_GIVEN = {
    "BurstWorker": {
        **ANALYTICS_PACE,
        "renew_interval_ms": "0 = a third of lease_ms, which is given",
        "sagemaker_base_url": "another address than SageMaker's is for tests",
        "guardrail_base_url": "another address than Bedrock's is for tests",
        "redis_connections": "functions have a fixed few: a thousand of them share one server",
        "waiting_turns_per_session": "read by `accept`, and functions accept nothing",
        "deferred_dlq_url": "only who drains or sweeps that queue buries its turns",
        "background_dlq_url": "only who drains or sweeps that queue buries its turns",
    },
    "DlqTriage": {
        **ANALYTICS_PACE,
        "redis_connections": "functions have a fixed few: a thousand of them share one server",
        "waiting_turns_per_session": "read by `accept`, and triage accepts nothing",
        "followers_per_turn": "read by `follow`, and nobody follows triage",
        "stored_turn_days": "read by `put`, and triage stores no turn",
        "retry_queue_url": "triage dispatches the next head only, which was never tried",
        **dict.fromkeys(
            (
                "lease_ms",
                "owner_lease_ms",
                "history_cached_ms",
                "reservation_ms",
                "attempts_per_turn",
                "crashes_per_turn",
            ),
            "read by claims, renewals and sweeps, and triage only ends what nobody holds",
        ),
        "push_requests_per_endpoint": "a batch of ten pushes ten frames at most",
    },
    "KnowledgeRefresh": {},
    "BacklogMetric": {
        "redis_connections": "functions have a fixed few: a thousand of them share one server",
    },
}


class Reading(ast.NodeVisitor):
    """Every setting that is read, from a module on, through what it names of shared.bootstrap."""

    def __init__(self, module: Path) -> None:
        self._defined: dict[str, list[ast.AST]] = {}
        for path in BOOTSTRAP:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self._defined.setdefault(node.name, []).append(node)
                elif isinstance(node, ast.ClassDef):
                    inits = [n for n in node.body if getattr(n, "name", "") == "__init__"]
                    self._defined.setdefault(node.name, []).extend(inits)
        self._seen: set[str] = set()
        self.settings: set[str] = set()
        self.visit(ast.parse(module.read_text()))

    def visit_Name(self, node: ast.Name) -> None:
        self._follow(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in SETTINGS:
            self.settings.add(node.attr)
        self._follow(node.attr)
        self.generic_visit(node)

    def _follow(self, name: str) -> None:
        if name not in self._seen:
            self._seen.add(name)
            for definition in self._defined.get(name, ()):
                self.visit(definition)


def given(function: str) -> set[str]:
    body = cfn_yaml.load(str(ROOT / "infra/templates/functions.yaml"))
    variables = body["Resources"][function]["Properties"]["Environment"]["Variables"]
    packed = variables.get(PACKED, {}).get("Fn::Sub", "")
    return set(variables) | {PREFIX + name for name in re.findall(r"(\w+)=", packed)}


@pytest.mark.parametrize(
    ("function", "module"),
    [
        ("BurstWorker", "functions/burst_worker/composition.py"),
        ("BacklogMetric", "functions/backlog_metric/composition.py"),
        ("DlqTriage", "functions/dlq_triage/composition.py"),
        ("KnowledgeRefresh", "functions/knowledge_refresh/composition.py"),
    ],
)
def test_every_setting_that_a_function_reads_reaches_it_or_has_a_reason(function, module):
    read = Reading(ROOT / module).settings
    missing = {name for name in read if variable_name(SETTINGS[name]) not in given(function)}
    assert missing == set(NOT_GIVEN[function])


def test_the_reading_follows_calls_into_the_bootstrap():
    read = Reading(ROOT / "functions/burst_worker/composition.py").settings
    assert {"redis_url", "lease_ms", "model_primary", "index_poll_ms", "flush_tick_ms"} <= read
    assert read.isdisjoint({"public_port", "inline_slots", "intake_urls"})
