"""A disk cache of routed designs; each seed is stored as soon as it is done.

Input: a netlist and requests. Output: a `Routed` for each, from nextpnr or from the cache, so that
an interrupted run resumes.
"""

import contextlib
import dataclasses
import gzip
import hashlib
import json
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed, place_and_route_all
from daedal.hw.synth.tools import NEXTPNR
from daedal.native.caches.kept_files import KeptFiles
from daedal.native.caches.locks import alone
from daedal.native.caches.place import CACHES, writable

__all__ = ["RouteCache"]

# Goes up when a kept answer would no longer be read, or would say something else.
_FORMAT = 3


@dataclass(frozen=True)
class RouteCache:
    """Results of `place_and_route` in a folder, which is created if missing.

    The key is the netlist, the request and the version of nextpnr. Processes that request the same
    netlist concurrently wait for each other.
    """

    folder: Path

    def route(
        self,
        netlist: str,
        requests: Sequence[PlaceRequest],
        *,
        num_processes: int = 1,
        enough_mhz: float = math.inf,
        progress: Callable[[str], None] = lambda _text: None,
    ) -> list[Routed]:
        """A result for each request, in their order; what is missing runs `num_processes` at once.

        As soon as one reaches `enough_mhz`, the runs in progress are ended, and the results are
        those available. Requests that `place_and_route_all` gave up have no result, now or later,
        unless requested alone. `progress` gets one text with the state of all runs.

        Raises
        ------
        ToolError
            An answer is missing, and so is nextpnr, or it failed.
        UserError
            The folder cannot be written.
        """
        kept_files = KeptFiles(writable(self.folder), CACHES["synth"].limit)
        design = hashlib.sha256(netlist.encode()).hexdigest()
        keys = [_key(design, request) for request in requests]
        given_up = [f"{key}.given-up" for key in keys]
        with alone(kept_files.folder / f"netlist-{design[:24]}.lock", progress):
            found = {n: _read(kept_files, key) for n, key in enumerate(keys)}
            kept = {n: routed for n, routed in found.items() if routed is not None}
            missing = [
                n
                for n in range(len(requests))
                if n not in kept and not (kept and kept_files.read(given_up[n]) is not None)
            ]
            phases: dict[int, str] = {}

            def tell(number: int, phase: str) -> None:
                seed = requests[missing[number]].seed
                phases[seed] = phase
                progress("; ".join(f"seed {at} {phases[at]}" for at in sorted(phases)))

            if missing and all(routed.slowest_mhz < enough_mhz for routed in kept.values()):
                wanted = [requests[number] for number in missing]
                with contextlib.closing(
                    place_and_route_all(netlist, wanted, num_processes=num_processes, progress=tell)
                ) as done:
                    for number, routed in done:
                        kept[missing[number]] = routed
                        _keep(kept_files, keys[missing[number]], routed)
                        tell(number, f"done, {routed.slowest_mhz:.1f} MHz")
                        if routed.slowest_mhz >= enough_mhz:
                            break
                    else:
                        for number in set(missing) - set(kept):
                            kept_files.write(given_up[number], b"")
                            tell(missing.index(number), "given up")
        return [kept[number] for number in sorted(kept)]


def _key(design: str, request: PlaceRequest) -> str:
    asked = dataclasses.asdict(request)
    for added in ("device", "timing_driven"):
        if asked[added] == getattr(PlaceRequest(), added):
            del asked[added]  # as before there was a choice, so that what is kept stays valid
    parts = [_FORMAT, NEXTPNR.version, design, asked]
    return "routed-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _keep(files: KeptFiles, key: str, routed: Routed) -> None:
    text = json.dumps(dataclasses.asdict(routed))
    files.write(f"{key}.json.gz", gzip.compress(text.encode(), compresslevel=6, mtime=0))


def _read(files: KeptFiles, key: str) -> Routed | None:
    """A kept answer; None where the file is missing or damaged, as its format tells."""
    try:
        return _routed(json.loads(gzip.decompress(files.read(f"{key}.json.gz") or b"")))
    except (OSError, EOFError, KeyError, TypeError, ValueError, zlib.error):
        return None


def _routed(record: dict[str, Any]) -> Routed:
    return Routed(
        request=PlaceRequest(**record["request"]),
        fmax_mhz=record["fmax_mhz"],
        paths=tuple(
            TimingPath(
                **(item | {"modules": tuple(item["modules"]), "signals": tuple(item["signals"])})
            )
            for item in record["paths"]
        ),
        utilization={kind: (used, most) for kind, (used, most) in record["utilization"].items()},
        config=record["config"],
        constraint_mhz=record.get("constraint_mhz", {}),
    )
