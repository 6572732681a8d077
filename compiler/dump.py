"""`Dump`: writes the result of each compilation step to a numbered file."""

import contextlib
from pathlib import Path

from daedal.common.errors import UserError
from daedal.common.files import make_folder, write_atomically
from daedal.compiler.codegen.printer import segment_text
from daedal.compiler.codegen.segment import Segment

__all__ = ["Dump"]

_MAX_LENGTH = 50
"""Of a name in a file's name, which may take 255 bytes; a letter takes up to four."""


class Dump:
    """Writes into `folder`; writes nothing if that is None.

    Raises UserError if a file cannot be written, and removes the files written before.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._written: list[Path] = []
        if folder is not None:
            make_folder(folder)

    def restart(self) -> None:
        """Remove the files and number from 0 again, because compilation starts over."""
        for path in self._written:
            with contextlib.suppress(OSError):
                path.unlink()
        self._written.clear()

    def __call__(self, step: str, what: object) -> None:
        """Write the text of `what` to the next file, named after `step`."""
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
