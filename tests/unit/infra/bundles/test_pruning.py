from pathlib import PurePosixPath

import pytest

from infra.bundles.pruning import is_shipped


@pytest.mark.parametrize(
    "path",
    [
        "anthropic/_client.py",
        "anthropic/py.typed",
        "botocore/data/endpoints.json",
        "botocore/data/sqs/2012-11-05/service-2.json.gz",
        "numpy/_core/_multiarray_umath.so",
        "numpy/testing/__init__.py",
        "opentelemetry_api-1.0.dist-info/entry_points.txt",
        "redis-1.0.dist-info/licenses/LICENSE",
        "wordllama/weights/l2_supercat_256.safetensors",
        "six.py",
    ],
)
def test_what_runs_is_shipped(path):
    assert is_shipped(PurePosixPath(path))


@pytest.mark.parametrize(
    "path",
    [
        "bin/httpx",
        "botocore/data/ec2/2016-11-15/service-2.json.gz",
        "botocore/data/s3/2006-03-01/examples-1.json",
        "hf_xet/hf_xet.abi3.so",
        "hf_xet-1.8.0.dist-info/METADATA",
        "numpy/f2py/crackfortran.py",
        "numpy/lib/tests/test_io.py",
        "numpy/__init__.pyi",
        "redis-1.0.dist-info/RECORD",
        "wordllama/algorithms/kmeans.c",
    ],
)
def test_what_does_not_run_stays_behind(path):
    assert not is_shipped(PurePosixPath(path))
