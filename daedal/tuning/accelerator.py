"""`AcceleratorTuning`: a network's layers on a variant, measured in cycles."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from daedal.compiler.layers.features import layer_columns
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.isa.memory_file import AnyMemory, load_memory, memory_key
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant
from daedal.tuning.explanation import Explanation, explain_layer
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.layer_task import LayerTask
from daedal.tuning.runner import MakeRunner, Result, Runner
from daedal.tuning.selection import best_recorded, digest_of_model, select, selected_configs
from daedal.tuning.target import Kind, NetworkCycles, Place, Setting, TuningTarget
from daedal.tuning.task import Task
from daedal.tuning.whole_network import WholeNetwork

__all__ = ["TARGET", "AcceleratorTuning", "recorded_configs", "variant_place"]

TARGET = "accelerator"


def variant_place(variant: Variant, memory: AnyMemory = "ddr") -> Place:
    """Records of a variant with a memory."""
    key = memory_key(load_memory(memory))
    title = f"{variant.name} ({variant.fingerprint}) with memory {key}"
    return Place(TARGET, variant.fingerprint, key, machine="variant", title=title)


class AcceleratorTuning(TuningTarget):
    """The layers of `model` on `variant`, with the memory `memory`.

    `make_runner` says what measures: this process, or a `Pool`. Raises as `WholeNetwork`.
    """

    title = "the accelerator"

    def __init__(
        self,
        model: str | Path | bytes,
        variant: Variant,
        memory: AnyMemory = "ddr",
        *,
        make_runner: MakeRunner = LayerRunner,
    ) -> None:
        self.network = WholeNetwork(model, variant, memory)
        self.place = variant_place(variant, self.network.memory)
        self.digest = digest_of_model(model)
        self._make_runner = make_runner

    def kinds(self) -> list[Kind]:
        """See `TuningTarget`."""
        network = self.network
        variant, memory = network.variant, network.memory
        names: dict[str, list[str]] = {}
        for (_, node), key in zip(network.layers, network.kinds, strict=True):
            names.setdefault(key, []).append(node.name or node.output)
        found = []
        layers = dict(reversed(list(zip(network.kinds, network.layers, strict=True))))
        for key, layer_names in names.items():
            graph, node = layers[key]
            space = space_of(graph, node, variant, memory)
            if space is None:
                continue
            task = LayerTask.of(graph, node, variant, memory)
            make = partial(self._make_runner, graph, node, variant, memory)
            found.append(
                Kind(
                    task.workload,
                    tuple(layer_names),
                    space,
                    partial(layer_columns, space, variant=variant, memory=memory),
                    _without_default(make),
                    _bound(space, memory),
                    partial(_measured_here, task),
                )
            )
        return found

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        """See `TuningTarget`."""
        return self.network.count(configs)

    def explain(self, tasks: Sequence[Task], layer: str, setting: Setting) -> Explanation:
        """See `TuningTarget`."""
        return explain_layer(self.network, tasks, layer, setting)


def recorded_configs(
    database: Database,
    variant: Variant,
    memory: AnyMemory = "ddr",
    model: str | Path | bytes | None = None,
) -> dict[str, Config]:
    """Configurations for `daedal.compile`, by the keys of their workloads.

    They are the best that were measured of every kind of layer in `database`. Of `model`, they are
    those with which the whole network took the fewest cycles; if it was not tuned, `select` finds
    out which of the best do.
    """
    memory = load_memory(memory)
    setting = Setting(variant_place(variant, memory), database)
    if model is not None:
        selected = selected_configs(setting, digest_of_model(model))
        if selected:
            return selected
    found = best_recorded(setting)
    if model is None or not found:
        return found
    network = WholeNetwork(model, variant, memory)
    kinds = set(network.kinds)
    own = {key: config for key, config in found.items() if key in kinds}
    return dict(select(network, own).configs) if own else {}


def _without_default(make: Callable[[], Runner]) -> Callable[[int | None], Runner]:
    """Cycles are exact, so what the default took is not needed."""
    return lambda _default: make()


def _measured_here(task: LayerTask, config: Config) -> Result:
    """What one configuration takes, in this process."""
    (node,) = task.graph.nodes
    return LayerRunner(task.graph, node, task.variant, task.memory).results([config])[0]


def _bound(space: LayerSpace, memory: MemoryModel) -> int | None:
    """The least lower bound over all configurations; None where nothing is proved."""
    least = float(np.min(space.bound(space.all(), memory)))
    return math.ceil(least) if least > 0 else None
