from __future__ import annotations

from pathlib import Path

import pytest

from shared.adapters import redis_scripts
from shared.adapters.redis_scripts import load_script, with_text

FOLDER = Path(redis_scripts.__file__).with_name("lua")
SCRIPTS = [path for path in FOLDER.glob("*.lua") if path.read_text().startswith("#!lua")]
PARTS = [path for path in FOLDER.glob("*.lua") if path not in SCRIPTS]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_names_itself_its_keys_and_its_answers(path: Path) -> None:
    header = [line for line in path.read_text().splitlines()[1:] if line.startswith("--")]
    assert header[0].startswith(f"-- {path.stem}: ")
    assert any(line.startswith("-- KEYS ") for line in header)
    answers = ("-- Answers ", "-- ARGV ")
    assert any(line.startswith(answers) for line in header)


def test_every_part_says_that_it_is_one() -> None:
    assert sorted(path.stem for path in PARTS) == [
        "ending",
        "followers",
        "producer",
        "session",
        "state",
    ]
    assert all(path.read_text().startswith("-- Part") for path in PARTS)


def test_call_by_hash_turns_into_the_same_call_by_text() -> None:
    call = load_script("append", "producer").call(("k1", "k2", "k3"), 1, b"x")
    assert call[0] == "EVALSHA"
    assert call[2:] == (3, "k1", "k2", "k3", 1, b"x")
    repeated = with_text(call)
    assert (repeated[0], repeated[2:]) == ("EVAL", call[2:])
    text = bytes(repeated[1])  # type: ignore[arg-type]
    assert text.startswith(b"#!lua\n")
    assert text.index(b"local function hold") < text.index(b"return hold(")


def test_a_script_is_composed_once() -> None:
    assert load_script("unfollow") is load_script("unfollow")
