"""`pool_counter`: counts variants on the workers of the tuner's pool (`daedal.tuning.pool`).

A variant is a task under a name made from its content and the networks', so that it is counted
once, also for two searches; what a worker has handed in is kept if it dies.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from daedal.codesign.cycles.counting import Counter, Network, count_networks
from daedal.codesign.cycles.work import Counts
from daedal.isa.memory_file import AnyMemory, load_memory, memory_from_json, memory_to_json
from daedal.isa.program import variant_from_json
from daedal.isa.variant import Variant
from daedal.tuning.pool import Pool
from daedal.tuning.pool_worker import once

__all__ = ["count_variant", "pool_counter"]

_Task = tuple[dict[str, Network], Any]
"""The networks and the memory, as `memory_to_json` writes it."""


def pool_counter(pool: Pool, networks: Mapping[str, Network], memory: AnyMemory) -> Counter:
    """What counts `networks` on `pool`. It raises TuningError as `Pool.measure`."""
    task = (dict(networks), memory_to_json(load_memory(memory)))
    key = _key(task)

    def count(variants: Sequence[Variant]) -> Iterator[tuple[int, Counts | None]]:
        numbers = {variant.fingerprint: number for number, variant in enumerate(variants)}
        items = {variant.fingerprint: dataclasses.asdict(variant) for variant in variants}
        for name, counts in pool.call(count_variant, task, key, items, partial(_counted, task)):
            yield numbers[name], counts if counts.cycles else None

    return count


def count_variant(task: _Task, variant: Mapping[str, Any], version: str) -> Counts:
    """On a worker: counts by network; empty where one of them does not run on the variant."""
    return once(version, lambda: _counted(task, variant))


def _counted(task: _Task, variant: Mapping[str, Any]) -> Counts:
    networks, memory = task
    return count_networks(networks, variant_from_json(variant), memory_from_json(memory)) or Counts(
        {}
    )


def _key(task: _Task) -> str:
    networks, memory = task
    named = {
        name: [
            hashlib.sha256(network.model).hexdigest(),
            sorted(network.on_host),
            sorted([able, sorted(tensors)] for able, tensors in network.with_options.items()),
        ]
        for name, network in networks.items()
    }
    return hashlib.sha256(json.dumps([named, memory]).encode()).hexdigest()[:24]
