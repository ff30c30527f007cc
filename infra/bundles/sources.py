"""Which of our own files a function needs: its folder and the packages that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from infra.bundles.targets import PackagingError

_IGNORED = frozenset({"__pycache__"})
_PACKAGES = ("shared", "functions")


def function_sources(root: Path, function: str) -> list[Path]:
    """Files relative to `root`, sorted. Raises PackagingError when there is no such function."""
    handler = root / "functions" / function / "handler.py"
    if not handler.is_file():
        raise PackagingError(f"{handler.relative_to(root)} is missing: nothing to package")
    found = {Path("functions/__init__.py")}
    found.update(_files(root, Path("functions") / function))
    for module in _imported(root, handler):
        found.update(module)
    return sorted(found)


def _imported(root: Path, handler: Path) -> Iterator[set[Path]]:
    """Files of every own module reachable from the handler, with the packages around them."""
    waiting, seen = [handler], {handler}
    while waiting:
        module = waiting.pop()
        package = module.parent
        yield _package_files(root, module)
        for name in _own_imports(module):
            for candidate in _candidates(root, name):
                if candidate not in seen:
                    seen.add(candidate)
                    waiting.append(candidate)
        initialiser = package / "__init__.py"
        if initialiser.is_file() and initialiser not in seen:
            seen.add(initialiser)
            waiting.append(initialiser)


def _package_files(root: Path, module: Path) -> set[Path]:
    """The module, its packages' initialisers, and data files beside it (Lua scripts and the like)."""
    files = {module.relative_to(root)}
    package = module.parent
    while package != root:
        if (package / "__init__.py").is_file():
            files.add((package / "__init__.py").relative_to(root))
        package = package.parent
    files.update(path.relative_to(root) for path in _data_files(module.parent))
    return files


def _data_files(folder: Path) -> Iterator[Path]:
    """Files that are not modules, in the folder and in subfolders that are not packages."""
    for path in folder.iterdir():
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            yield path
        elif path.is_dir() and path.name not in _IGNORED and not (path / "__init__.py").exists():
            yield from _data_files(path)


def _own_imports(module: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name.split(".")[0] in _PACKAGES}


def _candidates(root: Path, name: str) -> Iterator[Path]:
    path = root.joinpath(*name.split("."))
    if path.with_suffix(".py").is_file():
        yield path.with_suffix(".py")
    elif (path / "__init__.py").is_file():
        yield path / "__init__.py"


def _files(root: Path, relative: Path) -> Iterator[Path]:
    for path in (root / relative).rglob("*"):
        if path.is_file() and not _IGNORED & set(path.parts):
            yield path.relative_to(root)
