import pytest

from shared.bootstrap.adapters import push_credential
from shared.bootstrap.gateway import open_gateway_ports
from shared.bootstrap.worker import open_worker
from shared.clock import SystemClock, SystemRandomness
from shared.errors import ConfigurationError, DependencyUnavailable
from shared.policy.sigv4 import Credential
from shared.settings import load_settings
from shared.telemetry import Metrics
from tests.fakes.queues import FakeDispatcher

ENVIRON = {
    "BURSTCHAT_REDIS_URL": "redis://127.0.0.1:1/0",
    "BURSTCHAT_AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "BURSTCHAT_BURST_QUEUE_URL": "http://127.0.0.1:1/0/burst",
    "BURSTCHAT_RETRY_QUEUE_URL": "http://127.0.0.1:1/0/retry",
    "BURSTCHAT_DEFERRED_QUEUE_URL": "http://127.0.0.1:1/0/deferred",
    "BURSTCHAT_BACKGROUND_QUEUE_URL": "http://127.0.0.1:1/0/background",
    "BURSTCHAT_BURST_DLQ_URL": "http://127.0.0.1:1/0/burst-dlq",
    "BURSTCHAT_DEFERRED_DLQ_URL": "http://127.0.0.1:1/0/deferred-dlq",
    "BURSTCHAT_BACKGROUND_DLQ_URL": "http://127.0.0.1:1/0/background-dlq",
    "BURSTCHAT_TURNS_TABLE": "turns",
    "BURSTCHAT_KNOWLEDGE_BUCKET": "knowledge",
    "BURSTCHAT_PUSH_ACCESS_KEY_ID": "AKIDPUSH",
    "BURSTCHAT_PUSH_SECRET_ACCESS_KEY": "push-secret",
    "BURSTCHAT_INTAKE_URLS": "http://127.0.0.1:1",
    "BURSTCHAT_JWT_SECRET": "x" * 32,
    "BURSTCHAT_MODEL_BASE_URL": "http://127.0.0.1:1",
}
CLOCK, RANDOMNESS = SystemClock(), SystemRandomness()


async def test_gateway_ports_open_although_every_dependency_is_away():
    async with open_gateway_ports(load_settings("gateway", ENVIRON), CLOCK, RANDOMNESS) as ports:
        with pytest.raises(DependencyUnavailable):
            await ports.load.read()


async def test_a_worker_does_not_open_without_its_knowledge(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with pytest.raises(DependencyUnavailable):
        async with open_worker(
            load_settings("orchestrator", ENVIRON),
            "orchestrator",
            worker="w",
            dispatcher=lambda *_: FakeDispatcher(),
            clock=CLOCK,
            randomness=RANDOMNESS,
            metrics=Metrics("burstchat", "orchestrator", CLOCK),
        ):
            pass


def test_the_push_credential_is_the_settings_own():
    assert push_credential(load_settings("gateway", ENVIRON)) == Credential(
        "AKIDPUSH", "push-secret", "us-east-1"
    )


def test_a_gateway_without_orchestrators_does_not_start():
    with pytest.raises(ConfigurationError, match="BURSTCHAT_INTAKE_URLS"):
        load_settings("gateway", {**ENVIRON, "BURSTCHAT_INTAKE_URLS": ""})
