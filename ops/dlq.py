"""`burstchat dlq`: see what died and why, run it again, or drop it."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import getpass
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from ops.dlq_campaign import Campaign
from ops.dlq_deployment import find_deployment
from ops.dlq_text import (
    groups_text,
    report_fields,
    report_text,
    turn_fields,
    turn_text,
    turns_text,
)
from shared.bootstrap.redrive import RedrivePorts, open_redrive_ports
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.dead_turns import DeadTurnBrief
from shared.errors import ChatError
from shared.policy.triage import group_dead_turns
from shared.turn.redrive import Redrive

EXIT_STOPPED = 3
"""The canary did not come through; the rest is untouched."""
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_clock = SystemClock()


def add_dlq_verbs(verbs: Any) -> None:
    """Add `dlq` with its own verbs to the command line."""
    dlq = verbs.add_parser("dlq", help="dead letters: list, show, redrive, discard")
    of_dlq = dlq.add_subparsers(dest="dlq_verb", required=True, metavar="VERB")

    def verb(name: str, help_text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = of_dlq.add_parser(
            name, help=help_text, description=help_text
        )
        added.add_argument("--json", action="store_true", help="for programs")
        return added

    verb("list", "dead turns by fingerprint, the latest first")
    show = verb("show", "one dead turn, or the turns of a fingerprint")
    show.add_argument("target", metavar="TURN|FINGERPRINT")
    show.add_argument("--text", action="store_true", help="with the words of user and model")
    redrive = verb("redrive", "run dead turns again: a canary first, then the rest")
    redrive.add_argument("target", metavar="TURN|FINGERPRINT")
    redrive.add_argument("--rate", type=_positive, default=1.0, help="turns a second (1)")
    redrive.add_argument("--wait", type=_positive, default=120.0, help="for the canary, s (120)")
    discard = verb("discard", "note that nothing is to be done about dead turns")
    discard.add_argument("target", metavar="TURN|FINGERPRINT")
    discard.add_argument("--why", required=True, help="kept in the trail")
    for acting in (redrive, discard):
        acting.add_argument("--by", default=_user(), help="who does it (you)")


def run_dlq(options: argparse.Namespace) -> int:
    """Run one verb and answer the exit code."""
    try:
        return asyncio.run(_run(options))
    except ChatError as error:
        print(f"burstchat: {error}", file=sys.stderr)
        return 1


async def _run(options: argparse.Namespace) -> int:
    settings, credential = await asyncio.to_thread(find_deployment)
    async with open_redrive_ports(settings, _clock, SystemRandomness(), credential) as ports:
        match options.dlq_verb:
            case "list":
                return await _list(ports, options)
            case "show":
                return await _show(ports, options)
            case "redrive":
                return await _redrive(ports, options)
            case _:
                return await _discard(ports, options)


async def _list(ports: RedrivePorts, options: argparse.Namespace) -> int:
    turns: list[DeadTurnBrief] = []
    for fingerprint in await ports.dead_turns.fingerprints():
        turns += await ports.dead_turns.of_fingerprint(fingerprint)
    groups = group_dead_turns(turns)
    _say(options, [dataclasses.asdict(group) for group in groups], groups_text(groups))
    return 0


async def _show(ports: RedrivePorts, options: argparse.Namespace) -> int:
    if _FINGERPRINT.fullmatch(options.target):
        turns = await ports.dead_turns.of_fingerprint(options.target)
        if turns:
            _say(options, msgspec.to_builtins(turns), turns_text(turns))
            return 0
    turn = await ports.dead_turns.find(options.target)
    if turn is None:
        return _unknown(options.target)
    with_text = options.text
    _say(options, turn_fields(turn, with_text=with_text), turn_text(turn, with_text=with_text))
    return 0


async def _redrive(ports: RedrivePorts, options: argparse.Namespace) -> int:
    campaign = Campaign(
        _redrive_of(ports),
        ports.dead_turns,
        _clock,
        by=options.by,
        rate_per_s=options.rate,
        wait_s=options.wait,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )
    turns = await _of_fingerprint(ports, options.target)
    report = await (campaign.many(turns) if turns else campaign.one(options.target))
    if [result.outcome for result in report.results] == ["unknown"]:
        return _unknown(options.target)
    _say(options, report_fields(report), report_text(report))
    return EXIT_STOPPED if report.stopped else 0


async def _discard(ports: RedrivePorts, options: argparse.Namespace) -> int:
    redrive = _redrive_of(ports)
    turns = await _of_fingerprint(ports, options.target)
    targets = [turn.id for turn in turns] or [options.target]
    discarded = [
        turn_id
        for turn_id in targets
        if await redrive.discard(turn_id, by=options.by, why=options.why)
    ]
    if not turns and not discarded and await ports.dead_turns.find(options.target) is None:
        return _unknown(options.target)
    kept = len(targets) - len(discarded)
    _say(
        options,
        {"discarded": discarded, "not_open": kept},
        f"{len(discarded)} discarded, {kept} were not open: nothing changed there",
    )
    return 0


async def _of_fingerprint(ports: RedrivePorts, target: str) -> Sequence[DeadTurnBrief]:
    if not _FINGERPRINT.fullmatch(target):
        return ()
    return await ports.dead_turns.of_fingerprint(target)


def _redrive_of(ports: RedrivePorts) -> Redrive:
    return Redrive(
        dead_turns=ports.dead_turns,
        revival=ports.revival,
        sessions=ports.sessions,
        store=ports.store,
        queue=ports.turn_queue,
        clock=_clock,
    )


def _say(options: argparse.Namespace, fields: Any, text: str) -> None:
    try:
        print(json.dumps(fields, ensure_ascii=False) if options.json else text, flush=True)
    except BrokenPipeError:
        # Whoever read has what they wanted. At exit Python would flush once more, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unknown(target: str) -> int:
    print(f"burstchat: {target} is no dead turn and no fingerprint of one", file=sys.stderr)
    return 1


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "unknown"


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError
    return number
