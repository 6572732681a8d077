"""Finds the modules that a test file needs, from the text of its imports and of theirs."""

import ast
from collections import deque
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["modules_of"]


@cache
def modules_of(root: Path, path: str) -> Mapping[str, int]:
    """Files of the repository that `path` imports, wherever the import stands, and over how many
    others: 1 where `path` names the module itself."""
    found, todo = dict[str, int](), deque([(path, 1)])
    while todo:
        name, hops = todo.popleft()
        for target in sorted(_imports(root, name)):
            if target not in found:
                found[target] = hops
                todo.append((target, hops + 1))
    return found


@cache
def _imports(root: Path, path: str) -> frozenset[str]:
    names = set[str]()
    for node in ast.walk(ast.parse((root / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    files = (_file(root, name) for name in names)
    return frozenset(file for file in files if file is not None)


@cache
def _file(root: Path, name: str) -> str | None:
    """The file of a module; importing a module imports its packages, which hold next to nothing."""
    parts = name.split(".")
    if parts[0] == "daedal" and len(parts) > 1 and (root / parts[1]).is_dir():
        parts = parts[1:]
    for file in (Path(*parts).with_suffix(".py"), Path(*parts, "__init__.py")):
        if (root / file).is_file():
            return file.as_posix()
    return None
