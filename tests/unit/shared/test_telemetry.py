"""Logs are events with ids; metrics are EMF lines."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from shared.clock import SystemClock
from shared.telemetry import Log, Metrics, bind, configure_logging, describe_stack


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    buffer = io.StringIO()
    configure_logging("gateway", "info", SystemClock(), buffer)
    yield buffer
    root.handlers[:] = kept
    root.setLevel(level)


def test_an_event_carries_the_ids_of_its_context_and_its_own_fields(stream: io.StringIO) -> None:
    with bind(turn_id="t1", attempt=2):
        Log("pipeline").info("turn.claimed", worker="w")
    Log("pipeline").info("turn.idle")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["event"] == "turn.claimed"
    assert (first["turn_id"], first["attempt"], first["worker"]) == ("t1", 2, "w")
    assert first["role"] == "gateway"
    assert "turn_id" not in second


def test_a_field_never_hides_a_column_of_the_line(stream: io.StringIO) -> None:
    Log("pipeline").info("load.level", level="mild", role="x")
    line = json.loads(stream.getvalue())
    assert (line["level"], line["role"]) == ("info", "gateway")
    assert (line["field_level"], line["field_role"]) == ("mild", "x")


def test_a_debug_event_is_left_out_at_info(stream: io.StringIO) -> None:
    Log("pipeline").debug("turn.detail")
    assert stream.getvalue() == ""


def test_an_exception_shows_places_and_types_but_no_values(stream: io.StringIO) -> None:
    try:
        try:
            raise KeyError("my secret text")
        except KeyError as cause:
            raise ValueError("more secret text") from cause
    except ValueError as error:
        Log("pipeline").exception("turn.bug", error)
        assert "test_telemetry.py" in describe_stack(error)
    line = stream.getvalue()
    assert "KeyError" in line
    assert "ValueError" in line
    assert "secret" not in line


def test_a_metric_is_one_emf_line_with_bounded_dimensions() -> None:
    buffer = io.StringIO()
    Metrics("burstchat", "gateway", SystemClock(), buffer).count("TurnEnded", status="completed")
    line = json.loads(buffer.getvalue())
    directive = line["_aws"]["CloudWatchMetrics"][0]
    assert directive["Dimensions"] == [["Role", "Status"]]
    assert directive["Metrics"] == [{"Name": "TurnEnded", "Unit": "Count"}]
    assert line["TurnEnded"] == 1
    assert line["Status"] == "completed"
