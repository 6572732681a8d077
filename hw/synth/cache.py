"""A disk cache of synthesis results.

Input: Verilog and a family. Output: a `Synthesis`, from Yosys or from the cache.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.estimate import Synthesis, synthesis_script, synthesize
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.tools import YOSYS
from daedal.native.caches.kept_files import KeptFiles
from daedal.native.caches.locks import alone
from daedal.native.caches.place import CACHES, writable

__all__ = ["AreaCache", "yosys_version"]

_Kept = TypeVar("_Kept")


@dataclass(frozen=True)
class AreaCache:
    """Results of `synthesize` in a folder, which is created if missing.

    The key is the Verilog text, the script and the version of Yosys; nothing else affects a result.
    An entry holds Yosys' counts and the netlist, so the resources per cell always come from the
    current table. Processes that request the same result concurrently wait for one of them.
    """

    folder: Path

    def synthesize(
        self,
        verilog: str,
        family: Family,
        *,
        top: str = TOP_MODULE,
        progress: Callable[[str], None] | None = None,
    ) -> CellReport:
        """Count the cells of `verilog`, as `estimate.synthesize` does.

        Raises
        ------
        ToolError
            There is no answer yet, and Yosys is missing or failed.
        UserError
            The folder cannot be written.
        """
        kept = self._answer(verilog, family, top, progress, _read_counts, _counts)
        return CellReport.of(family, kept["cells"], kept["units"])

    def netlist(
        self,
        verilog: str,
        family: Family,
        *,
        top: str = TOP_MODULE,
        progress: Callable[[str], None] | None = None,
    ) -> str:
        """The mapped netlist of the same answer, in JSON; raises as `synthesize` does."""
        return self._answer(
            verilog, family, top, progress, _read_netlist, lambda made: made.netlist
        )

    def key(self, verilog: str, family: Family, top: str = TOP_MODULE) -> str:
        """Name of an answer: the family, and a hash of all that it depends on."""
        parts = [yosys_version(), synthesis_script(family, top), verilog]
        digest = hashlib.sha256(json.dumps(parts).encode())
        return f"{family.value}-{digest.hexdigest()[:24]}"

    def _answer(
        self,
        verilog: str,
        family: Family,
        top: str,
        progress: Callable[[str], None] | None,
        read: Callable[[KeptFiles, str], _Kept | None],
        part: Callable[[Synthesis], _Kept],
    ) -> _Kept:
        """`read` of the counts or netlist file; both are made if one is missing or damaged, and
        this is `part` of what is made."""
        files = KeptFiles(writable(self.folder), CACHES["synth"].limit)
        key = self.key(verilog, family, top)
        with alone(files.folder / f"{key}.lock", progress):
            found = read(files, key)
            if found is None:
                made = synthesize(verilog, family, top=top, progress=progress)
                _keep(files, key, made)
                found = part(made)
        return found


def yosys_version() -> str:
    """Version of the installed Yosys, or an empty text."""
    return YOSYS.version


def _keep(files: KeptFiles, key: str, made: Synthesis) -> None:
    """Write both files; the one that marks the entry as complete comes last."""
    netlist = gzip.compress(made.netlist.encode("utf-8"), compresslevel=6, mtime=0)
    files.write(f"{key}.netlist.gz", netlist)
    kept = _counts(made)
    text = json.dumps(kept | {"sha256": _hash(kept)}, indent=1) + "\n"
    files.write(f"{key}.json", text.encode())


def _read_counts(files: KeptFiles, key: str) -> dict[str, Any] | None:
    """The counts of an answer; None where the file is missing or damaged. Old ones have no hash."""
    try:
        kept = json.loads(files.read(f"{key}.json") or b"")
        counts = {"cells": kept["cells"], "units": kept["units"]}
        return counts if kept.get("sha256", _hash(counts)) == _hash(counts) else None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _counts(made: Synthesis) -> dict[str, Any]:
    return {"cells": made.report.cells, "units": made.report.units}


def _hash(counts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(counts, sort_keys=True).encode()).hexdigest()


def _read_netlist(files: KeptFiles, key: str) -> str | None:
    """The netlist of an answer; None where its file is missing or damaged, as its format tells."""
    if _read_counts(files, key) is None:
        return None
    try:
        text = gzip.decompress(files.read(f"{key}.netlist.gz") or b"").decode("utf-8")
        return text or None  # an empty file is no error to gzip
    except (OSError, EOFError, UnicodeDecodeError, zlib.error):
        return None
