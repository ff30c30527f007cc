"""`make test`: every part in turn, each with its seconds; the last line says what passed.

A part that fails does not keep the next from running, so one run shows everything. Exit code 1 when any failed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PYTEST = ["pytest", "-q", "--no-header"]
# What one file shares (a Valkey, an emulator, bundles) is made once: a file stays in one process.
_SIDE_BY_SIDE = [*_PYTEST, "-n", "2", "--dist", "loadfile"]
PARTS = {
    "check": ["infra.check", "--coverage"],
    "contract, integration, infra, page": [
        *_SIDE_BY_SIDE,
        # Long files first, or one process ends long after the other.
        "--no-loadscope-reorder",
        # In a browser, but against a server of its own.
        "tests/browser/test_chat_page.py",
        "tests/integration",
        "tests/contract",
        "tests/infra",
    ],
    # Runs its seeds in a process for each processor.
    "simulation": [*_PYTEST, "tests/simulation", "tests/policies"],
    # These measure a whole stack, which takes the machine for itself.
    "e2e, browser": [
        *_PYTEST,
        "tests/e2e",
        "tests/browser/test_stack_page.py",
        "tests/browser/test_ten_turns.py",
    ],
    "chaos": [*_PYTEST, "tests/chaos"],
}


def main() -> int:
    """Run the parts, cheapest and most telling first."""
    started_s = time.perf_counter()
    passed: list[str] = []
    failed: list[str] = []
    for name, module in PARTS.items():
        print(f"test     {name} …", flush=True)
        (passed if _run(name, module) else failed).append(name)
    took_s = time.perf_counter() - started_s
    verdict = f"FAILED: {'; '.join(failed)}; passed" if failed else "passed"
    print(f"test     {verdict}: {'; '.join(passed) or 'nothing'} in {_minutes(took_s)}", flush=True)
    return 1 if failed else 0


def _run(name: str, module: list[str]) -> bool:
    started_s = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *module], cwd=ROOT, check=False)
    verdict = "passed" if done.returncode == 0 else "FAILED"
    print(f"test     {name}: {verdict} in {_minutes(time.perf_counter() - started_s)}", flush=True)
    return done.returncode == 0


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


if __name__ == "__main__":
    sys.exit(main())
