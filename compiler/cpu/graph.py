"""`processor_graph`: a model as a graph, whose quantized operators are integer ones.

The same pass lowers quantized operators for the accelerator (`lower_qdq`); here it has multipliers
of more bits, as many as float64 is exact for. An operator that processors have no integer code for
stays between its dequantize and its quantize, in floating point.
"""

from collections.abc import Mapping

import onnx

from daedal.common.errors import UserError
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.qoperators import EXPANSIONS, expand_qoperators
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.graph.passes import (
    cut_padding_taps,
    eliminate_common_subexpressions,
    eliminate_dead_code,
    fold_batch_norm,
    fold_bias,
    fold_constants,
    lower_qdq,
    simplify_reshapes,
)
from daedal.compiler.graph.passes.lowering.layer_rules import lower_dense
from daedal.compiler.graph.passes.lowering.lowering_context import Rule
from daedal.compiler.graph.passes.lowering.rules import RULES
from daedal.compiler.graph.unfit import UnfitLayers
from daedal.compiler.ops.graph.requantize import FACTOR_BITS, MULTIPLIER_BITS, PRODUCT_BITS
from daedal.compiler.ops.graph.table import LOWERINGS, lacks
from daedal.compiler.targets.fallback import Fallback

__all__ = ["lowered_for_processors", "processor_graph"]

OLDEST_OPSET = 21
"""In which the forms of ONNX that other nodes are written in are defined."""
GAINING = ("Conv", "QuantizeLinear")
"""Operators that gain from being in the graph: models without one are lowered node by node."""
BIAS_ERROR = 2.0**-10
"""Units of a result: a tie that moves by less is rare."""

IN_FLOAT = frozenset(("conv_transpose2d", "layer_norm", "matmul", "onnx", "rms_norm", "softmax"))
"""Operators that processors compute as floats."""
WIDE_RESULTS = frozenset(("dense", "reshape", "transpose"))
"""Operators whose results are integers if they have 16 bits; what reads these computes in float."""
PROCESSOR_RULES: Mapping[str, Rule] = {
    **{op: rule for op, rule in RULES.items() if op not in IN_FLOAT},
    "dense": lower_dense,
}
"""By float operator."""


def processor_graph(model: onnx.ModelProto, imported: Graph | None = None) -> Graph | None:
    """The graph of a checked model; None where it has no operator that gains from it.

    Tensors whose types or shapes a graph does not have are outside it (`Graph.outside`).
    `imported` is the model as a graph, where it was made from one.
    """
    if imported is None:
        model = _with_real_operators(model)
    opset = max((item.version for item in model.opset_import if item.domain == ""), default=1)
    gains = any(node.op_type in GAINING for node in model.graph.node)
    if not gains or opset < OLDEST_OPSET:
        return None
    try:
        graph = lowered_for_processors(imported or load_onnx(model))
    except UserError:  # what the graph refuses is lowered, or interpreted, node by node
        return None
    return graph if any(_gains(node) for node in graph.nodes) else None


def _with_real_operators(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without operators on quantized tensors, which have no integer code of their own:
    they become operators on reals between dequantize and quantize."""
    found = ((node.domain, node.op_type) for node in model.graph.node)
    if not any(key in EXPANSIONS and EXPANSIONS[key].becomes != key[1] for key in found):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    expand_qoperators(changed)
    return changed


def _gains(node: Node) -> bool:
    return node.op == "conv2d" or (node.op in LOWERINGS and get_op(node.op).onnx is None)


def lowered_for_processors(graph: Graph) -> Graph:
    """An imported graph with the integer operators that processors run.

    Raises UserError where a node can run neither as integers nor as ONNX.
    """
    for run in (
        fold_constants,
        simplify_reshapes,
        eliminate_dead_code,
        cut_padding_taps,
        fold_bias,
        fold_batch_norm,
    ):
        graph = run(graph)
    if not any(node.op == "quantize" for node in graph.nodes):
        return _simplified(graph)
    fallback = Fallback(graph)
    while True:
        try:
            lowered = lower_qdq(
                graph,
                multiplier_bits=MULTIPLIER_BITS,
                factor_bits=FACTOR_BITS,
                product_bits=PRODUCT_BITS,
                bias_error=BIAS_ERROR,
                as_floats=True,
                wide_results=WIDE_RESULTS,
                rules=PROCESSOR_RULES,
                on_host=fallback.reasons,
            )
            _check(lowered)
            return _simplified(lowered)
        except UnfitLayers as unfit:
            fallback.add([unfit], unfit.graph)


def _simplified(graph: Graph) -> Graph:
    folded = fold_constants(eliminate_dead_code(graph), keep_quantized=False)
    return eliminate_common_subexpressions(eliminate_dead_code(folded))


def _check(graph: Graph) -> None:
    """Raise UnfitLayers for all nodes that do not run."""
    errors = {
        node.output: UserError(reason) for node in graph.nodes if (reason := _lacks(graph, node))
    }
    if errors:
        raise UnfitLayers(graph, errors)


def _lacks(graph: Graph, node: Node) -> str:
    return "" if get_op(node.op).onnx is not None else lacks(graph, node)
