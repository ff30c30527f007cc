"""The rules between queues, functions and turn limits that no linter knows."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from cfnlint.decode import cfn_yaml

from infra.local.credentials import Credentials
from infra.local.environment import service_environment
from infra.local.plan import plan_stack
from shared.settings import (
    PACKED,
    PREFIX,
    LocalStackSettings,
    Settings,
    load_settings,
    variable_name,
)

ROOT = Path(__file__).parents[2]
TEMPLATES = {path.stem: path for path in sorted((ROOT / "infra/templates").glob("*.yaml"))}
PARAMETER_FILES = {path.stem: path for path in sorted((ROOT / "infra/parameters").glob("*.json"))}
QUEUES = ("Burst", "Retry", "Deferred", "Background")
TRIGGERED = ("Burst", "Retry")
LOCAL_PLAN = plan_stack(LocalStackSettings(), has_model_server=True)
LOCAL_CREDENTIALS = Credentials("key-id", "key", "secret")
# The one setting whose default differs by where it runs.
PER_DEPLOYMENT = {"environment"}


def template(name):
    return cfn_yaml.load(str(TEMPLATES[name]))


def default(name, parameter, environment=None):
    chosen = {}
    if environment:
        chosen = json.loads(PARAMETER_FILES[environment].read_text())[name]
    return int(chosen.get(parameter, template(name)["Parameters"][parameter]["Default"]))


def resources(name, kind):
    return {k: v for k, v in template(name)["Resources"].items() if v["Type"] == kind}


def settings_by_name():
    return {
        setting.name: setting for group in fields(Settings) for setting in fields(group.default)
    }


def snake(camel):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()


def variables(function):
    """The environment of a function, what is packed into one variable included."""
    body = template("functions")["Resources"][function]["Properties"]["Environment"]["Variables"]
    given = {name: value for name, value in body.items() if name != PACKED}
    packed = body.get(PACKED, {}).get("Fn::Sub", "")
    return given | {PREFIX + name: value for name, value in re.findall(r"(\w+)=(\S+)", packed)}


def references(node):
    """Every parameter name that a template part refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "Ref":
                yield value
            elif key == "Fn::Sub":
                text = value[0] if isinstance(value, list) else value
                yield from re.findall(r"\$\{([A-Za-z0-9]+)\}", text)
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def numbers(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key not in ("Version", "AWSTemplateFormatVersion"):
                yield from numbers(value)
    elif isinstance(node, list):
        for value in node:
            yield from numbers(value)
    elif isinstance(node, int) and not isinstance(node, bool):
        yield int(node)


def test_the_linter_has_nothing_to_say():
    result = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), *map(str, TEMPLATES.values())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stdout, result.returncode) == ("", 0)


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_parameter_is_used(name):
    body = template(name)
    used = set(references({k: body.get(k, {}) for k in ("Resources", "Conditions", "Outputs")}))
    assert set(body["Parameters"]) <= used


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_number_is_a_parameter(name):
    assert list(numbers(template(name)["Resources"])) == []


@pytest.mark.parametrize("environment", PARAMETER_FILES)
def test_parameter_files_name_only_parameters_that_exist(environment):
    chosen = json.loads(PARAMETER_FILES[environment].read_text())
    assert set(chosen) == set(TEMPLATES)
    for name, values in chosen.items():
        assert set(values) <= set(template(name)["Parameters"])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_parameter_named_like_a_setting_has_its_default(name):
    settings = settings_by_name()
    for parameter, shape in template(name)["Parameters"].items():
        setting = settings.get(snake(parameter))
        if setting is not None and setting.name not in PER_DEPLOYMENT:
            expected = str(setting.default)
            assert (parameter, str(shape["Default"])) == (parameter, expected)


