"""Whether a port is free, and who holds it when it is not."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from pathlib import Path

from infra.local.errors import StackError
from infra.local.plan import HOST, PlannedProcess

_LISTENING = "0A"


def require_free(processes: Iterable[PlannedProcess], port_base: int) -> None:
    """Raises StackError naming the first port in use, its holder and the setting that moves it."""
    for process in processes:
        for port, what in process.ports():
            if not _is_free(port):
                raise StackError(
                    f"port {port} ({what}) is in use by {holder_of(port)}: end it, or choose other "
                    f"ports with BURSTCHAT_PORT_BASE (now {port_base})"
                )


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def holder_of(port: int) -> str:
    """The process that listens on a port, in words; Linux only, elsewhere "another process"."""
    inodes = _listening_inodes(port)
    for folder in Path("/proc").glob("[0-9]*"):
        if inodes and _has_socket(folder, inodes):
            try:
                command = (folder / "comm").read_text().strip()
            except OSError:
                continue
            return f"{command} (pid {folder.name})"
    return "another process"


def _listening_inodes(port: int) -> set[str]:
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    return inodes


def _has_socket(folder: Path, inodes: set[str]) -> bool:
    try:
        return any(str(entry.readlink()) in inodes for entry in (folder / "fd").iterdir())
    except OSError:
        return False
