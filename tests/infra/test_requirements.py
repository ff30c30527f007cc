"""What is installed: pinned and hashed, the same versions everywhere, and from wherever the machine's own index is."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {path.stem: path for path in sorted((ROOT / "requirements").glob("*.txt"))}
PIN = re.compile(r"^([a-z0-9._-]+)==([^\s;]+)", re.MULTILINE | re.IGNORECASE)
FOLDERS = (
    ".ci",
    "clients",
    "docs",
    "functions",
    "infra",
    "knowledge",
    "loadtest",
    "ops",
    "requirements",
    "services",
    "shared",
    "tests",
)
# Written apart, so that this file does not name them.
REGISTRIES = ("py" + "pi.org", "python" + "hosted", "registry." + "npm", "index." + "docker")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:" + "home|root|Users|work" + r")/\w")


def pins(name: str) -> dict[str, str]:
    return dict(PIN.findall(FILES[name].read_text()))


def texts() -> Iterator[tuple[Path, str]]:
    tops = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".coverage"]
    below = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file())
    for path in (*tops, *below):
        if "__pycache__" not in path.parts:
            try:
                yield path, path.read_text()
            except UnicodeDecodeError:
                continue  # a picture


def test_every_group_is_pinned() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    locked = re.search(r"for group in (.+); do", (ROOT / "infra/lock.sh").read_text())
    assert locked
    # The others are parts of groups, and what installs the rest is pinned by itself.
    assert set(locked.group(1).split()) == set(groups) - {"core", "assistant", "web"}
    assert set(FILES) == {*locked.group(1).split(), "setup"}


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_pins_and_their_hashes_only(name: str) -> None:
    entries = FILES[name].read_text().replace("\\\n", " ").strip().splitlines()
    assert entries
    for entry in entries:
        assert PIN.match(entry), entry
        assert "--hash=sha256:" in entry
        assert "://" not in entry


def test_no_two_files_disagree_on_a_version() -> None:
    versions: dict[str, dict[str, str]] = {}
    # The emulator lives in an environment of its own, because it wants other versions of the SDK.
    for name in FILES.keys() - {"emulator"}:
        for package, version in pins(name).items():
            versions.setdefault(package, {})[name] = version
    assert {
        package: found for package, found in versions.items() if len(set(found.values())) > 1
    } == {}


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path, text in texts()
        if MACHINE_PATH.search(text) or any(host in text for host in REGISTRIES)
    }
    assert found == set()
