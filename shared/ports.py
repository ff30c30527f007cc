"""How the core names what it needs. Each port belongs to its user; a real adapter and an in-memory twin pass one suite.

Every method may raise DependencyUnavailable (could not ask, within the adapter's own deadline) unless it says
otherwise; that never means "not found". It may also raise what asking again cannot mend: ConfigurationError (no
permission, no such table, queue or address) or a PermanentError (this very request was refused). Whoever has to end a
turn treats every ChatError alike, as "not done", and is patient only with the first. Cancelling a call leaves its
effect open: all writes are safe to repeat.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from shared.contracts.allowances import Allowance, AllowanceKind, Rate
from shared.contracts.dead_letters import DeadLetter
from shared.contracts.dead_turns import DeadTurn, DeadTurnBrief, Kept, Step
from shared.contracts.guardrails import JudgedText, Verdict
from shared.contracts.identifiers import (
    ClaimNonce,
    ConnectionId,
    MessageId,
    OwnerId,
    SessionRef,
    TenantId,
    TurnId,
    TurnRef,
    UserId,
)
from shared.contracts.knowledge import Intent, Passage, SimilarTitle
from shared.contracts.ledger import (
    AcceptAnswer,
    Append,
    CancelAnswer,
    ClaimAnswer,
    ClaimRef,
    EndAnswer,
    FinishAnswer,
    FollowAnswer,
    Follower,
    HoldAnswer,
    ReopenAnswer,
    TurnState,
)
from shared.contracts.load import FleetLoad, LoadSample
from shared.contracts.model import ModelEvent, Prompt
from shared.contracts.model_budget import BudgetExchange, BudgetGrant
from shared.contracts.orders import Order
from shared.contracts.pushes import PushFrame, PushStatus
from shared.contracts.recovery import DueEntry, DueMove, DueTurn, Release, ReservationKind
from shared.contracts.server_frames import RunningTurn
from shared.contracts.stored_turns import StoredPage, StoredTurn
from shared.contracts.turn_events import TurnEndedEvent
from shared.contracts.turns import EndStatus, IntakeDecision, Path, QueueName, TurnRequest


class SessionQueue(Protocol):
    """The ledger as the gateway and the dispatchers see it: which turn of a session may run."""

    async def accept(self, request: TurnRequest, follower: Follower | None) -> AcceptAnswer:
        """Make the message a turn, once per message id for 24 h; the follower is added in the same step.

        A message id whose turn ended as `rejected` counts as new. The turn's due entry is written first.
        `ready_at_ms` is set to `accepted_at_ms` for a head.
        """
        ...

    async def mark_placed(self, turn: TurnRef, path: Path, at_ms: int) -> None:
        """Note where the turn was put (`burst`/`queue` = a queue message was sent). Nothing if ended or unknown."""
        ...

    async def find_message(self, session: SessionRef, message_id: MessageId) -> TurnState | None:
        """The turn of a message id, None when no such message was accepted in the last 24 h."""
        ...

    async def state(self, turn: TurnRef) -> TurnState | None:
        """The turn as it is, None when the ledger does not know it."""
        ...

    async def running(self, session: SessionRef) -> Sequence[RunningTurn]:
        """The session's turns that have not ended, head first."""
        ...

    async def cancel(self, turn: TurnRef, outcome: bytes, at_ms: int) -> CancelAnswer:
        """Set the cancel flag of a claimed turn; end an unclaimed one with `outcome` (its terminal frame)."""
        ...


