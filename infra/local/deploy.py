"""Deploys the production templates to the emulator, with the bundles."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from infra.local.aws import connect
from infra.local.errors import StackError
from infra.local.parameters import choose_parameters, output_variables
from infra.package import Bundle
from shared.clock import SystemClock
from shared.settings import Settings

DEPLOYMENT = "burstchat"
_STACKS = ("data", "queues", "functions", "schedules")
_ARTEFACTS = "burstchat-artefacts"
_STACK_WITHIN_S = 60.0
_WORKER_WITHIN_S = 120.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Deployment:
    """What services need to know of the stacks."""

    variables: dict[str, str]
    queues: dict[str, str]
    tables: dict[str, str]
    knowledge_bucket: str
    refresh_function: str
    worker_alias: str | None
    """None = the queue_runner drains burst and retry, and there is no burst_worker."""
    worker_concurrency: int


class Deployer:
    """Talks to one emulator. Raises StackError naming the stack that failed."""

    def __init__(self, root: Path, endpoint_url: str, settings: Settings) -> None:
        self._root = root
        self._settings = settings
        self._endpoint_url = endpoint_url
        self._cloudformation = connect("cloudformation", endpoint_url)
        self._s3 = connect("s3", endpoint_url)

    def deploy(self, bundles: Mapping[str, Bundle]) -> Deployment:
        """Create or update every stack, in order."""
        try:
            outputs = self._deploy_stacks(bundles)
        except (BotoCoreError, ClientError) as error:
            raise StackError(f"the deployment to the AWS emulator failed: {error}") from error
        return Deployment(
            variables=output_variables(outputs),
            queues=_queues(outputs),
            tables={"turns": outputs["TurnsTable"], "dead_turns": outputs["DeadTurnsTable"]},
            knowledge_bucket=outputs["KnowledgeBucket"],
            refresh_function=outputs["KnowledgeRefresh"],
            worker_alias=outputs.get("BurstWorkerLiveArn"),
            worker_concurrency=self._parameter("functions", "BurstMaximumConcurrency"),
        )

    def warm_up(self, deployment: Deployment) -> None:
        """Wait for the worker's version, then have the emulator start as many as the trigger may use.

        AWS restores a snapshot within a second. Here each worker is a fresh process that unpacks and
        imports its bundle, which would make the first burst wait for seconds. The others start while
        the stack already serves. Raises StackError when the worker cannot be initialised.
        """
        if deployment.worker_alias is None:
            return
        client = connect("lambda", self._endpoint_url)
        try:
            self._wait_active(client, deployment.worker_alias)
            for _ in range(deployment.worker_concurrency):
                client.invoke(
                    FunctionName=deployment.worker_alias,
                    InvocationType="Event",
                    Payload=b'{"Records": []}',
                )
        except (BotoCoreError, ClientError) as error:
            raise StackError(f"burst_worker could not be invoked: {error}") from error

    def _wait_active(self, client: Any, alias: str) -> None:
        clock = SystemClock()
        deadline = clock.monotonic_s() + _WORKER_WITHIN_S
        while True:
            found = client.get_function_configuration(FunctionName=alias)
            state = found.get("State", "Active")
            if state == "Active":
                return
            if state == "Failed":
                raise StackError(f"burst_worker does not initialise: {found.get('StateReason')}")
            if clock.monotonic_s() > deadline:
                raise StackError(f"burst_worker is still {state} after {_WORKER_WITHIN_S:.0f} s")
            time.sleep(_POLL_S)

    def _deploy_stacks(self, bundles: Mapping[str, Bundle]) -> dict[str, str]:
        given = self._upload_bundles(bundles)
        outputs: dict[str, str] = {}
        for name in _STACKS:
            outputs.update(self._deploy_stack(name, given))
            if name == "functions":
                self._mend_triggers()
        return outputs

    def _upload_bundles(self, bundles: Mapping[str, Bundle]) -> dict[str, str]:
        self._s3.create_bucket(Bucket=_ARTEFACTS)
        given = {
            "Deployment": DEPLOYMENT,
            "CodeBucket": _ARTEFACTS,
            "Architecture": "x86_64" if platform.machine() in ("x86_64", "AMD64") else "arm64",
        }
        for function, bundle in bundles.items():
            with bundle.path.open("rb") as body:
                self._s3.put_object(Bucket=_ARTEFACTS, Key=bundle.path.name, Body=body)
            camel = "".join(part.capitalize() for part in function.split("_"))
            given[f"{camel}CodeKey"] = bundle.path.name
            given[f"{camel}Release"] = bundle.content_hash
        return given

    def _deploy_stack(self, name: str, given: dict[str, str]) -> dict[str, str]:
        template = (self._root / f"infra/templates/{name}.yaml").read_text()
        declared = self._cloudformation.validate_template(TemplateBody=template)["Parameters"]
        chosen = choose_parameters(
            [parameter["ParameterKey"] for parameter in declared],
            self._file_values(name),
            self._settings,
            given,
        )
        if "BurstWorkerRelease" in chosen:
            chosen["BurstWorkerRelease"] = _hash(chosen)
        stack = f"{DEPLOYMENT}-{name}"
        request: dict[str, Any] = {
            "StackName": stack,
            "TemplateBody": template,
            "Capabilities": ["CAPABILITY_IAM"],
            "Parameters": [
                {"ParameterKey": key, "ParameterValue": value} for key, value in chosen.items()
            ],
        }
        try:
            self._cloudformation.create_stack(**request)
        except self._cloudformation.exceptions.AlreadyExistsException:
            self._update(request)
        return self._outputs(stack)

    def _update(self, request: dict[str, Any]) -> None:
        try:
            self._cloudformation.update_stack(**request)
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise

    def _outputs(self, stack: str) -> dict[str, str]:
        """Wait for the stack to settle."""
        clock = SystemClock()
        deadline = clock.monotonic_s() + _STACK_WITHIN_S
        while True:
            found = self._cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
            status: str = found["StackStatus"]
            if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
                return {o["OutputKey"]: o["OutputValue"] for o in found.get("Outputs", [])}
            if not status.endswith("_IN_PROGRESS") or "ROLLBACK" in status:
                raise StackError(f"stack {stack}: {status}: {self._failure(stack)}")
            if clock.monotonic_s() > deadline:
                raise StackError(f"stack {stack} is still {status} after {_STACK_WITHIN_S:.0f} s")
            time.sleep(_POLL_S)

    def _failure(self, stack: str) -> str:
        events = self._cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
        reasons = [
            f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"
            for event in events
            if "FAILED" in event["ResourceStatus"]
        ]
        return "; ".join(reasons) or "no reason given"

    def _mend_triggers(self) -> None:
        """Say again what the emulator makes text of, and then cannot compare."""
        client = connect("lambda", self._endpoint_url)
        for trigger in client.list_event_source_mappings()["EventSourceMappings"]:
            concurrency = trigger.get("ScalingConfig", {}).get("MaximumConcurrency")
            if concurrency is not None:
                client.update_event_source_mapping(
                    UUID=trigger["UUID"],
                    ScalingConfig={"MaximumConcurrency": int(concurrency)},
                )

    def _file_values(self, name: str) -> dict[str, str]:
        path = self._root / "infra/parameters/local.json"
        values: dict[str, dict[str, str]] = json.loads(path.read_text())
        return values[name]

    def _parameter(self, stack: str, name: str) -> int:
        found = self._cloudformation.describe_stacks(StackName=f"{DEPLOYMENT}-{stack}")["Stacks"]
        values = {p["ParameterKey"]: p["ParameterValue"] for p in found[0]["Parameters"]}
        return int(values[name])


def _queues(outputs: Mapping[str, str]) -> dict[str, str]:
    """Short name → URL, from outputs such as BurstQueueUrl and BurstDlqUrl."""
    queues: dict[str, str] = {}
    for name, url in outputs.items():
        if name.endswith("QueueUrl"):
            queues[name.removesuffix("QueueUrl").lower()] = url
        elif name.endswith("DlqUrl"):
            queues[name.removesuffix("DlqUrl").lower() + "_dlq"] = url
    return queues


def _hash(values: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
