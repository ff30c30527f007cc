from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.coverage_gate import DECISIONS, FLOORS, Part, describe, read_report

RULES = """
[importlinter:contract:pure-core]
source_modules =
    shared.policy
    shared.turn.reply
    services.gateway.session
    clients.reducer
"""


def found(lines: int, missing: tuple[int, ...] = (), branches: int = 0, **fields: Any) -> dict:
    untaken = fields.get("untaken", ())
    return {
        "summary": {
            "covered_lines": lines - len(missing),
            "num_statements": lines,
            "covered_branches": branches - len(untaken),
            "num_branches": branches,
        },
        "missing_lines": list(missing),
        "missing_branches": [list(arc) for arc in untaken],
    }


def parts(tmp_path: Path, files: dict[str, Any]) -> dict[str, Part]:
    report, rules = tmp_path / "coverage.json", tmp_path / "rules"
    report.write_text(json.dumps({"files": files}))
    rules.write_text(RULES)
    return {part.name: part for part in read_report(report, rules)}


def test_what_decides_is_one_part_wherever_it_lies(tmp_path: Path) -> None:
    measured = parts(
        tmp_path,
        {
            "shared/policy/admission.py": found(10),
            "shared/turn/reply.py": found(10),
            "services/gateway/session.py": found(10),
            "services/gateway/session_quota.py": found(7),
            "shared/turn/writer.py": found(5),
            "clients/reducer.py": found(3),
        },
    )
    assert measured[DECISIONS].of == 30
    assert measured["services/gateway/"].of == 7
    assert measured["shared/turn/"].of == 5
    assert measured["clients/"].of == 3


def test_one_untaken_branch_of_a_decision_fails_and_is_named(tmp_path: Path) -> None:
    untaken = found(400, branches=200, untaken=((12, 14), (9, -1)))
    part = parts(tmp_path, {"shared/policy/retry.py": untaken})[DECISIONS]
    assert not part.passes
    assert list(describe(part))[1:] == ["         not run: shared/policy/retry.py: 9, 12"]


def test_a_part_above_its_floor_passes_without_a_list(tmp_path: Path) -> None:
    part = parts(tmp_path, {"shared/turn/writer.py": found(1_000, missing=(1,))})["shared/turn/"]
    assert part.passes
    assert len(list(describe(part))) == 1


def test_every_measured_folder_has_a_floor(tmp_path: Path) -> None:
    folders = ("shared", "services", "functions", "clients", "ops")
    measured = parts(tmp_path, {f"{folder}/new/module.py": found(1) for folder in folders})
    assert sum(part.of for part in measured.values()) == len(folders)
    assert FLOORS[DECISIONS] == 100
