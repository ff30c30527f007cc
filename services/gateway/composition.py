"""The gateway process: from settings and ports to the parts that run, and the order in which they start."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from services.gateway.cancelling import Cancelling
from services.gateway.chat import Chat
from services.gateway.connections import Connections
from services.gateway.detached_call import DetachedCall
from services.gateway.door import Door
from services.gateway.drain import Drain
from services.gateway.follow_ups import FollowUps
from services.gateway.followed_turns import FollowLimits
from services.gateway.frames_in import InputLimits
from services.gateway.handshake import Handshakes
from services.gateway.history import History
from services.gateway.http_protocol import GatewayHttpProtocol
from services.gateway.identity import Identities
from services.gateway.leaving import Leaving
from services.gateway.lifetime import LifetimeLimits
from services.gateway.management_api import ManagementApi
from services.gateway.masking import Masking
from services.gateway.offering import Offering
from services.gateway.owner_lease import OwnerLease
from services.gateway.public_api import PublicApi
from services.gateway.queue_waits import QueueWaits
from services.gateway.readiness import Readiness
from services.gateway.replaying import Replaying
from services.gateway.rest import RestUseCases, build_rest
from services.gateway.rest_chat import ChatUseCases
from services.gateway.sending import Sending
from services.gateway.session import SessionLimits
from services.gateway.socket_protocol import GatewaySocketProtocol
from services.gateway.stats import GatewayStats
from services.gateway.streaming_call import StreamingCall
from services.gateway.turn_lookup import TurnLookup
from services.gateway.virtual_connections import VirtualConnections
from services.gateway.waiting_call import WaitingCall
from services.gateway.web_page import PAGE_FOLDER, WebPage
from services.gateway.websocket import SocketLimits, WebSocketEndpoint
from services.http_server import HttpServer, listen
from services.lifecycle import Part, StopSignals, run_parts
from services.start import start_process
from shared.bootstrap.adapters import push_credential
from shared.bootstrap.gateway import GatewayPorts, open_gateway_ports
from shared.bootstrap.limits import burst_limits, detached_limits, sweep_limits
from shared.clock import Clock, Randomness
from shared.contracts.identifiers import OwnerId, random_id
from shared.settings import GatewaySettings, Settings
from shared.telemetry import Log, Metrics
from shared.turn.backstop import SweepPorts, make_sweeper
from shared.turn.load_watch import LoadWatch
from shared.turn.queue_dispatcher import QueueDispatcher

PONG_TIMEOUT_S = 10.0
"""A peer that does not answer a ping for this long has vanished."""

_log = Log("gateway")


@dataclass(frozen=True)
class Gateway:
    """A gateway that is ready to run."""

    parts: Sequence[Part]
    """In the order of their start."""
    drain: Drain
    connections: Connections
    public: HttpServer
    private: HttpServer

    async def run(self, signals: StopSignals) -> None:
        """Run until told to stop, then drain. Raises what a crashed part raised."""
        await run_parts(
            self.parts, drain=self.drain, drain_limit_s=self.drain.limit_s, signals=signals
        )


async def main() -> None:
    """Run one gateway until a signal ends it. Raises ConfigurationError before anybody was served."""
    start = start_process("gateway")
    settings, clock = start.settings, start.clock
    host = settings.gateway.bind_host
    public = listen(host, settings.gateway.public_port, "BURSTCHAT_PUBLIC_PORT")
    private = listen(host, settings.gateway.private_port, "BURSTCHAT_PRIVATE_PORT")
    async with open_gateway_ports(settings, clock, start.randomness) as ports:
        gateway = build_gateway(
            settings,
            ports,
            public_listener=public,
            private_listener=private,
            clock=clock,
            randomness=start.randomness,
            metrics=Metrics(settings.telemetry.metrics_namespace, "gateway", clock),
        )
        _log.info("gateway.started", public=gateway.public.port, private=gateway.private.port)
        await gateway.run(start.signals)


def build_gateway(
    settings: Settings,
    ports: GatewayPorts,
    *,
    public_listener: socket.socket,
    private_listener: socket.socket,
    clock: Clock,
    randomness: Randomness,
    metrics: Metrics,
) -> Gateway:
    """Wire one gateway. Nothing runs yet and nothing is asked."""
    gateway = settings.gateway
    owner = OwnerId(random_id(randomness.token_bytes(9)))
    watch = LoadWatch(
        ports.load, clock, burst_capacity_turns=settings.orchestrator.burst_capacity_turns
    )
    door = Door(
        watch,
        burst_limits(settings),
        user_turns_per_min=gateway.user_turns_per_min,
        sessions=ports.queue,
        allowances=ports.allowances,
        clock=clock,
    )
    connections = Connections(clock, QueueWaits(watch.forecast, clock, metrics))
    lease = OwnerLease(
        ports.registry,
        owner,
        clock,
        lease_ms=gateway.owner_lease_ms,
        renew_ms=gateway.owner_renew_ms,
    )
    identities = Identities(
        mode=gateway.auth_mode,
        secret=gateway.jwt_secret,
        audience=gateway.jwt_audience,
        issuer=gateway.jwt_issuer,
        clock=clock,
    )
    offering = Offering(
        intake=ports.intake,
        turn_queue=ports.turn_queue,
        sessions=ports.queue,
        queues=QueueDispatcher(ports.turn_queue, ports.queue, clock),
        door=door,
        clock=clock,
    )
    readiness = Readiness({"redis": lambda: lease.fault, "workers": lambda: offering.fault})
    follow_ups = FollowUps(connections, ports.claims, ports.push, offering, clock)
    replaying = Replaying(ports.followers, ports.store, clock)
    cancelling = Cancelling(
        sessions=ports.queue,
        replaying=replaying,
        follow_ups=follow_ups,
        clock=clock,
        metrics=metrics,
        ended=ports.ended,
    )
    history = History(ports.store, gateway.history_page_bytes)
    sending = Sending(
        sessions=ports.queue,
        claims=ports.claims,
        offering=offering,
        follow_ups=follow_ups,
        door=door,
        limits=detached_limits(settings),
        masking=Masking(is_on=settings.guardrail.pii_masking == "on", metrics=metrics),
        clock=clock,
        randomness=randomness,
        metrics=metrics,
        ended=ports.ended,
    )
    limits = _socket_limits(gateway)
    endpoint = gateway.private_endpoint or _own_endpoint(private_listener)
    leaving = Leaving(connections, ports.registry, ports.followers, clock)
    perform = Chat(sending, replaying, cancelling, history).perform
    handshakes = Handshakes(
        identities=identities,
        allowed_origins=gateway.allowed_origins,
        trusted_proxies=gateway.trusted_proxies,
        address_handshakes_per_s=gateway.address_handshakes_per_s,
        new_handshakes_per_s=gateway.new_handshakes_per_s,
        returning_handshakes_per_s=gateway.returning_handshakes_per_s,
        is_draining=lambda: readiness.is_draining,
        clock=clock,
        randomness=randomness,
    )
    sockets = WebSocketEndpoint(
        limits=limits,
        handshakes=handshakes,
        connections=connections,
        registry=ports.registry,
        sessions=ports.queue,
        leaving=leaving,
        perform=perform,
        endpoint=endpoint,
        owner=owner,
        clock=clock,
    )
    virtual = VirtualConnections(
        limits=limits,
        connections_limit=gateway.virtual_connections,
        connections=connections,
        registry=ports.registry,
        leaving=leaving,
        perform=perform,
        new_connection_id=handshakes.new_connection_id,
        is_draining=lambda: readiness.is_draining,
        endpoint=endpoint,
        owner=owner,
        clock=clock,
    )
    chat = ChatUseCases(
        waiting=WaitingCall(virtual, ports.followers, clock, gateway.reply_wait_limit_ms),
        streaming=StreamingCall(virtual, clock, gateway.event_comment_ms),
        detached=DetachedCall(sending, ports.followers),
        limits=limits.session.input,
        encoded_limit_bytes=gateway.inbound_frame_bytes,
        trusted_proxies=gateway.trusted_proxies,
        new_id=lambda: random_id(randomness.token_bytes(15)),
    )
    rest = build_rest(
        RestUseCases(
            identities=identities,
            turns=TurnLookup(ports.followers, ports.store, clock),
            cancelling=cancelling,
            history=history,
            readiness=readiness,
            token_lifetime_ms=gateway.token_lifetime_ms,
            chat=chat,
            is_dev=gateway.auth_mode == "dev",
        )
    )
    page = WebPage(PAGE_FOLDER, gateway.assistant_file)
    stats = GatewayStats(connections, readiness, metrics, clock)
    public = HttpServer(
        "public",
        PublicApi(sockets, page, rest, gateway.http_body_bytes),
        public_listener,
        _public_options(gateway),
    )
    private = HttpServer(
        "private",
        ManagementApi(connections, push_credential(settings), stats.snapshot, clock),
        private_listener,
        {"ws": "none"},
    )
    sweeper = make_sweeper(
        SweepPorts(
            due=ports.due,
            claims=ports.claims,
            sessions=ports.queue,
            store=ports.store,
            push=ports.push,
            queue=ports.turn_queue,
            dead_letters=ports.dead_letters,
            intake=ports.intake,
            dispatcher=offering,
        ),
        sweeper=owner,
        clock=clock,
        randomness=randomness,
        metrics=metrics,
        limits=sweep_limits(settings),
        interval_ms=settings.turn.sweep_interval_ms,
        ended=ports.ended,
    )
    return Gateway(
        # The private port outlives the public one: workers push until the last socket is gone.
        parts=(lease, watch, stats, sweeper, private, connections, public),
        drain=Drain(connections, readiness, follow_ups, randomness, gateway.gateway_drain_ms),
        connections=connections,
        public=public,
        private=private,
    )


def _socket_limits(gateway: GatewaySettings) -> SocketLimits:
    return SocketLimits(
        session=SessionLimits(
            input=InputLimits(
                message_bytes=gateway.message_bytes, metadata_bytes=gateway.metadata_bytes
            ),
            turns=FollowLimits(
                accepted_hold_ms=gateway.accepted_hold_ms,
                silent_turn_check_ms=gateway.silent_turn_check_ms,
                lost_turn_after_ms=gateway.lost_turn_after_ms,
            ),
            lifetime=LifetimeLimits(
                idle_close_ms=gateway.idle_close_ms, max_age_ms=gateway.max_age_ms
            ),
            heartbeat_ms=gateway.heartbeat_ms,
            protocol_errors_per_min=gateway.protocol_errors_per_min,
            frames_per_s=gateway.user_frames_per_s,
        ),
        outbox_bytes=gateway.outbox_bytes,
        outbox_stuck_ms=gateway.outbox_stuck_ms,
        user_connections=gateway.user_connections,
    )


def _public_options(gateway: GatewaySettings) -> dict[str, object]:
    return {
        "http": GatewayHttpProtocol,
        "ws": GatewaySocketProtocol,
        "ws_max_size": gateway.inbound_frame_bytes,
        "ws_ping_interval": gateway.heartbeat_ms / 1_000,
        "ws_ping_timeout": PONG_TIMEOUT_S,
        # Compression state costs three times what the rest of a socket does (case B-39).
        "ws_per_message_deflate": False,
    }


def _own_endpoint(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:
        # On Fargate the task's name resolves to the address of its own network interface.
        host = socket.gethostbyname(socket.gethostname())
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
