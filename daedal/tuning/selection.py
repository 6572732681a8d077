"""`select`: which layers of a network take their tuned configurations, judged by the whole network.

A layer that is faster alone may delay its neighbours. Input: the best configuration of each kind of
layer. Output: those that make the network faster, which the database remembers for this model.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from daedal.common.errors import ModelError, TuningError
from daedal.common.inputs import read_input
from daedal.compiler.frontend.reader import MAX_MODEL_BYTES
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload
from daedal.isa.memory_model import PRESETS
from daedal.tuning.target import CYCLES, NetworkCycles, Setting, Unit

__all__ = [
    "Selection",
    "all_selected",
    "best_recorded",
    "check_recorded",
    "digest_of_model",
    "other_machines",
    "remember",
    "select",
    "selected_configs",
    "store",
]

NETWORK = "network"
"""Target of the records of a selection."""
_ROUNDS = 2
_NAMED = 3
"""Fingerprints that an error names."""


@dataclass(frozen=True)
class Selection:
    """Cycles of the network by default and with `configs`, by the keys of their workloads."""

    before: NetworkCycles
    after: NetworkCycles
    configs: Mapping[str, Config]
    tuned: NetworkCycles
    """With the best configuration of every layer."""


class Counts(Protocol):
    """A network: a `TuningTarget`, or a `WholeNetwork`."""

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        """What it takes with `configs`."""


def select(
    network: Counts,
    best: Mapping[str, Config],
    remembered: tuple[Mapping[str, Config], int] | None = None,
    unit: Unit = CYCLES,
) -> Selection:
    """The configurations of `best` with which the whole network takes the fewest cycles.

    Kinds of layers that take more cycles in the tuned network than before get their default back,
    if the network gains by that. If it is not faster than before at all, all of them do, and where
    counts are exact, kinds are tried again one after the other: each that makes the network faster
    is taken. `remembered` are the configurations of an earlier run and their cycles, kept if they
    are better.

    Raises
    ------
    TuningError
        With the remembered configurations, the network does not take the recorded cycles, which
        are exact.
    """
    counted: dict[frozenset[tuple[str, Config]], NetworkCycles] = {}

    def count(configs: Mapping[str, Config]) -> NetworkCycles:
        key = frozenset(configs.items())
        if key not in counted:
            counted[key] = network.count(configs)
        return counted[key]

    before = count({})
    chosen = dict(best)
    tuned = after = count(chosen)
    for _ in range(_ROUNDS):
        losing = {key for key in chosen if after.kinds.get(key, 0) > before.kinds.get(key, 0)}
        fewer = {key: config for key, config in chosen.items() if key not in losing}
        if not losing or not fewer:
            break
        found = count(fewer)
        if found.total >= after.total:
            break
        chosen, after = fewer, found
    if after.total >= before.total and not unit.noise:
        chosen, after = _one_by_one(count, best, before, tuned)
    if remembered is not None:
        old, cycles = remembered
        found = count(old)
        if not unit.noise and found.total != cycles:
            raise TuningError(
                f"a record must replay, and the network takes {found.total} {unit.name}, not "
                f"{cycles} as recorded; choose another database and tune again"
            )
        if found.total < after.total:
            chosen, after = dict(old), found
    if after.total >= before.total:
        chosen, after = {}, before
    return Selection(before, after, chosen, tuned)


def _one_by_one(
    count: Callable[[Mapping[str, Config]], NetworkCycles],
    best: Mapping[str, Config],
    before: NetworkCycles,
    tuned: NetworkCycles,
) -> tuple[dict[str, Config], NetworkCycles]:
    """Take each kind that makes the network faster, those first that gain the most in it."""
    chosen: dict[str, Config] = {}
    least = before
    for key in sorted(best, key=lambda key: tuned.kinds.get(key, 0) - before.kinds.get(key, 0)):
        found = count({**chosen, key: best[key]})
        if found.total < least.total:
            chosen, least = {**chosen, key: best[key]}, found
    return chosen, least


def remember(
    setting: Setting, digest: str, defaults: Mapping[str, Config]
) -> tuple[Mapping[str, Config], int] | None:
    """The best selection of earlier runs, without `defaults`, and the network's cycles."""
    found = _selected(setting, digest)
    if not found:
        return None
    assert found[0].cycles is not None
    configs = {_layer(record): record.config for record in found}
    return {key: config for key, config in configs.items() if config != defaults.get(key)}, found[
        0
    ].cycles


