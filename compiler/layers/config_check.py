"""`check_configs`: refuses configurations that belong to no layer of a compiled network."""

from collections.abc import Mapping

from daedal.common.errors import UserError
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import CompiledGraph

__all__ = ["check_configs"]


def check_configs(compiled: CompiledGraph, configs: Mapping[str, Config]) -> None:
    """Raise UserError unless every key of `configs` is the workload's key of a layer, and every
    value a `Config`."""
    for key, config in configs.items():
        if not isinstance(config, Config):
            raise UserError(
                f"configs must be of the type Config, and that of {key!r:.80} is "
                f"{type(config).__name__}; make it with Config.of"
            )
    if not configs:
        return
    known = {
        workload_of(launch.graph, node).key: node.name or node.output
        for launch in compiled.launches
        for node in launch.graph.nodes
    }
    for key in configs:
        if key not in known:
            names = {name: workload for workload, name in known.items()}
            remedy = f"its key is {names[key]!r}" if key in names else "leave it out"
            raise UserError(
                "configs must be by the keys of layers on the accelerator (workload_of(graph, "
                f"node).key), and {key!r:.80} is none of this network; {remedy}"
            )
