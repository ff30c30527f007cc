"""`make check`: every fast check side by side, one line each, the output of those that fail.

Exit code 1 when any fails. The checks only read, so they run at once.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
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


def main() -> int:
    """Run all checks, two at a time, and report."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        failed = [name for name, passed in pool.map(_run, CHECKS.items()) if not passed]
    if failed:
        print(f"check    failed: {', '.join(failed)}")
    return 1 if failed else 0


def _run(check: tuple[str, list[str]]) -> tuple[str, bool]:
    name, command = check
    started_s = time.perf_counter()
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    passed = done.returncode == 0
    elapsed_s = time.perf_counter() - started_s
    print(f"check    {name:<10}{'ok' if passed else 'FAILED':<8}{elapsed_s:5.1f} s", flush=True)
    if not passed:
        print(done.stdout[-6000:] + done.stderr[-3000:], flush=True)
    return name, passed


if __name__ == "__main__":
    sys.exit(main())
