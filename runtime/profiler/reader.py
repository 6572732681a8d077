"""`read_profile`: reads a profile's JSON back into a `NetworkProfile`; the file is untrusted.

Derived values (bounds, shares, total rooflines) are not read, but recomputed.
"""

import json
from pathlib import Path
from typing import Any

from daedal.artifact.artifact import Layer
from daedal.common.errors import ArtifactError
from daedal.common.inputs import read_input
from daedal.isa.profile import UnitCounters
from daedal.isa.registers import CLASSES
from daedal.isa.table import Unit
from daedal.runtime.layers import LAYER_UNITS, LayerProfile
from daedal.runtime.profiler.network_profile import FORMAT, Conditions, NetworkProfile
from daedal.runtime.profiler.timeline import Interval, Timeline

__all__ = ["MAX_PROFILE_BYTES", "load_profile", "read_profile"]

MAX_PROFILE_BYTES = 1 << 28
_MAX_TEXT = 4096
_MAX_COUNT = 1 << 62


def load_profile(path: str | Path) -> NetworkProfile:
    """Read a file. Raises ArtifactError if it cannot be read, or is not a profile."""
    data = read_input(path, "a profile", MAX_PROFILE_BYTES, ArtifactError)
    return read_profile(data, source=repr(str(path)))


def read_profile(data: bytes | str, *, source: str = "profile") -> NetworkProfile:
    """Read what `NetworkProfile.to_json` made.

    Raises
    ------
    ArtifactError
        It is too large, not JSON, of another format, incomplete, or inconsistent.
    """
    if len(data) > MAX_PROFILE_BYTES:
        raise ArtifactError(f"a profile must have at most {MAX_PROFILE_BYTES} bytes ({source})")
    try:
        document = json.loads(data)
        found = document["format"]
        if found != FORMAT:
            raise ArtifactError(
                f"{source} must be of format {FORMAT!r}, not {str(found)[:80]!r}; profile again"
            )
        profile = _profile(document)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ArtifactError(
            f"{source} must be a file that `daedal profile` wrote with --output; it is damaged or "
            f"something else ({type(error).__name__})"
        ) from error
    _check_sums(profile, source)
    return profile


def _profile(document: dict[str, Any]) -> NetworkProfile:
    conditions = document["conditions"]
    machine = Conditions(
        variant=_text(conditions["variant"]),
        fingerprint=_text(conditions["fingerprint"]),
        macs_per_cycle=_count(conditions["macs_per_cycle"]),
        bus_bytes=_count(conditions["bus_bytes"]),
        device=_text(conditions["device"]),
        memory=_text(conditions["memory"]),
    )
    if machine.macs_per_cycle == 0 or machine.bus_bytes == 0:
        raise ValueError("rates of the roofs must not be 0")
    spans = document["timeline"]
    return NetworkProfile(
        name=_text(document["name"]),
        conditions=machine,
        cycles=_count(document["cycles"]),
        beats_read=_count(document["beats_read"]),
        beats_written=_count(document["beats_written"]),
        units={unit: _counters(document["units"][unit.name.lower()]) for unit in Unit},
        layers=tuple(_layer(item, machine) for item in _list(document["layers"])),
        timeline=None if spans is None else _timeline(spans),
    )


def _layer(item: dict[str, Any], machine: Conditions) -> LayerProfile:
    mode_macs_per_cycle = _count(item["mode_macs_per_cycle"])
    if mode_macs_per_cycle == 0:
        raise ValueError("rates of the roofs must not be 0")
    macs, padding_macs = _count(item["macs"]), _count(item["padding_macs"])
    if padding_macs > macs:
        raise ValueError("products with padding must be a part of all products")
    layer = Layer(
        tag=_count(item["tag"]),
        name=_text(item["name"]),
        op=_text(item["op"]),
        macs=macs,
        output=_text(item["output"]),
        bytes_once=_count(item["bytes_once"]),
        padding_macs=padding_macs,
    )
    return LayerProfile(
        layer=layer,
        cycles=_count(item["cycles"]),
        macs_per_cycle=machine.macs_per_cycle,
        mode_macs_per_cycle=mode_macs_per_cycle,
        bus_bytes=machine.bus_bytes,
        products=_count(item["products"]),
        bytes_read=_count(item["bytes_read"]),
        bytes_written=_count(item["bytes_written"]),
        units={unit: _counters(item["units"][unit.name.lower()]) for unit in LAYER_UNITS},
    )


def _timeline(item: dict[str, Any]) -> Timeline:
    columns = [_text(name) for name in item["columns"]]
    intervals = []
    for row in _list(item["rows"]):
        cells = dict(zip(columns, row, strict=True))
        tag = cells["tag"]
        intervals.append(
            Interval(
                unit=Unit[_text(cells["unit"]).upper()],
                instruction=_count(cells["instruction"]),
                tag=None if tag is None else _count(tag),
                label=_text(cells["label"]),
                begin=_count(cells["begin"]),
                counters=_counters(cells),
            )
        )
    return Timeline(_count(item["cycles"]), tuple(intervals))


def _counters(item: dict[str, Any]) -> UnitCounters:
    classes = {kind: _count(item[kind.name.lower()]) for kind in CLASSES}
    return UnitCounters(classes, _count(item["work"]))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MAX_COUNT:
        raise ValueError("a count must be a whole number that is not negative")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("rows must be a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise ValueError("a name must be a short text")
    return value


def _check_sums(profile: NetworkProfile, source: str) -> None:
    """Check that each unit's classes sum to all cycles, and that the layers fit in the launch."""
    for unit, counters in profile.units.items():
        if counters.cycles != profile.cycles:
            raise ArtifactError(
                f"the classes of a unit must sum to the launch's {profile.cycles} cycles, not to "
                f"{counters.cycles} ({unit.name} in {source}); profile again"
            )
    if profile.tail_cycles < 0:
        raise ArtifactError(
            f"the layers must take at most the launch's {profile.cycles} cycles, not "
            f"{profile.cycles - profile.tail_cycles} ({source}); profile again"
        )
    if profile.timeline is not None:
        _check_timeline(profile, profile.timeline, source)


def _check_timeline(profile: NetworkProfile, timeline: Timeline, source: str) -> None:
    """Check that a unit's intervals do not overlap (gaps only occur between launches) and belong to
    existing layers."""
    tags = {layer.layer.tag for layer in profile.layers} | {None}
    for unit in LAYER_UNITS:
        at = 0
        for item in timeline.lane(unit):
            if item.begin < at or item.end > timeline.cycles or item.tag not in tags:
                raise ArtifactError(
                    "the intervals of a unit must follow each other and belong to layers; that "
                    f"of instruction {item.instruction} does not ({unit.name} in {source}); "
                    "profile again"
                )
            at = item.end