class TurnClaims(Protocol):
    """The ledger as a worker sees it: one producer per turn, everything it writes checked in the same atomic step."""

    async def claim(
        self,
        request: TurnRequest,
        *,
        nonce: ClaimNonce,
        worker: str,
        path: Path,
        grace_ms: int,
        now_ms: int,
    ) -> ClaimAnswer:
        """Become the turn's producer: attempt = max(stored, request.attempt_hint) + 1, lease from `now_ms`.

        Refused while a lease lives, after the end, when not head, (not detached) when readerless for `grace_ms`, and
        when attempts or crashes are used up. A delivery reserved by a sweeper passes the last two. A hint above the
        stored attempt tells that the ledger lost that one: then no lease, place or count of the lower one stands.
        A turn that the ledger does not know is entered from `request`, at the front.
        """
        ...

    async def append_many(self, appends: Sequence[Append], now_ms: int) -> Sequence[HoldAnswer]:
        """Append frozen frames to the logs, one pipeline, one answer each in order.

        Repeating an append whose bytes are already in the log answers Held.
        """
        ...

    async def renew_many(self, claims: Sequence[ClaimRef], now_ms: int) -> Sequence[HoldAnswer]:
        """Extend the leases, one pipeline, one answer each. Followers of dead owners are left out and removed."""
        ...

    async def release(
        self, claim: ClaimRef, *, release: Release, due_at_ms: int, now_ms: int
    ) -> None:
        """Give the claim up alive; the attempt has not crashed. Nothing if the claim does not stand.

        `handed_over`: a sweeper dispatches the turn at once. `passed_on`, `postponed`, `throttled`: the caller sends it
        to the retry queue for `due_at_ms`, and sweepers wait a reservation longer.
        """
        ...

    async def finish(
        self,
        append: Append,
        *,
        status: EndStatus,
        history: bytes | None,
        now_ms: int,
    ) -> FinishAnswer:
        """Append the last frames (the final one is terminal), end the turn and pop the next head, in one step.

        `history` replaces the session's cached window when given; None leaves it as it is.
        """
        ...

    async def end_unclaimed(
        self, turn: TurnRef, *, status: EndStatus, outcome: bytes, now_ms: int, attempt: int = 0
    ) -> EndAnswer:
        """End a turn that nobody holds, with `outcome` as its terminal frame, and pop the next head.

        `attempt` is the attempt the caller saw: 0 = never claimed. A claimed turn is ended only when that is still
        its attempt and the lease has lapsed; `outcome` then goes into its log at `last_seq + 1`.
        """
        ...


class TurnFollowers(Protocol):
    """Who reads a turn, and what they missed."""

    async def follow(
        self,
        turn: TurnRef,
        follower: Follower | None,
        *,
        attempt: int | None,
        after_seq: int,
        now_ms: int,
    ) -> FollowAnswer:
        """Add the follower (a sixth replaces the oldest), then read the log after (`attempt`, `after_seq`).

        A missing or different `attempt` reads the current attempt from seq 0. `follower` None only reads.
        """
        ...

    async def unfollow(self, turns: Sequence[TurnRef], follower: Follower, now_ms: int) -> None:
        """Remove exactly this follower (compare-and-delete) from the turns, in one pipeline."""
        ...

    async def detach(self, turn: TurnRef) -> None:
        """The turn needs no reader from now on, the attempt under way included. Nothing if ended or unknown."""
        ...


class DueTurns(Protocol):
    """The due index as a sweeper sees it: every accepted turn that has not ended, by its next check."""

    async def ask(self) -> None:
        """Return when the ledger answers; changes nothing."""
        ...

    async def due(self, *, sweeper: str, now_ms: int, limit: int) -> Sequence[DueEntry]:
        """Entries whose time has come, at most `limit` of each set, oldest first within a set.

        A set is held by one sweeper at a time, for about a second; the sets of others are left out.
        """
        ...

    async def look(self, turns: Sequence[TurnRef], now_ms: int) -> Sequence[DueTurn | None]:
        """The turns as they are, one pipeline, None for each that the ledger does not know.

        One that cannot be read costs the others nothing: see TurnState.unreadable.
        """
        ...

    async def move(self, moves: Sequence[DueMove]) -> Sequence[bool]:
        """Reschedule or remove entries, one pipeline. False for an entry that is no longer as it was read."""
        ...

    async def reserve(
        self,
        turn: TurnRef,
        *,
        sweeper: str,
        attempt: int,
        dispatches: int,
        kind: ReservationKind,
        until_ms: int,
        now_ms: int,
    ) -> bool:
        """Become the only one who dispatches the turn before `until_ms`; a compare-and-set.

        False when it was claimed, ended or reserved since the caller saw `attempt` and `dispatches`. The same call
        again is True.
        """
        ...


class TurnRevival(Protocol):
    """The ledger as whoever redrives dead letters sees it: the one exception to "a turn ends once"."""

    async def reopen(self, request: TurnRequest, *, now_ms: int) -> ReopenAnswer:
        """Have a failed turn wait again as `request` (detached, of lower priority), outside the session queue.

        Its attempt stays (at least `request.attempt_hint`), its attempts and crashes count from 0, followers, log and
        outcome are gone. A turn that the ledger does not know is entered so, too. The due entry is written first, so
        a sweeper sends the turn to its queue when the caller dies before it could.
        """
        ...


class Guardrail(Protocol):
    """Judges whole texts: a message before the model sees it, pieces of a reply while it is shown."""

    async def judge(self, what: JudgedText, text: str) -> Verdict:
        """Whether the text may go on, and as what. The same text may be judged again."""
        ...


