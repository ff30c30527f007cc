"""A function's third-party packages, installed, pruned, compiled and zipped once per requirements.

The finished layer is kept under a hash of everything that went into it, so a second build only adds
our own sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

from infra.bundles import archive, pruning
from infra.bundles.targets import PackagingError, Target


def dependency_layer(root: Path, requirements: Path, target: Target, cache: Path) -> Path:
    """The zip of the pruned and compiled dependencies; built when it is not in `cache`.

    Raises PackagingError when a package cannot be installed.
    """
    layer = cache / f"{requirements.stem}-{target.name}-{_key(requirements, target)}.zip"
    if layer.exists():
        return layer
    cache.mkdir(parents=True, exist_ok=True)
    print(f"installing {requirements.relative_to(root)} for {target.name}", flush=True)
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        installed = Path(temporary, "installed")
        _install(requirements, target, installed)
        shipped = _prune(installed)
        compile_bytecode(target, shipped, "-b")
        _drop_compiled_sources(shipped)
        made = Path(temporary, "layer.zip")
        archive.write_archive(made, shipped, files_of(shipped), is_compressed=target.is_compressed)
        made.replace(layer)
    return layer


def compile_bytecode(target: Target, folder: Path, *options: str) -> None:
    """Compile every module below `folder` with the target's own interpreter; `options` go to compileall.

    Unchecked-hash bytecode is valid whatever time stamps unpacking leaves behind, and costs no look
    at the source. An inherited PYTHONDONTWRITEBYTECODE would make this write nothing. Without an
    interpreter of the target's version nothing is compiled.
    """
    if target.interpreter is None:
        return
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # noqa: TID251
    command: list[str | Path] = [
        target.interpreter,
        "-I",
        "-S",
        "-m",
        "compileall",
        "-q",
        "-j",
        "0",
    ]
    command += [*options, "--invalidation-mode", "unchecked-hash", "-s", folder, folder]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise PackagingError(f"bytecode could not be compiled: {result.stdout}{result.stderr}")


def files_of(folder: Path) -> list[PurePosixPath]:
    """Every file below a folder, relative to it."""
    return [
        PurePosixPath(path.relative_to(folder).as_posix())
        for path in folder.rglob("*")
        if path.is_file()
    ]


def _key(requirements: Path, target: Target) -> str:
    digest = hashlib.sha256()
    for path in (requirements, Path(pruning.__file__), Path(__file__), Path(archive.__file__)):
        digest.update(path.read_bytes())
    digest.update(target.name.encode())
    return digest.hexdigest()[:16]


def _install(requirements: Path, target: Target, into: Path) -> None:
    command: list[str | Path] = [_uv(), "pip", "install", "--quiet", "--target", into]
    command += ["--require-hashes", "--no-deps", "--link-mode", "copy", "-r", requirements]
    if target.python_platform is None and target.interpreter is not None:
        command += ["--python", target.interpreter]
    else:
        command += ["--python-version", target.python_version]
        command += ["--python-platform", target.python_platform or "linux"]
        command += ["--only-binary", ":all:"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise PackagingError(
            f"{requirements.name} could not be installed for {target.name} "
            f"(no network, or no wheel for this platform):\n{result.stderr.strip()}"
        )


def _prune(installed: Path) -> Path:
    shipped = installed.with_name("shipped")
    for relative in files_of(installed):
        if pruning.is_shipped(relative):
            destination = shipped / relative
            destination.parent.mkdir(parents=True, exist_ok=True)
            (installed / relative).rename(destination)
    return shipped


def _drop_compiled_sources(shipped: Path) -> None:
    """Half the files, so half the unpacking of a cold start; a stack needs only names and lines, which bytecode has."""
    for source in shipped.rglob("*.py"):
        if source.with_suffix(".pyc").exists():
            source.unlink()


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise PackagingError("uv is missing: run `make set-up` first")
    return found
