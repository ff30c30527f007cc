"""The commands of a runbook, as its reader would type them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from string import Template

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Runbook:
    """One page of docs/runbooks, section by section."""

    def __init__(self, name: str) -> None:
        self._sections: dict[str, list[str]] = {}
        text = (ROOT / "docs/runbooks" / name).read_text()
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
            title, _, body = section.partition("\n")
            blocks = _BLOCK.findall(body)
            self._sections[title] = [line for block in blocks for line in block.splitlines()]

    @property
    def sections(self) -> list[str]:
        """The titles, in order."""
        return list(self._sections)

    def commands(self, section: str) -> list[str]:
        """The command lines of a section, as they stand."""
        return self._sections[section]


def words_of(command: str, variables: Mapping[str, str]) -> list[str]:
    """A command line as the shell would split it; an unset variable raises KeyError."""
    return [Template(word).substitute(variables) for word in shlex.split(command)]
