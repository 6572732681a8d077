"""Checks of a model's integer graph against onnxruntime, one operator at a time.

The integer graph (`compiler.graph`, run by its interpreter) is the reference for the simulators.
onnxruntime, with graph optimization off, is the reference for the integer graph: on the same
inputs, every integer operator differs by at most one unit in the last place of its output.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import ToolError
from daedal.compiler.frontend.cut import cut_model
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.reader import Source, read_model, source_of
from daedal.compiler.graph import Graph, run_all
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.pipeline import lowering_passes
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.variant import Variant

__all__ = [
    "OperatorDifference",
    "compare_operators",
    "integer_layers",
    "processor_graph",
    "run_onnxruntime",
]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OperatorDifference:
    """One integer operator: the tensor it computes, and its difference from onnxruntime's.

    `largest` is the largest difference in units of the quantized tensor's last place, over
    `num_elements` elements, of which `num_different` differ.
    """

    op: str
    output: str
    num_elements: int
    num_different: int
    largest: int


def processor_graph(model: Source, variant: Variant, on_host: Collection[str] = ()) -> Graph:
    """The reference graph for `variant`, with all quantized tensors of the model. Later passes only
    choose layouts, and views that move no data.

    `on_host` are quantized tensors that the host computes, in float: `Artifact.host_quantized`.

    Raises ModelError for a model that cannot be read or lowered.
    """
    graph = load_onnx(source_of(model))
    for _, run_pass in lowering_passes(variant, on_host=on_host):
        graph = run_pass(graph)
    return graph


def integer_layers(graph: Graph) -> Iterator[tuple[str, list[str], str]]:
    """(operator, activations read, tensor computed) of every integer operator, in order."""
    for node in graph.nodes:
        if runs_on(node.op, ACCELERATOR):
            activations = [name for name in node.inputs if not graph.is_constant(name)]
            yield node.op, activations, node.output


def compare_operators(
    model: onnx.ModelProto, graph: Graph, inputs: Mapping[str, Array]
) -> list[OperatorDifference]:
    """Run every integer operator of `graph` in onnxruntime too, on the graph's own tensors.

    One whose result the model does not quantize is compared together with what reads it.

    Parameters
    ----------
    model : the model that `graph` was lowered from; its quantized tensors have the same names.
    graph : the plain integer graph (before blocking).
    inputs : inputs of the graph by name.

    Raises ToolError without onnxruntime, and ModelError for inputs that do not fit.
    """
    model = read_model(model.SerializeToString())  # ONNX infers no shapes for contributed operators
    values = run_all(graph, inputs)
    known = {name for node in model.graph.node for name in node.output}
    known.update(value.name for value in model.graph.input)
    return [
        _compare(model, values, op, _names_before(known, graph, sources), name)
        for op, sources, target in integer_layers(graph)
        if (name := _name_after(known, graph, target)) in known
    ]


_SAME_NUMBERS = ("flip_sign", "reshape", "transpose")


def _names_before(known: set[str], graph: Graph, names: Sequence[str]) -> list[str]:
    """The model's tensors that `names` are computed from: a dense layer reads 1x1 maps, a pool the
    integers of a ReLU that nothing quantizes, and others int8 where the model has uint8. Constants
    are the model's own."""
    found: list[str] = []
    stack = list(reversed(names))
    while stack:
        name = stack.pop()
        if graph.is_constant(name):
            continue
        for other in (_behind_views(known, graph, name), _name_after(known, graph, name)):
            if other in known:
                name = other
                break
        if name in found:
            continue
        if name in known or name not in graph.producers:
            found.append(name)
        else:
            stack.extend(reversed(graph.producers[name].inputs))
    return found


def _behind_views(known: set[str], graph: Graph, name: str) -> str:
    """The model's tensor that `name` is a view of."""
    while name not in known and name in graph.producers:
        maker = graph.producers[name]
        if maker.op not in _SAME_NUMBERS:
            break
        name = maker.inputs[0]
    return name


def _name_after(known: set[str], graph: Graph, name: str) -> str:
    """The model's tensor that has the numbers of `name`: matrix products compute transposed maps,
    and operators int8 where the model has uint8."""
    while name not in known:
        same = [node for node in graph.users[name] if node.op in _SAME_NUMBERS]
        if not same:
            break
        name = same[0].output
    return name


def _compare(
    model: onnx.ModelProto, values: Mapping[str, Array], op: str, sources: list[str], target: str
) -> OperatorDifference:
    part = cut_model(model, sources, [target])
    feeds = {item.name: _as_model_has_it(values[item.name], item) for item in part.graph.input}
    (expected,) = run_onnxruntime(part, feeds)
    found = _as_model_has_it(values[target], part.graph.output[0])
    difference = np.abs(found.astype(np.int64) - expected.astype(np.int64))
    return OperatorDifference(
        op=op,
        output=target,
        num_elements=int(difference.size),
        num_different=int(np.count_nonzero(difference)),
        largest=int(difference.max(initial=0)),
    )


def _as_model_has_it(value: Array, item: onnx.ValueInfoProto) -> Array:
    """A tensor of the graph in the model's shape; uint8 values in the model are 128 more than int8
    ones in the graph, which has inputs as they are."""
    tensor = item.type.tensor_type
    shaped = value.reshape([dim.dim_value for dim in tensor.shape.dim])
    if tensor.elem_type == onnx.TensorProto.UINT8 and value.dtype != np.uint8:
        return (shaped.astype(np.int16) + 128).astype(np.uint8)
    return shaped


def run_onnxruntime(model: onnx.ModelProto | bytes, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs of the unmodified model, see `daedal.checking.onnxruntime_session`.

    Raises ToolError where onnxruntime is missing, and ModelError for an operator whose results
    would depend on the processor.
    """
    model = onnx.ModelProto.FromString(model) if isinstance(model, bytes) else model
    try:
        run = open_session(model)
    except ImportError as error:
        raise ToolError(
            "comparing with onnxruntime needs the Python package onnxruntime, which is missing; "
            "install daedal[examples]"
        ) from error
    return run(inputs)
