"""`make loadtest-ui`: Locust's own page, aimed at the running stack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from loadtest.stack import chat_url

HERE = Path(__file__).resolve().parent
PAGE_PORT = 8089


def main() -> int:
    """Start Locust in the foreground; Ctrl-C ends it."""
    url = chat_url()
    if url is None:
        print(
            "No stack is running: start one with `make run` in another terminal.", file=sys.stderr
        )
        return 1
    print(
        f"Locust   http://127.0.0.1:{PAGE_PORT}  (users chat with {url}; Ctrl-C ends)", flush=True
    )
    command = ["-f", str(HERE / "locustfile.py"), "--class-picker", "--host", url]
    web = ["--web-host", "127.0.0.1", "--web-port", str(PAGE_PORT)]
    locust = [sys.executable, "-m", "locust", *command, *web]
    try:
        return subprocess.run(locust, check=False).returncode
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
