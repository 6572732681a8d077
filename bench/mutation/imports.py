"""Which modules a test file needs, by the text of its imports and of theirs."""

import ast
from functools import cache
from pathlib import Path

__all__ = ["modules_of"]


@cache
def modules_of(root: Path, path: str) -> frozenset[str]:
    """Files of the repository that `path` imports, directly or not, wherever the import stands."""
    found, todo = set[str](), [path]
    while todo:
        for target in _imports(root, todo.pop()):
            if target not in found:
                found.add(target)
                todo.append(target)
    return frozenset(found)


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
