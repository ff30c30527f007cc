"""Each bundle on its own: it imports with nothing else on the path and ships its bytecode."""

import subprocess
import sys
import zipfile
from pathlib import PurePosixPath

import pytest

from infra.bundles.targets import local_target
from infra.package import FUNCTIONS, ROOT, build_bundle

LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024


@pytest.fixture(scope="module", params=FUNCTIONS)
def bundle(request):
    return build_bundle(request.param, local_target(ROOT))


@pytest.fixture(scope="module")
def unpacked(bundle, tmp_path_factory):
    folder = tmp_path_factory.mktemp(bundle.function)
    with zipfile.ZipFile(bundle.path) as zipped:
        zipped.extractall(folder)
    return folder


def run_isolated(folder, code):
    """Run code with the standard library and the bundle, and nothing else of this machine."""
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{str(folder)!r}]\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_handler_imports_with_nothing_else_on_the_path(bundle, unpacked):
    run_isolated(
        unpacked,
        f"from functions.{bundle.function}.handler import handler\nassert callable(handler)",
    )


def test_the_clients_and_the_embedding_model_load_after_pruning(bundle, unpacked):
    if bundle.function in {"dlq_triage", "backlog_metric"}:
        return  # they embed nothing
    run_isolated(
        unpacked,
        """
import boto3, pathlib, wordllama
session = boto3.session.Session("a", "b", region_name="us-east-1")
from_bundle = ["dynamodb", "s3", "sqs", "sts"]
for service in from_bundle:
    session.client(service)
folder = pathlib.Path(wordllama.__file__).parent
model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
assert model.embed(["a story about pirates"]).shape[0] == 1
""",
    )


def test_the_model_client_loads_in_the_worker(bundle, unpacked):
    if bundle.function != "burst_worker":
        return  # only the worker calls models
    run_isolated(
        unpacked,
        """
import anthropic, asyncio
async def main():
    client = anthropic.AsyncAnthropic(
        api_key="k", http_client=anthropic.DefaultAioHttpClient(), max_retries=0
    )
    await client.close()
asyncio.run(main())
""",
    )


def test_no_module_lacks_its_bytecode(bundle):
    tag = f"cpython-{sys.version_info.major}{sys.version_info.minor}"
    with zipfile.ZipFile(bundle.path) as zipped:
        names = set(zipped.namelist())
    modules = [PurePosixPath(name) for name in names if name.endswith(".py")]
    missing = [
        str(module)
        for module in modules
        if str(module.parent / "__pycache__" / f"{module.stem}.{tag}.pyc") not in names
    ]
    assert modules
    assert missing == []


def test_bytecode_is_never_checked_against_its_source(bundle):
    with zipfile.ZipFile(bundle.path) as zipped:
        for name in zipped.namelist():
            if name.endswith(".pyc"):
                with zipped.open(name) as compiled:
                    header = compiled.read(8)
                # PEP 552: bit 0 says hash-based, bit 1 says checked.
                assert int.from_bytes(header[4:8], "little") == 0b01


def test_a_bundle_brings_only_its_own_function_and_no_service(bundle):
    with zipfile.ZipFile(bundle.path) as zipped:
        names = zipped.namelist()
    own = {
        name.split("/")[1]
        for name in names
        if name.startswith("functions/") and name.count("/") > 1
    }
    assert own == {bundle.function, "__pycache__"}
    assert not [n for n in names if n.startswith(("services/", "tests/", "infra/", "clients/"))]
    assert len(names) == len(set(names))


def test_a_bundle_fits_lambda(bundle):
    assert bundle.unzipped_bytes < LAMBDA_LIMIT_BYTES


def test_building_again_finds_the_same_bundle(bundle):
    again = build_bundle(bundle.function, local_target(ROOT))
    assert again == bundle
