"""`Dump`: writes what each step of a compilation made, numbered in order."""

import contextlib
from pathlib import Path

from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.codegen.segment import Segment
from daedal.isa.errors import UserError
from daedal.isa.files import make_folder, write_atomically

__all__ = ["Dump"]

_MAX_LENGTH = 50
"""Of a name in a file's name, which may take 255 bytes; a letter takes up to four."""


class Dump:
    """Writes into `folder`, or nothing where that is None.

    Raises UserError where it cannot write; what it has written until then is removed.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._written: list[Path] = []
        if folder is not None:
            make_folder(folder)

    def restart(self) -> None:
        """Remove what was written, and number from 0 again: compilation starts anew."""
        for path in self._written:
            with contextlib.suppress(OSError):
                path.unlink()
        self._written.clear()

    def __call__(self, step: str, what: object) -> None:
        """Write the text of `what` as the next file, named for `step`."""
        if self._folder is None:
            return
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in step[:_MAX_LENGTH])
        path = self._folder / f"{len(self._written):03}_{safe}.txt"
        text = segment_text(what) if isinstance(what, Segment) else f"{what}\n"
        try:
            write_atomically(path, text)
        except UserError:
            self.restart()
            raise
        self._written.append(path)
