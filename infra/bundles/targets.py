"""Where a bundle will run, and which interpreter compiles its bytecode."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_LAMBDA_VERSION = "3.13"
_PLATFORMS = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
_WHERE_PYTHONS_LIVE = (
    ".pyenv/versions/3.13*/bin/python3.13",
    ".local/share/uv/python/*3.13*/bin/python3.13",
)


class PackagingError(Exception):
    """A bundle cannot be made; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """One place to run: `python_platform` None = this machine.

    `interpreter` compiles the bytecode and must be of `python_version`, since bytecode of another
    version is ignored; None = none was found, and every cold start compiles for itself.
    """

    name: str
    python_version: str
    python_platform: str | None
    interpreter: Path | None
    is_compressed: bool


def local_target(root: Path) -> Target:
    """This machine, run by the interpreter of the emulator's own venv.

    Raises PackagingError when the venv is missing.
    """
    interpreter = root / ".venv-emulator/bin/python"
    if not interpreter.exists():
        raise PackagingError(f"{interpreter} is missing: run `make set-up` first")
    version = _version_of(interpreter)
    return Target(
        name=f"local-{platform.machine()}-{version}",
        python_version=version,
        python_platform=None,
        interpreter=interpreter,
        is_compressed=False,
    )


def lambda_target(architecture: str) -> Target:
    """AWS Lambda on `architecture`: arm64 or x86_64."""
    interpreter = _find_interpreter()
    bytecode = "" if interpreter else "-no-bytecode"
    return Target(
        name=f"lambda-{architecture}-{_LAMBDA_VERSION}{bytecode}",
        python_version=_LAMBDA_VERSION,
        python_platform=_PLATFORMS[architecture],
        interpreter=interpreter,
        is_compressed=True,
    )


def _find_interpreter() -> Path | None:
    candidates = [Path(found)] if (found := shutil.which(f"python{_LAMBDA_VERSION}")) else []
    for pattern in _WHERE_PYTHONS_LIVE:
        candidates.extend(sorted(Path.home().glob(pattern)))
    for candidate in candidates:
        try:
            if _version_of(candidate) == _LAMBDA_VERSION:
                return candidate
        except (OSError, subprocess.CalledProcessError):
            continue  # a version manager's shim for a Python that is not chosen here
    return None


def _version_of(interpreter: Path) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    result = subprocess.run(
        [interpreter, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()
