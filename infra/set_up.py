"""Prepare this checkout: `.venv` with one dependency group, `.venv-emulator` with the AWS emulator alone.

Run by the Makefile with any Python 3.11 or newer, before anything is installed, so it uses the standard library only.
Every step is skipped when its requirements file has not changed since. A failure is one sentence and exit code 1.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
LOG = ROOT / "var" / "set-up.log"
# A group that holds another serves for it, so `make run` after `make test` installs nothing.
HOLDS = {"dev": ("dev", "local"), "local": ("local",), "emulator": ("emulator",)}


def main(group: str) -> int:
    """Set up `.venv` with `group` (local or dev) and the emulator beside it."""
    if sys.version_info < (3, 11):
        version = ".".join(map(str, sys.version_info[:3]))
        return _fail(
            f"burstchat needs Python 3.11 or newer and this is {version}: try `make PYTHON=python3.11 …`."
        )
    LOG.parent.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    try:
        changed = _environment(ROOT / ".venv", group)
        changed |= _environment(ROOT / ".venv-emulator", "emulator")
    except _StepFailed as failure:
        return _fail(str(failure))
    if changed:
        print(f"set-up   done in {time.monotonic() - started_s:.0f} s", flush=True)
    return 0


class _StepFailed(Exception):
    """One step did not work; the text says what to do."""


def _environment(venv: Path, group: str) -> bool:
    stamp = venv / ".group"
    wanted = {name: _fingerprint(name) for name in HOLDS[group]}
    present = stamp.read_text().split() if stamp.exists() else []
    if f"{group}={wanted[group]}" in present:
        return False
    print(f"set-up   {venv.name}: installing {group} …", flush=True)
    python = venv / "bin" / "python"
    if not python.exists():
        _run(
            [sys.executable, "-m", "venv", str(venv)],
            "Python cannot make virtual environments here: install its venv module (python3-venv).",
        )
    uv = ROOT / ".venv" / "bin" / "uv"
    if not uv.exists():
        _run(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--require-hashes",
                "-r",
                str(REQUIREMENTS / "setup.txt"),
            ],
            _NO_PACKAGES,
        )
    files = [str(REQUIREMENTS / f"{group}.txt")]
    if group != "emulator":
        files.append(str(REQUIREMENTS / "setup.txt"))
    _run(
        [str(uv), "pip", "sync", "--quiet", "--python", str(python), "--require-hashes", *files],
        _NO_PACKAGES,
    )
    if group != "emulator":
        _run(
            [
                str(uv),
                "pip",
                "install",
                "--quiet",
                "--python",
                str(python),
                "--no-deps",
                "--no-build-isolation",
                "-e",
                str(ROOT),
            ],
            "The project itself could not be installed.",
        )
    stamp.write_text("\n".join(f"{name}={fingerprint}" for name, fingerprint in wanted.items()))
    return True


_NO_PACKAGES = "Packages could not be installed: is there a network, and can pip reach its index?"


def _fingerprint(group: str) -> str:
    digest = hashlib.sha256()
    for name in (f"{group}.txt", "setup.txt"):
        digest.update((REQUIREMENTS / name).read_bytes())
    digest.update((ROOT / "pyproject.toml").read_bytes())
    digest.update(sys.version.encode())
    return digest.hexdigest()[:16]


def _run(command: list[str], advice: str) -> None:
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode:
            raise _StepFailed(f"{advice} (Details: {LOG.relative_to(ROOT)})")


def install_chromium() -> int:
    """Install Chromium for the browser tests where that can be done; otherwise say how."""
    if shutil.which("chromium"):
        return 0
    if not shutil.which("apt-get"):
        print("set-up   no Chromium: install it for the browser tests", flush=True)
        return 0
    print("set-up   installing Chromium …", flush=True)
    with LOG.open("a") as log:
        for command in (
            ["apt-get", "-q", "update"],
            ["apt-get", "-q", "install", "-y", "--no-install-recommends", "chromium"],
        ):
            if subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, check=False
            ).returncode:
                print(
                    "set-up   Chromium could not be installed: browser tests will say so",
                    flush=True,
                )
                return 0
    return 0


def _fail(sentence: str) -> int:
    print(f"set-up   {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else "dev"
    sys.exit(install_chromium() if wanted == "chromium" else main(wanted))
