"""The `burstchat` command: the local stack, a chat with any gateway, dead letters, and prompts to look at."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from clients.address import ServerAddress
from clients.terminal import run_chat
from ops.dlq import add_dlq_verbs, run_dlq
from ops.local_stack import StackAway, local_status
from ops.prompt import add_prompt_verb, run_prompt
from shared.errors import ConfigurationError
from shared.settings import load_settings

ROOT = Path(__file__).resolve().parents[1]
_TOKEN_WITHIN_S = 5.0
EXIT_INTERRUPTED = 130
_STACK_VERBS = {
    "run": "start the whole stack here and follow its logs; Ctrl-C stops it",
    "up": "start it in the background and return when it is ready",
    "down": "stop what `up` or `run` started",
    "status": "every process, queue and address",
}


class TokenRefused(Exception):
    """The gateway gives no token for a named user; the text says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and answer the exit code."""
    options = _parser().parse_args(arguments)
    if options.verb == "chat":
        return _chat(options.url, options.user, options.session)
    if options.verb == "dlq":
        return run_dlq(options)
    if options.verb == "prompt":
        return run_prompt(options)
    return _stack(options.verb, as_json=getattr(options, "json", False))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="burstchat", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, help_text in _STACK_VERBS.items():
        added = verbs.add_parser(verb, help=help_text, description=help_text)
        if verb == "status":
            added.add_argument("--json", action="store_true", help="for programs")
    chat = verbs.add_parser(
        "chat", help="talk in this terminal", description="Talk in this terminal."
    )
    chat.add_argument("--url", help="address of a gateway; default: the local stack")
    chat.add_argument("--user", help="name of the user (needs a gateway in dev mode)")
    chat.add_argument("--session", help="continue this session")
    add_dlq_verbs(verbs)
    add_prompt_verb(verbs)
    return parser


def _stack(verb: str, *, as_json: bool) -> int:
    """Become the stack's own process, so that signals meant for this one reach it."""
    command = [sys.executable, "-m", "infra.local", verb, *(["--json"] if as_json else [])]
    os.chdir(ROOT)
    os.execv(sys.executable, command)


def _chat(url: str | None, user: str | None, session: str | None) -> int:
    try:
        address = url or _local_address()
        token = None if user is None else fetch_token(address, user)
        return asyncio.run(run_chat(address, token, session))
    except (ConfigurationError, TokenRefused) as error:
        print(f"burstchat: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _local_address() -> str:
    """The running stack's gateway; without a stack, where one would listen."""
    try:
        address: str = local_status()["urls"]["chat"]
    except StackAway:
        return f"http://127.0.0.1:{load_settings('local_stack').local_stack.port_base}"
    return address


def fetch_token(address: str, user: str) -> str:
    """A token for a named user from a gateway in dev mode; raises TokenRefused in words."""
    try:
        base = ServerAddress.parse(address).origin
    except ValueError as error:
        raise TokenRefused(str(error)) from error
    request = urllib.request.Request(
        f"{base}/v1/tokens",
        data=json.dumps({"user": user}).encode(),
        headers={"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TOKEN_WITHIN_S) as answer:
            token: str = json.load(answer)["token"]
            return token
    except urllib.error.HTTPError as error:
        error.close()
        raise TokenRefused(
            f"{base} gives no token for a name (HTTP {error.code}): it does not run in dev mode"
        ) from error
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise TokenRefused(f"no gateway answers at {base}: `burstchat up` starts one") from error


if __name__ == "__main__":
    sys.exit(main())
