"""`python -m services.gateway`: one gateway process."""

from __future__ import annotations

from services.gateway.app import build_gateway
from services.http_server import listen
from services.lifecycle import StopSignals, run_process
from shared.bootstrap.gateway import open_gateway_ports
from shared.clock import SystemClock, SystemRandomness
from shared.settings import load_settings, unknown_variables
from shared.telemetry import Log, Metrics, configure_logging

_log = Log("gateway")


async def main() -> None:
    """Settings, ports, gateway, until a signal."""
    clock, randomness = SystemClock(), SystemRandomness()
    settings = load_settings("gateway")
    configure_logging("gateway", settings.telemetry.log_level, clock)
    for name, nearest in unknown_variables().items():
        _log.warning("setting.unknown", name=name, nearest=nearest)
    signals = StopSignals()
    signals.install()
    host = settings.gateway.bind_host
    public = listen(host, settings.gateway.public_port, "BURSTCHAT_PUBLIC_PORT")
    private = listen(host, settings.gateway.private_port, "BURSTCHAT_PRIVATE_PORT")
    async with open_gateway_ports(settings, clock, randomness) as ports:
        gateway = build_gateway(
            settings,
            ports,
            public_listener=public,
            private_listener=private,
            clock=clock,
            randomness=randomness,
            metrics=Metrics(settings.telemetry.metrics_namespace, "gateway", clock),
        )
        _log.info("gateway.started", public=gateway.public.port, private=gateway.private.port)
        await gateway.run(signals)


if __name__ == "__main__":
    run_process(main)