@pytest.mark.parametrize(
    "function", ["BurstWorker", "KnowledgeRefresh", "DlqTriage", "BacklogMetric"]
)
def test_every_function_variable_is_a_setting(function):
    known = {variable_name(setting) for setting in settings_by_name().values()}
    assert set(variables(function)) <= known


@pytest.mark.parametrize(
    ("function", "role"),
    [
        ("BurstWorker", "burst_worker"),
        ("DlqTriage", "dlq_triage"),
        ("BacklogMetric", "backlog_metric"),
    ],
)
def test_a_function_gets_every_setting_that_it_requires(function, role):
    given = set(variables(function))
    for setting in settings_by_name().values():
        if role in setting.metadata["required_by"]:
            assert variable_name(setting) in given


def test_the_workers_environment_fits_the_limit_of_4_kib():
    defaults = template("functions")["Parameters"]
    body = template("functions")["Resources"]["BurstWorker"]["Properties"]["Environment"]

    def length(parameter):
        """Of its default, with room for two figures more."""
        return len(str(defaults.get(parameter, {}).get("Default", ""))) + 2

    size = 0
    for name, value in body["Variables"].items():
        size += len(name)
        if name == PACKED:
            size += len(re.sub(r"\$\{\w+\}", "", value["Fn::Sub"]))
            size += sum(map(length, re.findall(r"\$\{(\w+)\}", value["Fn::Sub"])))
        elif name.endswith(("URL", "KEY", "BUCKET", "STREAM", "GUARDRAIL_ID")):
            size += 120
        else:
            size += max(24, length(value.get("Ref", "")))
    assert size < 4_096


@pytest.mark.parametrize("environment", PARAMETER_FILES)
class TestEachEnvironment:
    @pytest.mark.parametrize("queue", TRIGGERED)
    @pytest.mark.case("B-03")
    def test_visibility_is_six_function_timeouts(self, environment, queue):
        timeout_s = default("functions", "BurstWorkerTimeoutS", environment)
        assert default("queues", f"{queue}VisibilityS", environment) >= 6 * timeout_s

    @pytest.mark.parametrize("queue", ["Deferred", "Background"])
    def test_visibility_is_two_extension_intervals(self, environment, queue):
        visibility_s = default("queues", f"{queue}VisibilityS", environment)
        assert visibility_s >= 2 * Settings().queue_runner.queue_extend_s
        # What the queue_runner asks for at each receive, so that both mean the same.
        assert visibility_s == Settings().queue_runner.queue_visibility_s

    @pytest.mark.parametrize("queue", QUEUES)
    @pytest.mark.case("B-29", "B-40")
    def test_a_failing_message_reaches_the_dead_letter_queue_before_it_expires(
        self, environment, queue
    ):
        receives = default("queues", "MaxReceiveCount", environment)
        visibility_s = default("queues", f"{queue}VisibilityS", environment)
        retention_s = default("queues", f"{queue}RetentionS", environment)
        assert retention_s > receives * visibility_s
        assert default("queues", "DlqRetentionS", environment) > retention_s

    @pytest.mark.case("B-03")
    def test_receives_outnumber_attempts(self, environment):
        receives = default("queues", "MaxReceiveCount", environment)
        assert receives > Settings().turn.attempts_per_turn
        assert receives >= 3

    def test_reserved_concurrency_covers_both_triggers(self, environment):
        reserved = default("functions", "BurstWorkerReservedConcurrency", environment)
        wanted = default("functions", "BurstMaximumConcurrency", environment) + default(
            "functions", "RetryMaximumConcurrency", environment
        )
        assert reserved == 0 or reserved >= wanted

    @pytest.mark.case("B-03")
    def test_turn_limits_and_timeouts_nest(self, environment):
        stale_ms = default("functions", "StaleAfterMs", environment)
        first_text_ms = default("functions", "FirstTextLimitMs", environment)
        generation_ms = default("functions", "GenerationLimitMs", environment)
        timeout_ms = 1_000 * default("functions", "BurstWorkerTimeoutS", environment)
        outcome_kept_ms = default("functions", "OutcomeKeptMs", environment)
        receives = default("queues", "MaxReceiveCount", environment)
        assert stale_ms < first_text_ms < timeout_ms
        assert generation_ms < timeout_ms
        for queue in QUEUES:
            visibility_s = default("queues", f"{queue}VisibilityS", environment)
            assert outcome_kept_ms > receives * visibility_s * 1_000


