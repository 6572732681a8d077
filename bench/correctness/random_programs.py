"""Random programs on the RTL and the functional simulator.

    python bench/correctness/random_programs.py

The variants named as arguments (all shipped ones by default) run ``--count`` random programs each,
with random stalls of the memory and assertions on. A run that was interrupted goes on where it
stopped, if the sources are the same. Exit status 1 if a byte of memory differs, or if a goal of the
coverage table is not met. The slow tests run the first two hundred of each variant.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.correctness.random_runs import RandomRun, every_variant, ledger_of, run_random_programs
from bench.correctness.rtl_launches import rtl_device
from daedal.isa.variant import shipped_variants

__all__ = ["main"]


def main() -> int:
    """Run them; print a line for each variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--count", type=int, default=10_000)
    options = parser.parse_args()
    if unknown := set(options.names) - set(every_variant()):
        parser.error(f"no variant {min(unknown)!r}; there are {', '.join(every_variant())}")
    failed = 0
    for name in options.names or shipped_variants():
        device = rtl_device(every_variant()[name])
        run = run_random_programs(
            device, range(options.count), ledger=ledger_of(device), progress=_tell
        )
        print(run)
        for problem in (*run.mismatches[:10], *(f"never met: {goal}" for goal in run.missing)):
            failed = 1
            print(f"  {problem}")
    return failed


def _tell(run: RandomRun) -> None:
    print(run, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
