"""`select`: which layers of a network take their tuned configurations, judged by the whole network.

A layer that is faster alone may delay its neighbours. Input: the best configuration of each kind of
layer. Output: those that make the network faster, which the database remembers for this model.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from daedal.common.errors import ModelError, TuningError
from daedal.common.inputs import read_input
from daedal.compiler.frontend.reader import MAX_MODEL_BYTES
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload
from daedal.isa.variant import Variant
from daedal.tuning.task import TARGET, Setting
from daedal.tuning.whole_network import NetworkCycles, WholeNetwork

__all__ = ["Selection", "check_recorded", "recorded_configs", "remember", "select", "store"]

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


def select(
    network: WholeNetwork,
    best: Mapping[str, Config],
    remembered: tuple[Mapping[str, Config], int] | None = None,
) -> Selection:
    """The configurations of `best` with which the whole network takes the fewest cycles.

    Kinds of layers that take more cycles in the tuned network than before get their default back,
    if the network gains by that; if it is not faster than before at all, all of them do.
    `remembered` are the configurations of an earlier run and their cycles, kept if they are better.

    Raises
    ------
    TuningError
        With the remembered configurations, the network does not take the recorded cycles.
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
    if remembered is not None:
        old, cycles = remembered
        found = count(old)
        if found.total != cycles:
            raise TuningError(
                f"a record must replay, and the network takes {found.total} cycles, not {cycles} "
                "as recorded; choose another database and tune again"
            )
        if found.total < after.total:
            chosen, after = dict(old), found
    if after.total >= before.total:
        chosen, after = {}, before
    return Selection(before, after, chosen, tuned)


def remember(
    model: str | Path | bytes, setting: Setting, defaults: Mapping[str, Config]
) -> tuple[Mapping[str, Config], int] | None:
    """The best selection of earlier runs, without `defaults`, and the network's cycles."""
    found = _selected(setting.database, setting.variant, setting.memory, _digest(model))
    if not found:
        return None
    assert found[0].cycles is not None
    configs = {_layer(record): record.config for record in found}
    return {key: config for key, config in configs.items() if config != defaults.get(key)}, found[
        0
    ].cycles


def store(
    selection: Selection,
    model: str | Path | bytes,
    defaults: Mapping[str, Config],
    setting: Setting,
) -> None:
    """Record the configuration of every kind of layer in `defaults`, with the network's cycles.

    Nothing is recorded unless that is fewer than before: the fewest cycles have one selection.
    """
    digest = _digest(model)
    known = _selected(setting.database, setting.variant, setting.memory, digest)
    if known and (known[0].cycles or 0) <= selection.after.total:
        return
    setting.database.add(
        Record(
            _choice(digest, key),
            setting.variant.fingerprint,
            setting.memory,
            NETWORK,
            selection.configs.get(key, default),
            selection.after.total,
            kit=setting.database.kit,
        )
        for key, default in defaults.items()
    )


def check_recorded(database: Database, variant: Variant, memory: str, path: Path) -> None:
    """Refuse a database without a measured layer for this variant and memory.

    Records of other variants may be there, too: a database holds those of many.

    Raises
    ------
    TuningError
        It has none, which would leave every layer with its default. `path` names it.
    """
    fingerprint = variant.fingerprint
    if _has_cycles(database.records(None, fingerprint, memory, TARGET)):
        return
    measured = [record for record in database.records(target=TARGET) if _has_cycles([record])]
    memories = {record.memory for record in measured if record.fingerprint == fingerprint}
    others = sorted({record.fingerprint for record in measured})
    remedy = "choose the variant that was tuned, or tune this one with `daedal tune`"
    if memories:
        has = f"has records of it with memory {', '.join(sorted(memories))} only"
        remedy = f"give --memory {min(memories)}, or tune with memory {memory}"
    elif others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        has = f"has records of {', '.join(others[:_NAMED])}{more} only"
    else:
        has = "has no measured layer"
        remedy = "tune with `daedal tune`, or leave the database out"
    raise TuningError(
        f"a database must have records of the variant that is compiled for, here {variant.name} "
        f"({fingerprint}) with memory {memory}; {str(path)!r} {has}; {remedy}"
    )


def _has_cycles(records: list[Record]) -> bool:
    return any(record.cycles is not None for record in records)


def recorded_configs(
    database: Database,
    variant: Variant,
    memory: str = "ddr",
    model: str | Path | bytes | None = None,
) -> dict[str, Config]:
    """Configurations for `daedal.compile`, by the keys of their workloads.

    They are the best that were measured of every kind of layer in `database`. Of `model`, they are
    those with which the whole network took the fewest cycles; if it was not tuned, `select` finds
    out which of the best do.
    """
    if model is not None:
        selected = _selected(database, variant, memory, _digest(model))
        if selected:
            return {_layer(record): record.config for record in selected}
    found = _best_recorded(database, variant, memory)
    if model is None or not found:
        return found
    network = WholeNetwork(model, variant, memory)
    kinds = set(network.kinds)
    own = {key: config for key, config in found.items() if key in kinds}
    return dict(select(network, own).configs) if own else {}


def _best_recorded(database: Database, variant: Variant, memory: str) -> dict[str, Config]:
    """The configuration with the fewest cycles of every kind of layer."""
    best: dict[str, Record] = {}
    for record in database.records(None, variant.fingerprint, memory, TARGET):
        key = record.workload.key
        if record.cycles is not None and (
            key not in best or record.cycles < (best[key].cycles or record.cycles + 1)
        ):
            best[key] = record
    return {key: record.config for key, record in best.items()}


def _selected(database: Database, variant: Variant, memory: str, digest: str) -> list[Record]:
    """The records of the selection with which the network took the fewest cycles."""
    records = [
        record
        for record in database.records(None, variant.fingerprint, memory, NETWORK)
        if record.workload == _choice(digest, _layer(record))
    ]
    least = min((record.cycles for record in records if record.cycles is not None), default=None)
    return [record for record in records if record.cycles is not None and record.cycles == least]


def _layer(record: Record) -> str:
    """The key of the layer that a record of a selection is about; files of others may have none."""
    attributes = record.workload.description.get("attributes")
    return str(attributes.get("layer", "")) if isinstance(attributes, dict) else ""


def _choice(digest: str, layer: str) -> Workload:
    """The workload that stands for a kind of layer within a model."""
    attributes = {"model": digest, "layer": layer}
    return Workload.of(NETWORK, attributes=attributes, shapes={}, layouts={})


def _digest(model: str | Path | bytes) -> str:
    """SHA-256 of the model's bytes."""
    if not isinstance(model, bytes):
        model = read_input(model, "a model", MAX_MODEL_BYTES, ModelError)
    return hashlib.sha256(model).hexdigest()