def store(
    selection: Selection, digest: str, defaults: Mapping[str, Config], setting: Setting
) -> None:
    """Record the configuration of every kind of layer in `defaults`, with the network's cycles.

    Of exact cycles, nothing is recorded unless they are fewer than before: the fewest have one
    selection. Otherwise the newest counts.
    """
    place, database = setting.place, setting.database
    known = _selected(setting, digest)
    if not place.unit.noise and known and (known[0].cycles or 0) <= selection.after.total:
        return
    database.add(
        Record(
            _choice(digest, key),
            place.fingerprint,
            place.memory,
            NETWORK,
            selection.configs.get(key, default),
            selection.after.total,
            kit=database.kit,
        )
        for key, default in defaults.items()
    )


def check_recorded(setting: Setting, path: Path) -> None:
    """Refuse a database without a measured layer of this place.

    Records of other machines may be there, too: a database holds those of many.

    Raises
    ------
    TuningError
        It has none, which would leave every layer with its default. `path` names it.
    """
    place = setting.place
    if _has_cycles(setting.records()):
        return
    records = setting.database.records(target=place.target)
    measured = [record for record in records if _has_cycles([record])]
    memories = {record.memory for record in measured if record.fingerprint == place.fingerprint}
    others = sorted({record.fingerprint for record in measured})
    remedy = f"choose the {place.machine} that was tuned, or tune this one with `daedal tune`"
    if memories:
        has = f"has records of it with memory {', '.join(sorted(memories))} only"
        presets = sorted(memories & PRESETS.keys())
        give = f"--memory {presets[0]}" if presets else "the --memory file that was tuned with"
        remedy = f"give {give}, or tune with memory {place.memory}"
    elif others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        has = f"has records of {', '.join(others[:_NAMED])}{more} only"
    else:
        has = "has no measured layer"
        remedy = "tune with `daedal tune`, or leave the database out"
    raise TuningError(
        f"a database must have records of the {place.machine} that is compiled for, here "
        f"{place.title}; {str(path)!r} {has}; {remedy}"
    )


def _has_cycles(records: list[Record]) -> bool:
    return any(record.cycles is not None for record in records)


def best_recorded(setting: Setting) -> dict[str, Config]:
    """The configuration with the fewest cycles of every kind of layer."""
    best: dict[str, Record] = {}
    for record in setting.records():
        key = record.workload.key
        if record.cycles is not None and (
            key not in best or record.cycles < (best[key].cycles or record.cycles + 1)
        ):
            best[key] = record
    return {key: record.config for key, record in best.items()}


def selected_configs(setting: Setting, digest: str) -> dict[str, Config]:
    """The selection of a model, by the keys of its workloads; none where it was not tuned."""
    return {_layer(record): record.config for record in _selected(setting, digest)}


def _selected(setting: Setting, digest: str) -> list[Record]:
    """The records of the selection with which the network took the fewest cycles, or where they
    have noise, of the newest."""
    records = [
        record
        for record in setting.records(target=NETWORK)
        if record.workload == _choice(digest, _layer(record))
    ]
    if setting.place.unit.noise:
        return _newest(records)
    least = min((record.cycles for record in records if record.cycles is not None), default=None)
    return [record for record in records if record.cycles is not None and record.cycles == least]


def all_selected(setting: Setting) -> dict[str, Config]:
    """What was chosen last for each kind of layer, in any model."""
    return {_layer(item): item.config for item in _newest(setting.records(target=NETWORK))}


def _newest(records: Sequence[Record]) -> list[Record]:
    """The last one of each layer; of those of one second, the one with the fewest cycles."""
    found: dict[str, Record] = {}
    for record in sorted(
        (item for item in records if item.cycles is not None),
        key=lambda item: (item.when, -(item.cycles or 0)),
    ):
        found[_layer(record)] = record
    return list(found.values())


def other_machines(setting: Setting) -> list[str]:
    """Those of this target whose records do not count here."""
    records = setting.database.records(target=setting.place.target)
    return sorted({item.fingerprint for item in records} - {setting.place.fingerprint})


def _layer(record: Record) -> str:
    """The key of the layer that a record of a selection is about; files of others may have none."""
    attributes = record.workload.description.get("attributes")
    return str(attributes.get("layer", "")) if isinstance(attributes, dict) else ""


def _choice(digest: str, layer: str) -> Workload:
    """The workload that stands for a kind of layer within a model."""
    attributes = {"model": digest, "layer": layer}
    return Workload.of(NETWORK, attributes=attributes, shapes={}, layouts={})


def digest_of_model(model: str | Path | bytes) -> str:
    """SHA-256 of the model's bytes."""
    if not isinstance(model, bytes):
        model = read_input(model, "a model", MAX_MODEL_BYTES, ModelError)
    return hashlib.sha256(model).hexdigest()
