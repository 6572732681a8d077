"""Compares the records of docs/synthesis.json with the Verilog of today; synthesizes nothing.

    python bench/synthesis/synth_stale.py "WHAT CHANGED"

Every record gets the digest of today's Verilog as `verilog_now` where it differs from what was
measured, and loses it where it does not; the sentence is kept with them, and `make docs` marks the
rows. `bench/synthesis/synth.py --update` measures anew, which takes hours and removes the marks.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.synthesis.synth_record import text_digest
from daedal.common.files import write_atomically
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.synth.families import Family, Target
from daedal.hw.synth_pages.stale import all_records, is_stale, stale_digest
from daedal.hw.synth_pages.tables import form_of
from daedal.isa.variant import load_variant
from daedal.sim.rtl.device import default_cache_dir
from daedal.sim.rtl.verilog import kept_board_verilog, kept_verilog

__all__ = ["main", "marked_records", "verilog_of"]

FILE = Path(__file__).resolve().parents[2] / "docs" / "synthesis.json"

Record = dict[str, Any]


def main() -> int:
    """Rewrite the file and say how many records are marked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", metavar="WHAT", help="what changed, without a period")
    what = parser.parse_args().what
    measured = json.loads(FILE.read_text(encoding="utf-8"))
    cache = default_cache_dir()
    found = marked_records(measured, lambda record: verilog_of(record, cache), what)
    write_atomically(FILE, json.dumps(found, indent=1) + "\n")
    records = all_records(found)
    print(f"{sum(map(is_stale, records))} of {len(records)} records are marked; run `make docs`")
    return 0


def verilog_of(record: Record, cache: Path) -> str:
    """The Verilog of today for a record of a machine, or of a board."""

    def tell(sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    if "board" in record:
        variant = load_variant(record["variant"])
        board = load_board(record["board"])
        clock = board.clock(record["clock_mhz"] * 1e6)
        settings = BoardSettings.for_baud(board, variant, clock, record["memory_bytes"])
        return kept_board_verilog(settings, cache, tell, family=Family(record["family"]))
    form = form_of(record).replace(None, **record.get("changes", {}))
    return kept_verilog(form, cache, tell, family=Target(record["target"]).family)


def marked_records(measured: Record, verilog: Callable[[Record], str], what: str) -> Record:
    """The file with `verilog_now` where `verilog` gives another text, and what changed."""
    found: Record = json.loads(json.dumps(measured))
    for record in all_records(found):
        digest = text_digest(verilog(record))
        record.pop("verilog_now", None)
        if digest != record["verilog"]:
            record["verilog_now"] = digest
    found.pop("change", None)
    if any(map(is_stale, all_records(found))):
        found["change"] = {"what": what, "digest": stale_digest(found)}
    return found


if __name__ == "__main__":
    sys.exit(main())
