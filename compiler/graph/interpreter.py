"""Runs a graph on numpy arrays: the definition of the graph language.

On an integer graph this is the numpy integer reference of the project: the functional simulator
and the RTL must give these bytes.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Array, Graph
from daedal.compiler.graph.ops.registry import get_op

__all__ = ["run", "run_all"]


def run(
    graph: Graph, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None
) -> dict[str, Array]:
    """Values of `outputs` (any tensors; default the graph's outputs) for the given inputs.

    Arrays are in the physical shape of their types.

    Raises
    ------
    ModelError
        For an input that is missing, unknown or of another type, and for an unknown output.
    """
    wanted = graph.outputs if outputs is None else tuple(outputs)
    for name in wanted:
        if name not in graph.types:
            raise ModelError(
                f"outputs must be tensors of the graph, not {name!r}; "
                f"the graph's outputs are {', '.join(graph.outputs)}"
            )
    values = run_all(graph, inputs, until=wanted)
    return {name: values[name] for name in wanted}


def run_all(
    graph: Graph, inputs: Mapping[str, Array], until: Sequence[str] | None = None
) -> dict[str, Array]:
    """Values of every tensor, constants included; with `until`, of those and their ancestors."""
    _check_inputs(graph, inputs)
    values: dict[str, Array] = {name: np.asarray(inputs[name]) for name in graph.inputs}
    values.update((name, graph.constant(name)) for name in graph.constants)
    needed = None if until is None else _ancestors(graph, until)
    for node in graph.nodes:
        if needed is not None and node.output not in needed:
            continue
        operands = [values[name] for name in node.inputs]
        types = [graph.types[name] for name in node.inputs]
        result = get_op(node.op).evaluate(operands, types, node.attrs)
        expected = graph.types[node.output]
        assert result.shape == expected.physical_shape, f"{node} gave {result.shape}"
        values[node.output] = result.astype(expected.dtype, copy=False)
    return values


def _check_inputs(graph: Graph, inputs: Mapping[str, Array]) -> None:
    if set(inputs) != set(graph.inputs):
        raise ModelError(
            f"inputs must be exactly {', '.join(graph.inputs)}, not "
            f"{', '.join(sorted(inputs)) or 'none'}; give one array for each"
        )
    for name in graph.inputs:
        array, type_ = np.asarray(inputs[name]), graph.types[name]
        if array.shape != type_.physical_shape or array.dtype.name != type_.dtype:
            raise ModelError(
                f"input {name!r} must be {type_.dtype}{list(type_.physical_shape)}, not "
                f"{array.dtype}{list(array.shape)}; convert the array"
            )


def _ancestors(graph: Graph, names: Sequence[str]) -> set[str]:
    """Tensors that `names` depend on, themselves included."""
    found, stack = set(names), list(names)
    while stack:
        node = graph.producers.get(stack.pop())
        if node is not None:
            fresh = [name for name in node.inputs if name not in found]
            found.update(fresh)
            stack.extend(fresh)
    return found
