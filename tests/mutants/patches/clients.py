"""The reducers of both clients and the load test's eyes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PYTHON = "clients/reducer.py"
_JAVASCRIPT = "clients/web/reducer.js"
_SUITE = "tests/contract/test_client_cases.py"
_PYTHON_CASES = f"{_SUITE}::test_python_reducer_passes_the_case"
_JAVASCRIPT_CASES = f"{_SUITE}::test_javascript_reducer_passes_the_case"
_LOAD = "loadtest/observed_turn.py"
_LOAD_TEST = "tests/unit/loadtest/test_observed_turn.py"

MUTANTS = (
    Mutant(
        "P2",
        "an older attempt's frames are applied",
        _PYTHON,
        "    if frame.attempt < turn.attempt:\n        return Folded(turn)\n",
        "",
        _PYTHON_CASES,
    ),
    Mutant(
        "P2",
        "text of two attempts mixes",
        _PYTHON,
        'last_seq=-1, text="", held={}',
        "last_seq=-1, held={}",
        _PYTHON_CASES,
    ),
    Mutant(
        "P2",
        "repeats are applied",
        _PYTHON,
        "    if frame.seq <= turn.last_seq:\n        return Folded(turn)\n",
        "",
        _PYTHON_CASES,
    ),
    Mutant(
        "P2 B-08",
        "a gap is passed over",
        _PYTHON,
        "    if frame.seq > turn.last_seq + 1:\n        return ask_again(_hold(turn, frame), now_ms)\n",
        "",
        _PYTHON_CASES,
    ),
    Mutant(
        "P2",
        "the text is not checked at the end",
        _PYTHON,
        "return len(text) == length and hashlib.sha256(text.encode()).hexdigest() == sha256",
        "return True",
        _PYTHON_CASES,
    ),
    Mutant(
        "P11",
        "any number of frames is held",
        _PYTHON,
        "if frame.seq in turn.held or len(turn.held) >= HELD_LIMIT:",
        "if frame.seq in turn.held:",
        _PYTHON_CASES,
    ),
    Mutant(
        "B-26",
        "a resume is asked for with every frame",
        _PYTHON,
        "if turn.turn_id is None or (sent_at_ms is not None and "
        "now_ms - sent_at_ms < RESUME_REPEAT_MS):",
        "if turn.turn_id is None:",
        _PYTHON_CASES,
    ),
    Mutant(
        "P1",
        "an end before any claim is ignored",
        _JAVASCRIPT,
        "if (isTerminal(frame) && frame.attempt === 0) return ended(apply(turn, frame));",
        "",
        _JAVASCRIPT_CASES,
    ),
    Mutant(
        "P2",
        "an older attempt's frames are applied in the browser",
        _JAVASCRIPT,
        "if (frame.attempt < turn.attempt) return unchanged;",
        "",
        _JAVASCRIPT_CASES,
    ),
    Mutant(
        "P2",
        "code units are counted instead of characters",
        _JAVASCRIPT,
        "Array.from(text).length === length",
        "text.length === length",
        _JAVASCRIPT_CASES,
    ),
    Mutant(
        "P2",
        "held frames are not applied in the browser",
        _JAVASCRIPT,
        "frame = held.get(turn.last_seq + 1);",
        "frame = undefined;",
        _JAVASCRIPT_CASES,
    ),
    Mutant(
        "P2",
        "a blocked answer stays in the browser",
        _JAVASCRIPT,
        'text: frame.retract ? "" : turn.text,',
        "text: turn.text,",
        _JAVASCRIPT_CASES,
    ),
    Mutant(
        "B-26",
        "clients come back on one beat",
        "clients/backoff.py",
        "return int(chance * ceiling_ms)",
        "return ceiling_ms",
        "tests/unit/clients/test_backoff.py"
        "::test_two_thousand_clients_do_not_come_back_on_one_beat",
    ),
    Mutant(
        "B-40",
        "the load test overlooks a turn without an end",
        _LOAD,
        'return self.state.status if self._terminals else "lost"',
        "return self.state.status",
        f"{_LOAD_TEST}::test_missing_end_is_a_lost_turn",
    ),
    Mutant(
        "B-40",
        "the load test overlooks repeats",
        _LOAD,
        "            self.faults.append(REPEATED)",
        "            pass",
        f"{_LOAD_TEST}::test_each_fault_is_named",
    ),
)
