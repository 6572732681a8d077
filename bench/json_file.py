"""`write_json`: what a bench found, for other programs: its option ``--json``."""

import json
from pathlib import Path
from typing import Any

__all__ = ["write_json"]


def write_json(path: Path | None, found: Any) -> None:
    """Write plain data to `path`; without a path, do nothing."""
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
