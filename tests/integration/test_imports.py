"""Which libraries a fresh process loads."""

import subprocess
import sys

import pytest


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.case("B-18")
def test_the_gateway_never_loads_what_only_workers_need():
    loaded = modules_after("import shared.bootstrap.gateway")
    assert loaded.isdisjoint({"anthropic", "boto3", "botocore", "numpy", "wordllama", "fastapi"})


def test_a_function_loads_the_adapters_of_a_worker_while_it_initialises():
    loaded = modules_after("import functions.burst_worker.handler")
    assert {"anthropic", "boto3", "numpy"} <= loaded
    assert loaded.isdisjoint({"fastapi", "uvicorn", "uvloop"})
