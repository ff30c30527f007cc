"""What a bundle leaves out, and why; pure decisions on relative paths.

Each entry was checked by importing the handlers and by loading the embedding model without it;
tests/infra/test_bundles.py repeats that.
"""

from __future__ import annotations

from pathlib import PurePosixPath

# The AWS services that a function's clients speak to. botocore ships about four hundred models.
KEPT_SERVICES = frozenset(
    {
        "apigatewaymanagementapi",
        "bedrock-runtime",
        "cloudwatch",
        "dynamodb",
        "events",
        "kinesis",
        "lambda",
        "s3",
        "sagemaker-runtime",
        "sqs",
        "sts",
    }
)

_SERVICE_FOLDERS = ("botocore/data/", "boto3/data/")

# Whole packages nobody imports at run time: wordllama's weights come in its wheel, so the model hub
# client and what only it needs stay behind.
_DROPPED_TOP_LEVEL = frozenset(
    {
        "bin",
        "hf_xet",
        "huggingface_hub",
        "fsspec",
        "filelock",
        "tqdm",
        "click",
        "yaml",
        "_yaml",
        "pyyaml",
    }
)

_DROPPED_FOLDERS = (
    "boto3/examples/",
    "numpy/_pyinstaller/",
    "numpy/distutils/",
    "numpy/doc/",
    "numpy/f2py/",
    "wordllama/extract/",
    "wordllama/trainers/",
)

_DROPPED_SUFFIXES = frozenset(
    {".a", ".c", ".cpp", ".f", ".f90", ".h", ".pxd", ".pyf", ".pyi", ".pyx", ".rst"}
)

# Of a distribution's metadata only what importlib.metadata is asked for at run time, and licences.
_KEPT_METADATA = frozenset({"METADATA", "entry_points.txt", "top_level.txt"})


def is_shipped(path: PurePosixPath) -> bool:
    """Whether a file of the installed dependencies goes into the bundle."""
    text = path.as_posix()
    if path.parts[0] in _DROPPED_TOP_LEVEL or text.startswith(_DROPPED_FOLDERS):
        return False
    if path.parts[0].endswith(".dist-info"):
        return _is_shipped_metadata(path)
    if path.suffix in _DROPPED_SUFFIXES or "tests" in path.parts[:-1]:
        return False
    return not text.startswith(_SERVICE_FOLDERS) or _is_shipped_model(path)


def _is_shipped_metadata(path: PurePosixPath) -> bool:
    distribution = path.parts[0].partition("-")[0]
    if distribution in _DROPPED_TOP_LEVEL:
        return False
    return path.name in _KEPT_METADATA or "licenses" in path.parts or "LICENSE" in path.name


def _is_shipped_model(path: PurePosixPath) -> bool:
    if len(path.parts) == 3:
        return True  # endpoints, partitions and retry rules, shared by every service
    return path.parts[2] in KEPT_SERVICES and not path.name.startswith("examples-")
