"""`burstchat prompt`: what the model would be told, for the local stack.

Prints the words of users, so it is for development: it asks no deployment on AWS.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from ops.dlq_deployment import local_environment
from ops.local_stack import StackAway, local_status
from ops.prompt_text import prompt_fields, prompt_text
from shared.bootstrap.inspection import Inspection, open_inspection
from shared.clock import SystemClock, SystemRandomness
from shared.contracts.identifiers import MessageId, SessionId, SessionRef, TenantId, TurnId, UserId
from shared.contracts.stored_turns import HistoryEntry, StoredTurn
from shared.contracts.turns import TurnRequest
from shared.errors import ChatError, ConfigurationError
from shared.policy.sigv4 import Credential
from shared.settings import Settings, load_settings
from shared.turn.preparation import Prepared

_LOCAL_KEY = "local"


class NothingToShow(Exception):
    """The session has no message to make a prompt for; the text says so."""


def add_prompt_verb(verbs: Any) -> None:
    """Add `prompt` to the command line."""
    words = "show what a real model would be told (prints message text; local stack only)"
    prompt = verbs.add_parser("prompt", help=words, description=__doc__)
    prompt.add_argument("--session", required=True, metavar="ID", help="of this session")
    prompt.add_argument("--user", default="dev", help="whose session it is (dev)")
    prompt.add_argument("--tenant", default="default", help="of that user (default)")
    prompt.add_argument("--text", help="a next message; without it, the session's last one")
    prompt.add_argument("--json", action="store_true", help="for programs")


def run_prompt(options: argparse.Namespace) -> int:
    """Print one prompt and answer the exit code."""
    session = SessionRef(TenantId(options.tenant), UserId(options.user), SessionId(options.session))
    try:
        settings, credential = _local_settings()
        prepared = asyncio.run(_prepare(settings, credential, session, options.text))
    except (ChatError, NothingToShow) as error:
        print(f"burstchat: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(prompt_fields(prepared), ensure_ascii=False, indent=2))
    else:
        print(prompt_text(prepared))
    return 0


def _local_settings() -> tuple[Settings, Credential]:
    try:
        status = local_status()
    except StackAway as error:
        raise ConfigurationError(f"no local stack: {error}") from error
    environment = {
        **local_environment(status),
        "BURSTCHAT_KNOWLEDGE_BUCKET": status["buckets"].get("knowledge", ""),
    }
    settings = load_settings("operator", environment)
    return settings, Credential(_LOCAL_KEY, _LOCAL_KEY, settings.aws.aws_region)


async def _prepare(
    settings: Settings, credential: Credential, session: SessionRef, text: str | None
) -> Prepared:
    clock = SystemClock()
    async with open_inspection(settings, clock, SystemRandomness(), credential) as inspection:
        return await prepare_prompt(inspection, session, text)


async def prepare_prompt(inspection: Inspection, session: SessionRef, text: str | None) -> Prepared:
    """The prompt of `text` after the session's turns; None = of its last message, after those before it.

    Raises NothingToShow for a session without turns.
    """
    page = await inspection.store.newest(session, limit=inspection.limits.cached_history_turns + 1)
    newest_first: tuple[StoredTurn, ...] = page.turns
    if text is None:
        if not newest_first:
            raise NothingToShow(
                f"session {session.session_id} of user {session.user} has no answered message; give one with --text"
            )
        text, newest_first = newest_first[0].user_text, newest_first[1:]
    recalled = tuple(
        HistoryEntry(turn.ref.turn_id, turn.user_text, turn.assistant_text)
        for turn in reversed(newest_first[: inspection.limits.cached_history_turns])
    )
    request = TurnRequest(
        turn_id=TurnId(f"{session.session_id}.inspected"),
        session_id=session.session_id,
        message_id=MessageId("inspected"),
        tenant=session.tenant,
        user=session.user,
        text=text,
        accepted_at_ms=0,
    )
    return await inspection.preparation.compose(request, recalled, inspection.plan)