class Allowances(Protocol):
    """How often something may happen, counted by all processes together."""

    async def take(
        self,
        kind: AllowanceKind,
        rate: Rate,
        wanted: int,
        *,
        session: SessionRef,
        message_id: MessageId,
        now_ms: int,
    ) -> Allowance:
        """Take up to `wanted` (1 or more) for the session's user or tenant, and look the message up: one read.

        What is granted is gone, used or not; it comes back at `rate`.
        """
        ...


class ConnectionRegistry(Protocol):
    """Which process holds a connection. Entries of an owner without a lease count as gone."""

    async def register(self, session: SessionRef, follower: Follower) -> bool:
        """Remember the connection; also renews the owner's lease.

        False when the user has as many connections as one may have, on all processes: nothing is remembered.
        """
        ...

    async def unregister(self, session: SessionRef, follower: Follower) -> None:
        """Forget the connection if it is still this owner's."""
        ...

    async def lookup(self, connection_id: ConnectionId) -> Follower | None:
        """The live entry of a connection, None when gone."""
        ...

    async def renew_owner(self, owner: OwnerId) -> None:
        """Extend the lease of this process's connections."""
        ...


class TurnStore(Protocol):
    """Ended turns, question and answer in one item. Reads are consistent."""

    async def put(self, turn: StoredTurn) -> StoredTurn | None:
        """Store on condition: absent, or of a lower attempt. None = stored (our own earlier write included).

        Returns the item that won otherwise. Raises ItemTooLarge, nothing stored.
        """
        ...

    async def get(self, turn: TurnRef) -> StoredTurn | None:
        """One stored turn or marker, None when absent or past its time to live."""
        ...

    async def newest(
        self, session: SessionRef, *, limit: int, before: TurnId | None = None
    ) -> StoredPage:
        """Up to `limit` turns, newest first, markers left out, every page followed."""
        ...


class TurnQueue(Protocol):
    """The queues of work."""

    async def send(self, queue: QueueName, request: TurnRequest, *, delay_s: int = 0) -> None:
        """Enqueue; at-least-once. `delay_s` 0..900. Raises ItemTooLarge, nothing sent."""
        ...


class InboxMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery of a queue message; `receipt` names this delivery, a later one has another."""

    queue: QueueName
    message_id: str
    receipt: str
    body: str
    sent_at_ms: int
    """When the queue took it, by the queue's own clock."""


class TurnInbox(Protocol):
    """The queues of work as a consumer sees them: at-least-once, each message hidden while it is worked on."""

    async def receive(
        self, queue: QueueName, *, limit: int, wait_s: int, hidden_s: int
    ) -> Sequence[InboxMessage]:
        """Up to `limit` (1..10) messages, hidden from others for `hidden_s` from now.

        Waits up to `wait_s` (0..20) for the first one. What a cancelled call had received stays hidden that long.
        Raises ConfigurationError when there is no such queue, or it may not be read.
        """
        ...

    async def hide(self, message: InboxMessage, *, hidden_s: int) -> bool:
        """Hide the delivery for `hidden_s` from now; 0 = give it back. False when it is no longer ours to hide."""
        ...

    async def delete(self, message: InboxMessage) -> None:
        """Acknowledge the delivery. Repeats, and deliveries that somebody else has by now, are no error."""
        ...


class QueueGauges(Protocol):
    """How full the queues are."""

    async def depths(self) -> Mapping[QueueName, int]:
        """Messages that wait in each queue; about right, as SQS counts."""
        ...

    async def oldest_s(self) -> Mapping[QueueName, float]:
        """Age of each queue's oldest message, as of a few minutes ago at worst; a queue nobody knows of is absent."""
        ...


class RunningTasks(Protocol):
    """The tasks of the queue_runner."""

    async def count(self) -> int:
        """Those that run now. Raises ConfigurationError when there is no such service."""
        ...


class DeadLetterQueue(Protocol):
    """Where turns that used up their chances are kept as evidence."""

    async def send(self, queue: QueueName, letter: DeadLetter) -> None:
        """Keep the letter in the dead-letter queue of `queue`; repeats are recognised by turn id."""
        ...


