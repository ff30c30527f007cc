"""Build Lambda bundles into build/: `python -m infra.package [FUNCTION …] [--target local|lambda]`."""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from infra.bundles.archive import unzipped_bytes, write_archive
from infra.bundles.dependencies import compile_bytecode, dependency_layer, files_of
from infra.bundles.sources import function_sources
from infra.bundles.targets import PackagingError, Target, lambda_target, local_target

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = ("burst_worker", "knowledge_refresh", "dlq_triage", "backlog_metric")
_AIM_BYTES = 200 * 1024 * 1024
_LAMBDA_LIMIT_BYTES = 250 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bundle:
    """One finished zip; `content_hash` changes exactly when its content does."""

    function: str
    path: Path
    content_hash: str
    unzipped_bytes: int


def build_bundle(function: str, target: Target, root: Path = ROOT) -> Bundle:
    """Make, or find, the bundle of one function.

    Raises PackagingError when it cannot be made or is above 200 MB unzipped (Lambda refuses 250).
    """
    build = root / "build"
    requirements = root / "requirements" / f"{function}.txt"
    layer = dependency_layer(root, requirements, target, build / "layers")
    sources = function_sources(root, function)
    content_hash = _content_hash(layer, root, sources)
    path = build / f"{function}-{target.name}-{content_hash}.zip"
    if not path.exists():
        _assemble(path, layer, root, sources, target)
    size = unzipped_bytes(path)
    if size > _AIM_BYTES:
        raise PackagingError(
            f"{function}: {size / 1e6:.0f} MB unzipped is above the budget of "
            f"{_AIM_BYTES / 1e6:.0f} MB (Lambda's limit is {_LAMBDA_LIMIT_BYTES / 1e6:.0f} MB): "
            "look at infra/bundles/pruning.py"
        )
    return Bundle(function, path, content_hash, size)


def _assemble(path: Path, layer: Path, root: Path, sources: list[Path], target: Target) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        staged = Path(temporary, "sources")
        for source in sources:
            destination = staged / source
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / source, destination)
        compile_bytecode(target, staged)
        made = Path(temporary, "bundle.zip")
        shutil.copyfile(layer, made)
        write_archive(made, staged, files_of(staged), is_compressed=target.is_compressed)
        made.replace(path)
    _forget_older(path)


def _forget_older(path: Path) -> None:
    """Keep the newest few bundles of a function and target; each is about a hundred megabytes."""
    stem = path.name.rpartition("-")[0]
    siblings = sorted(path.parent.glob(f"{stem}-*.zip"), key=lambda p: p.stat().st_mtime)
    for old in siblings[:-_KEPT_BUNDLES]:
        old.unlink(missing_ok=True)


_KEPT_BUNDLES = 3


def _content_hash(layer: Path, root: Path, sources: list[Path]) -> str:
    digest = hashlib.sha256(layer.name.encode())
    for source in sources:
        digest.update(PurePosixPath(source).as_posix().encode())
        digest.update(hashlib.sha256((root / source).read_bytes()).digest())
    return digest.hexdigest()[:16]


def _deployed_architecture() -> str:
    parameters = json.loads((ROOT / "infra/parameters/production.json").read_text())
    architecture: str = parameters["functions"]["Architecture"]
    return architecture


def main(arguments: list[str] | None = None) -> int:
    """Build the bundles named on the command line and print their sizes; 1 when one fails."""
    parser = argparse.ArgumentParser(prog="python -m infra.package", description=__doc__)
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help=", ".join(FUNCTIONS))
    parser.add_argument("--target", choices=("local", "lambda"), default="lambda")
    parser.add_argument(
        "--architecture",
        choices=("arm64", "x86_64"),
        default=_deployed_architecture(),
        help="default: that of infra/parameters/production.json",
    )
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.functions) - set(FUNCTIONS))
    if unknown:
        parser.error(f"unknown function {', '.join(unknown)}; known: {', '.join(FUNCTIONS)}")
    try:
        local = options.target == "local"
        target = local_target(ROOT) if local else lambda_target(options.architecture)
        if target.interpreter is None:
            print(
                f"no Python {target.python_version} found: these bundles carry no bytecode, and every "
                "cold start compiles for itself (about a second of CPU); put that Python on the PATH"
            )
        for function in options.functions or FUNCTIONS:
            bundle = build_bundle(function, target)
            zipped = bundle.path.stat().st_size
            print(
                f"{bundle.path.relative_to(ROOT)}  {zipped / 1e6:.1f} MB zipped, "
                f"{bundle.unzipped_bytes / 1e6:.1f} MB unzipped"
            )
    except PackagingError as error:
        print(f"infra.package: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