@pytest.mark.parametrize(
    ("environment", "environ"),
    [("production", {}), ("local", service_environment({}, LOCAL_PLAN, LOCAL_CREDENTIALS))],
)
def test_services_and_functions_count_on_the_capacity_of_the_trigger(environment, environ):
    concurrency = default("functions", "BurstMaximumConcurrency", environment)
    batch = default("functions", "BurstBatchSize", environment)
    settings = load_settings("local_stack", environ)
    assert concurrency * batch == settings.orchestrator.burst_capacity_turns


@pytest.mark.parametrize("queue", QUEUES)
def test_every_queue_has_a_dead_letter_queue_of_its_own_and_the_same_type(queue):
    queues = resources("queues", "AWS::SQS::Queue")
    source, dead = queues[f"{queue}Queue"]["Properties"], queues[f"{queue}Dlq"]["Properties"]
    target = source["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"]
    assert list(target) == [f"{queue}Dlq", "Arn"]
    assert source.get("FifoQueue") == dead.get("FifoQueue") is None
    assert source["SqsManagedSseEnabled"] is dead["SqsManagedSseEnabled"] is True


@pytest.mark.parametrize("queue", TRIGGERED)
@pytest.mark.case("B-04")
def test_triggers_report_single_failures_and_call_the_alias(queue):
    trigger = template("functions")["Resources"][f"{queue}Trigger"]["Properties"]
    assert trigger["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert trigger["FunctionName"] == {"Ref": "BurstWorkerLive"}
    assert trigger["Enabled"] is True


@pytest.mark.parametrize("queue", QUEUES)
def test_every_dead_letter_queue_triggers_triage_which_reports_single_failures(queue):
    trigger = template("functions")["Resources"][f"{queue}DlqTrigger"]["Properties"]
    assert trigger["FunctionName"] == {"Ref": "DlqTriage"}
    assert trigger["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    source = trigger["EventSourceArn"]["Fn::ImportValue"]["Fn::Sub"]
    assert source.endswith(f"-{queue}DlqArn")


@pytest.mark.parametrize("queue", QUEUES)
def test_no_dead_letter_is_ever_moved_on(queue):
    dead = resources("queues", "AWS::SQS::Queue")[f"{queue}Dlq"]["Properties"]
    assert "RedrivePolicy" not in dead
    assert dead["VisibilityTimeout"] == {"Ref": "DlqVisibilityS"}


@pytest.mark.parametrize("environment", PARAMETER_FILES)
def test_the_visibility_of_dead_letters_is_six_timeouts_of_triage(environment):
    timeout_s = default("functions", "DlqTriageTimeoutS", environment)
    assert default("queues", "DlqVisibilityS", environment) >= 6 * timeout_s


@pytest.mark.parametrize("name", ["NewFingerprint", "GrowingFingerprint"])
def test_a_fingerprint_alarm_watches_the_metric_that_triage_publishes(name):
    alarm = template("functions")["Resources"][f"{name}Seen"]["Properties"]
    assert alarm["MetricName"] == name
    assert f'count("{name}")' in (ROOT / "functions/dlq_triage/triage.py").read_text()
    assert alarm["Dimensions"] == [{"Name": "Role", "Value": "dlq_triage"}]


def test_the_alias_names_a_snapstart_version():
    body = template("functions")["Resources"]
    assert body["BurstWorker"]["Properties"]["SnapStart"] == {"ApplyOn": "PublishedVersions"}
    assert body["BurstWorkerLive"]["Properties"]["Name"] == "live"
    assert list(body["BurstWorkerLive"]["Properties"]["FunctionVersion"]["Fn::GetAtt"]) == [
        "BurstWorkerVersion",
        "Version",
    ]


@pytest.mark.parametrize("table", ["TurnsTable", "DeadTurnsTable"])
def test_tables_are_on_demand_with_the_documented_keys_and_ttl(table):
    body = template("data")["Resources"][table]["Properties"]
    assert [key["AttributeName"] for key in body["KeySchema"]] == ["pk", "sk"]
    assert body["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert body["BillingMode"] == "PAY_PER_REQUEST"


def test_every_alarm_names_a_runbook_that_exists():
    for name in TEMPLATES:
        for alarm in resources(name, "AWS::CloudWatch::Alarm").values():
            found = re.search(r"docs/runbooks/\S+\.md", alarm["Properties"]["AlarmDescription"])
            assert found
            assert (ROOT / found.group()).is_file()


# AWS offers no resource for these.
ONLY_EVERYWHERE = {"cloudwatch:GetMetricData"}


def test_roles_name_their_resources():
    for role in resources("functions", "AWS::IAM::Role").values():
        for policy in role["Properties"]["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                spoken = json.dumps(statement)
                is_narrow = '"Resource": "*"' not in spoken
                assert is_narrow or statement["Action"] in ONLY_EVERYWHERE
                assert not re.search(r'"[a-z0-9]+:\*"', spoken)


def test_imports_are_exported_by_the_stacks_deployed_before():
    exported = set()
    for name in ("data", "queues", "functions", "schedules"):
        body = template(name)
        imported = set(re.findall(r"ImportValue.{0,30}?\$\{Deployment\}-(\w+)", json.dumps(body)))
        assert imported <= exported
        exported |= set(body.get("Outputs", {}))


def test_the_backlog_is_divided_by_the_tasks_of_the_service_that_is_scaled():
    scaled = template("scaling")["Parameters"]
    counted = json.loads(PARAMETER_FILES["production"].read_text())["functions"]
    assert counted["EcsCluster"] == scaled["ClusterName"]["Default"]
    assert counted["QueueRunnerService"] == scaled["QueueRunnerServiceName"]["Default"]


@pytest.mark.parametrize(
    ("metric", "role", "source"),
    [
        ("Connections", "gateway", "services/gateway/stats.py"),
        ("RunningPerSlot", "orchestrator", "services/orchestrator/stats.py"),
        ("BacklogPerTask", "backlog_metric", "functions/backlog_metric/backlog.py"),
        ("BacklogWithoutTasks", "backlog_metric", "functions/backlog_metric/backlog.py"),
    ],
)
def test_scaling_follows_metrics_that_somebody_publishes(metric, role, source):
    followed = json.dumps(template("scaling")["Resources"])
    assert f'"MetricName": "{metric}", "Dimensions": [{{"Name": "Role", "Value": "{role}"}}]' in (
        followed
    )
    assert f'gauge("{metric}"' in (ROOT / source).read_text()


@pytest.mark.parametrize(
    ("high", "target", "low"), [("BacklogPerTaskHigh", "BacklogPerTaskTarget", "BacklogPerTaskLow")]
)
def test_tasks_come_above_the_target_and_go_well_below_it(high, target, low):
    assert default("scaling", high) > default("scaling", target) > 2 * default("scaling", low)


def test_what_is_far_above_is_brought_to_the_target_in_one_step():
    high, far = default("scaling", "BacklogPerTaskHigh"), default("scaling", "BacklogFarStep")
    target = default("scaling", "BacklogPerTaskTarget")
    for backlog, percent in (
        (high, "QueueRunnerOutPercent"),
        (high + far, "QueueRunnerFarOutPercent"),
    ):
        assert backlog / (1 + default("scaling", percent) / 100) == target
