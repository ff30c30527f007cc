"""`make check`: every fast check side by side, one line each, the output of those that fail.

With `--coverage`, as `make test` runs it, the unit tests are measured too and each part of the code has a floor.
Exit code 1 when any fails. The checks only read, so they run at once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from infra.coverage_gate import describe, read_report

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
REPORT = ROOT / "build" / "coverage.json"
TEMPLATES = sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "infra/templates").glob("*.yaml")
)
CHECKS = {
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "lint": ["ruff", "check", "--quiet", "."],
    "imports": ["lint-imports", "--no-logo"],
    "templates": ["cfn-lint", *TEMPLATES],
    "types": ["mypy"],
    "unit": ["pytest", "-q", "-x", "--no-header", "-n", "2", "tests/unit"],
}
MEASURED = ["--cov", f"--cov-report=json:{REPORT}"]


def main() -> int:
    """Run all checks, two at a time, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coverage", action="store_true", help="measure the unit tests as well")
    is_measured = parser.parse_args().coverage
    checks = dict(CHECKS)
    if is_measured:
        checks["unit"] = [*checks["unit"], *MEASURED]
        REPORT.unlink(missing_ok=True)
    with ThreadPoolExecutor(max_workers=2) as pool:
        failed = [name for name, passed in pool.map(_run, checks.items()) if not passed]
    if is_measured and "unit" not in failed and not _reaches_floors():
        failed.append("coverage")
    if failed:
        print(f"check    failed: {', '.join(failed)}")
    return 1 if failed else 0


def _run(check: tuple[str, list[str]]) -> tuple[str, bool]:
    name, command = check
    started_s = time.perf_counter()
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=ROOT,
        env=os.environ | {"COVERAGE_FILE": str(REPORT.with_suffix(".data"))},  # noqa: TID251 - handed on
        capture_output=True,
        text=True,
        check=False,
    )
    passed = done.returncode == 0
    elapsed_s = time.perf_counter() - started_s
    print(f"check    {name:<10}{'ok' if passed else 'FAILED':<8}{elapsed_s:5.1f} s", flush=True)
    if not passed:
        print(done.stdout[-6000:] + done.stderr[-3000:], flush=True)
    return name, passed


def _reaches_floors() -> bool:
    parts = read_report(REPORT, ROOT / ".importlinter")
    for part in parts:
        print("\n".join(describe(part)), flush=True)
    return all(part.passes for part in parts)


if __name__ == "__main__":
    sys.exit(main())
