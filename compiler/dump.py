"""`Dump`: writes what each step of a compilation made, numbered in order."""

from pathlib import Path

from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.codegen.segment import Segment

__all__ = ["Dump"]

_MAX_LENGTH = 50
"""Of a name in a file's name, which may take 255 bytes; a letter takes up to four."""


class Dump:
    """Writes into `folder`, or nothing where that is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._count = 0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, step: str, what: object) -> None:
        """Write the text of `what` as the next file, named for `step`."""
        if self._folder is None:
            return
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in step[:_MAX_LENGTH])
        path = self._folder / f"{self._count:03}_{safe}.txt"
        text = segment_text(what) if isinstance(what, Segment) else f"{what}\n"
        path.write_text(text, encoding="utf-8")
        self._count += 1