class DeadTurns(Protocol):
    """Dead letters after triage, by fingerprint."""

    async def keep(self, turn: DeadTurn) -> Kept:
        """Keep one death of a turn for 30 days; a repeat of the same death changes nothing.

        A letter takes the place of a moved message of the same death. The trail of earlier deaths is carried over.
        """
        ...

    async def find(self, turn_id: str) -> DeadTurn | None:
        """The latest death of a turn, None when there is none or it is past its time."""
        ...

    async def fingerprints(self) -> Sequence[str]:
        """Every fingerprint seen in the last 30 days."""
        ...

    async def of_fingerprint(
        self, fingerprint: str, *, since_ms: int = 0, limit: int = 10_000
    ) -> Sequence[DeadTurnBrief]:
        """Deaths of one fingerprint from `since_ms` on, oldest first, at most `limit`."""
        ...

    async def note(self, turn_id: str, step: Step) -> None:
        """Add what somebody did to the latest death's trail.

        Raises DependencyUnavailable, too, when it is not there or somebody else changed it at the same moment.
        """
        ...


class TurnIntake(Protocol):
    """The orchestrators' door: `POST /turns`."""

    async def submit(self, request: TurnRequest) -> IntakeDecision:
        """Hand over a head turn, at most 0.5 s. Raises DependencyUnavailable when nobody took it."""
        ...


class TurnDispatcher(Protocol):
    """Where the finisher of a turn sends its session's next head."""

    async def dispatch(self, request: TurnRequest) -> None:
        """Give a head turn to a worker. Failure is logged, not raised: the sweeper is the backstop."""
        ...


class FramePush(Protocol):
    """The Management API's contract: push frames to sockets that another process holds."""

    async def push(self, endpoint: str, frames: Sequence[PushFrame]) -> Sequence[PushStatus]:
        """Post frames to one endpoint, in order, one status each.

        Raises DependencyUnavailable when the request as a whole failed (resend; clients drop repeats) and
        ConfigurationError when the endpoint refuses our credential.
        """
        ...


class ChatModel(Protocol):
    """A language model that streams."""

    def stream(
        self, prompt: Prompt
    ) -> AbstractAsyncContextManager[AsyncIterator[Sequence[ModelEvent]]]:
        """Open one call, no retries and no limit of time, which its caller keeps. Each item is one network read's.

        Leaving the context closes the provider's connection at once, cancelled or not. Raises the ModelX errors
        of shared/errors.py; a stream that ends without ModelStopped raises ModelDisconnected.
        """
        ...


class BudgetWindow(Protocol):
    """The model budget that all processes share: what the last minute was charged with."""

    async def exchange(self, exchange: BudgetExchange) -> BudgetGrant:
        """Report, and ask for more, in one atomic step. Never waits for the budget: what does not fit is refused.

        Calls are granted in the order of their line, interactive ones first. While both classes wait, interactive
        calls get up to nine tenths of the limits and detached ones a tenth; else either may use all. Among processes
        whoever has waited longest is served first. Raises DependencyUnavailable; the exchange may have been done then,
        and repeating it charges twice.
        """
        ...


class IntentClassifier(Protocol):
    """What the user wants."""

    async def classify(self, text: str) -> Intent:
        """A label with its confidence 0..1; `general` when the classifier itself is not sure enough."""
        ...


class Retriever(Protocol):
    """Passages of the knowledge index."""

    async def search(self, text: str, limit: int) -> Sequence[Passage]:
        """The best passages, best first."""
        ...


class Catalogue(Protocol):
    """The exact facts of what the store carries."""

    async def named(self, text: str, limit: int) -> Sequence[Passage]:
        """The facts of each title that the text names (or whose author it names), in order of mention."""
        ...

    async def traits(self, text: str) -> Sequence[str]:
        """The traits of titles that the text says, such as a genre or a theme, each once."""
        ...


class Recommender(Protocol):
    """Titles to suggest."""

    async def similar(self, text: str, limit: int) -> Sequence[SimilarTitle]:
        """Titles that share themes with those named in the text, or that have the themes it names, best first.

        A named title is never among them. None when the text names neither.
        """
        ...


class Orders(Protocol):
    """What users have bought."""

    async def of_user(self, tenant: TenantId, user: UserId, limit: int) -> Sequence[Order]:
        """The newest orders of exactly this user, newest first. Raises DependencyUnavailable."""
        ...


class TurnEvents(Protocol):
    """Where analytics learns of ended turns."""

    def note(self, event: TurnEndedEvent) -> None:
        """Take one event, to be sent later. Never waits and never raises; what finds no room is dropped and counted."""
        ...


class LoadBoard(Protocol):
    """Counters that every process publishes and reads."""

    async def publish(self, sample: LoadSample) -> None:
        """Replace this worker's sample; it is forgotten after a few seconds of silence."""
        ...

    async def read(self) -> FleetLoad:
        """All live samples and the burst queue's own counters."""
        ...
