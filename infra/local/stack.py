"""Starts the stack, keeps it running, and stops it; one per state folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from infra.bundles.targets import PackagingError, local_target
from infra.local import commands, environment
from infra.local.credentials import make_credentials
from infra.local.deploy import Deployer, Deployment
from infra.local.errors import StackError
from infra.local.follow import LogFollower
from infra.local.knowledge import KnowledgeSeeder, read_documents
from infra.local.plan import PlannedProcess, plan_stack
from infra.local.ports import require_free
from infra.local.processes import ChildProcess, Identity, start_mark
from infra.local.progress import Progress
from infra.local.readiness import wait_healthy
from infra.local.state import ProcessRecord, StackState, StateFile, leftovers
from infra.package import FUNCTIONS, Bundle, build_bundle
from shared.clock import SystemClock
from shared.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]
EXIT_CONFIGURATION = 78
_READY_WITHIN_S = 60.0
_RESTART_AFTER_S = 5.0
_STOP_EXTRA_S = 3.0
_STEP_S = 0.1
_QUOTED_LINES = 5
_INFRASTRUCTURE_STOPS_WITHIN_S = 3.0


class Stack:
    """Owns every child process. `run` blocks until its caller interrupts it with an exception."""

    def __init__(self, person: Mapping[str, str], follower: LogFollower) -> None:
        has_model_server = not environment.calls_real_model(person)
        local = load_settings("local_stack", person).local_stack
        try:
            self._plan = plan_stack(local, has_model_server=has_model_server)
        except ValueError as error:
            raise StackError(str(error)) from error
        self._person = person
        self._local = local
        self._follower = follower
        self._clock = SystemClock()
        self._progress = Progress(self._clock)
        self._state_dir = (ROOT / local.state_dir).resolve()
        self._logs = self._state_dir / "logs"
        self._state_file = StateFile(self._state_dir)
        self._children: dict[str, ChildProcess] = {}
        self._restart_at: dict[str, float] = {}
        self._services: dict[str, PlannedProcess] = {}
        self._environment: dict[str, str] = {}
        self._settings = Settings()
        self._state = StackState(supervisor_pid=0, supervisor_started="")

    def run(self, supervisor: Identity) -> None:
        """Start everything, print the addresses, follow the logs; on any exception stop everything.

        Raises StackError when a part does not start.
        """
        self._state_dir.mkdir(parents=True, exist_ok=True)
        with self._state_file.held():
            self._refuse_leftovers()
            require_free(self._plan.processes(), self._local.port_base)
            self._prepare(supervisor)
            try:
                self._start()
                # `burstchat up` reads until the stack is ready, so the addresses come first.
                self._announce()
                self._note(is_ready=True)
                self._keep_running()
            finally:
                self._stop()
                self._state_file.remove()

    def _refuse_leftovers(self) -> None:
        state = self._state_file.read()
        for record in leftovers(state) if state else []:
            raise StackError(
                f"{record.role} {record.index} (pid {record.pid}) of an earlier run is still there: "
                "`burstchat down` ends it"
            )

    def _prepare(self, supervisor: Identity) -> None:
        shutil.rmtree(self._logs, ignore_errors=True)
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._logs.mkdir(parents=True)
        self._scratch.mkdir(parents=True)
        credentials = make_credentials(self._state_dir, self._person)
        self._environment = environment.service_environment(self._person, self._plan, credentials)
        self._settings = load_settings("local_stack", self._environment)
        self._state = StackState(
            supervisor_pid=supervisor.pid,
            supervisor_started=supervisor.started,
            urls=self._plan.urls(),
        )
        self._state_file.write(self._state)

    @property
    def _scratch(self) -> Path:
        """The emulator's folder: unpacked bundles, objects; empty at each start."""
        return self._state_dir / "emulator"

    def _start(self) -> None:
        step = self._progress.step
        folder = ROOT / self._local.knowledge_dir
        # Before anything runs: what is wrong with a document is told at once.
        read_documents(folder)
        self._start_infrastructure()
        with step("building the Lambda bundles"):
            bundles = _build_bundles()
        with step("Valkey, AWS emulator, model server"):
            self._wait_ready(self._plan.infrastructure())
        emulator_url = self._plan.aws_emulator.url
        deployer = Deployer(ROOT, emulator_url, self._settings)
        with step("deploying the CloudFormation stacks"):
            deployment = deployer.deploy(bundles)
        with step("knowledge documents and index"):
            KnowledgeSeeder(
                folder,
                ROOT / "build/knowledge",
                emulator_url,
                builder=bundles["knowledge_refresh"],
                today=datetime.fromtimestamp(SystemClock().now_ms() / 1_000, UTC).date(),
                orders_prefix=self._settings.aws.orders_prefix,
            ).seed(deployment.knowledge_bucket, deployment.refresh_function)
        with step("orchestrator, queue_runner, gateway"):
            self._start_services(deployment)
            self._wait_ready(self._plan.services())
        with step("burst worker initialised"):
            deployer.warm_up(deployment)

    def _start_infrastructure(self) -> None:
        plan = self._plan
        scratch = str(self._scratch)
        self._spawn_valkey(plan.valkey)
        self._spawn(
            plan.aws_emulator,
            commands.emulator_command(ROOT),
            environment.emulator_environment(self._person, plan.aws_emulator, scratch),
        )
        if plan.model_server is not None:
            command = commands.model_server_command(plan.model_server, self._local)
            self._spawn(plan.model_server, command, self._environment)

    def _start_services(self, deployment: Deployment) -> None:
        given = {k: v for k, v in deployment.variables.items() if k not in self._person}
        self._environment.update(given)
        self._note(
            queues=deployment.queues,
            tables=deployment.tables,
            buckets={"knowledge": deployment.knowledge_bucket},
        )
        for process in self._plan.services():
            self._services[process.name] = process
            self._spawn_service(process)

    def _spawn_valkey(self, process: PlannedProcess) -> None:
        command = commands.valkey_command(process, self._scratch)
        self._spawn(process, command, self._environment)

    def _spawn_service(self, process: PlannedProcess) -> None:
        self._spawn(
            process,
            commands.service_command(process),
            environment.process_environment(self._environment, process),
        )

    def _spawn(
        self, process: PlannedProcess, command: list[str | Path], variables: Mapping[str, str]
    ) -> None:
        log = self._logs / f"{process.name}.log"
        if process.name not in self._children:
            label = process.role if process.index == 0 else f"{process.role} {process.index}"
            self._follower.add(process.role, label, log)
        child = ChildProcess(process.name, command, environment=variables, folder=ROOT, log=log)
        self._children[process.name] = child
        record = ProcessRecord(
            role=process.role,
            index=process.index,
            pid=child.identity.pid,
            started=child.identity.started,
            port=process.port,
            health_path=process.health_path,
        )
        kept = [
            r for r in self._state.processes if (r.role, r.index) != (record.role, record.index)
        ]
        self._note(processes=(*kept, record))

    def _wait_ready(self, processes: tuple[PlannedProcess, ...]) -> None:
        for process in processes:
            wait_healthy(
                process.name,
                process.port,
                process.health_path,
                within_s=_READY_WITHIN_S,
                check_alive=self._check_started,
            )

    def _check_started(self) -> None:
        """While starting, any process that ends is a failed start."""
        self._follower.step()
        for child in self._children.values():
            code = child.exit_code()
            if code is not None:
                self._follower.step()
                end = "\n".join(child.log.read_text(errors="replace").splitlines()[-_QUOTED_LINES:])
                raise StackError(
                    f"{child.name} ended with code {code}; its log: {child.log}\n{end}"
                )

    def _announce(self) -> None:
        urls = self._plan.urls()
        print(f"\nchat          {urls['chat']}")
        print(f"websocket     {urls['websocket']}")
        print(f"management    {urls['management_api']}")
        print(f"logs          {self._logs}")
        who = urls.get("model_server", "the real model provider")
        print(f"model         {who}\n", flush=True)

    def _keep_running(self) -> None:
        while True:
            self._follower.step()
            for child in list(self._children.values()):
                if child.exit_code() is not None:
                    self._ended(child)
            time.sleep(_STEP_S)

    def _ended(self, child: ChildProcess) -> None:
        """Start it anew after a pause, as ECS and ElastiCache do; what keeps its data in memory only stays away."""
        start = self._starter(child.name)
        code = child.exit_code()
        if child.name not in self._restart_at:
            again = start is not None and code != EXIT_CONFIGURATION
            what = (
                f"starting anew in {_RESTART_AFTER_S:.0f} s" if again else "the stack is impaired"
            )
            print(f"{child.name} ended with code {code}: {what}; its log: {child.log}", flush=True)
            pause_s = _RESTART_AFTER_S if again else float("inf")
            self._restart_at[child.name] = self._clock.monotonic_s() + pause_s
        elif start is not None and self._clock.monotonic_s() >= self._restart_at[child.name]:
            del self._restart_at[child.name]
            start()

    def _starter(self, name: str) -> Callable[[], None] | None:
        valkey = self._plan.valkey
        if name == valkey.name:
            return partial(self._spawn_valkey, valkey)
        service = self._services.get(name)
        return None if service is None else partial(self._spawn_service, service)

    def _stop(self) -> None:
        """Services first, all at once, so that they drain while what they need still runs."""
        self._note(is_ready=False)
        services = [child for name, child in self._children.items() if name in self._services]
        others = [child for name, child in self._children.items() if name not in self._services]
        drain_ms = max(
            self._settings.gateway.gateway_drain_ms,
            self._settings.orchestrator.orchestrator_drain_ms,
            self._settings.queue_runner.queue_runner_drain_ms,
        )
        _end_together(services, drain_ms / 1_000 + _STOP_EXTRA_S, self._clock)
        _end_together(others, _INFRASTRUCTURE_STOPS_WITHIN_S, self._clock)
        self._follower.step()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _note(self, **changes: object) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)
        self._state_file.write(self._state)


def own_identity(pid: int) -> Identity:
    """The identity of a running process."""
    return Identity(pid, start_mark(pid))


def _build_bundles() -> dict[str, Bundle]:
    try:
        target = local_target(ROOT)
        return {function: build_bundle(function, target) for function in FUNCTIONS}
    except PackagingError as error:
        raise StackError(str(error)) from error


def _end_together(children: list[ChildProcess], within_s: float, clock: SystemClock) -> None:
    for child in children:
        child.ask_to_stop()
    deadline = clock.monotonic_s() + within_s
    for child in children:
        child.end(deadline - clock.monotonic_s())
