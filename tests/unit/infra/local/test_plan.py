import pytest

from infra.local.plan import plan_stack
from shared.settings import LocalStackSettings


def ports_of(plan):
    return {process.name: [port for port, _ in process.ports()] for process in plan.processes()}


def test_one_of_each_listens_on_the_documented_ports():
    assert ports_of(plan_stack(LocalStackSettings(), has_model_server=True)) == {
        "valkey-0": [8085],
        "aws_emulator-0": [8084],
        "model_server-0": [8083],
        "orchestrator-0": [8082],
        "queue_runner-0": [8086],
        "gateway-0": [8080, 8081],
    }


def test_more_gateways_and_orchestrators_take_ten_ports_each():
    local = LocalStackSettings(port_base=9000, gateways=3, orchestrators=2)
    ports = ports_of(plan_stack(local, has_model_server=True))
    assert ports["gateway-2"] == [9020, 9021]
    assert ports["orchestrator-1"] == [9012]


def test_no_two_processes_share_a_port():
    local = LocalStackSettings(gateways=9, orchestrators=9)
    taken = [
        p for ports in ports_of(plan_stack(local, has_model_server=True)).values() for p in ports
    ]
    assert len(taken) == len(set(taken))


def test_with_a_real_model_there_is_no_model_server():
    plan = plan_stack(LocalStackSettings(), has_model_server=False)
    assert "model_server-0" not in ports_of(plan)
    assert "model_server" not in plan.urls()


def test_infrastructure_starts_before_services_and_orchestrators_before_gateways():
    names = [p.role for p in plan_stack(LocalStackSettings(), has_model_server=True).processes()]
    infrastructure = ["valkey", "aws_emulator", "model_server"]
    assert names == [*infrastructure, "orchestrator", "queue_runner", "gateway"]


@pytest.mark.parametrize(
    ("local", "named"),
    [
        (LocalStackSettings(gateways=0), "BURSTCHAT_GATEWAYS"),
        (LocalStackSettings(orchestrators=0), "BURSTCHAT_ORCHESTRATORS"),
        (LocalStackSettings(port_base=65_533), "BURSTCHAT_PORT_BASE"),
        (LocalStackSettings(port_base=0), "BURSTCHAT_PORT_BASE"),
    ],
)
def test_a_plan_without_room_names_the_setting(local, named):
    with pytest.raises(ValueError, match=named):
        plan_stack(local, has_model_server=True)
