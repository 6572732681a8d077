"""Operators on quantized tensors (ONNX's and onnxruntime's QOperator format) as operators on reals
between DequantizeLinear and QuantizeLinear, so that there is one lowering.

Input: a checked ModelProto. Output: the same model in the standard operator set, with the names of
all quantized tensors.
"""

from collections.abc import Callable, Mapping

import onnx

from daedal.compiler.frontend.qoperators import elementwise, integers, layers
from daedal.compiler.frontend.qoperators.expansion import Expansion

__all__ = ["expand_qoperators", "expanded_operators"]

_Expand = Callable[[Expansion, onnx.NodeProto], bool]

_MICROSOFT = "com.microsoft"
"""onnxruntime's domain. Source: onnxruntime, docs/ContribOperators.md."""


def _rename(model: Expansion, node: onnx.NodeProto) -> bool:
    """QuantizeLinear and DequantizeLinear of onnxruntime's domain are ONNX's."""
    standard = onnx.NodeProto()
    standard.CopyFrom(node)
    standard.domain = ""
    model.keep(standard)
    return True


_EXPANSIONS: Mapping[tuple[str, str], tuple[int, _Expand]] = {
    ("", "QLinearConv"): (8, layers.expand_qlinear_conv),
    ("", "QLinearMatMul"): (8, layers.expand_qlinear_matmul),
    (_MICROSOFT, "DequantizeLinear"): (2, _rename),
    (_MICROSOFT, "QGemm"): (6, layers.expand_qgemm),
    (_MICROSOFT, "QLinearAdd"): (7, elementwise.expand_binary),
    (_MICROSOFT, "QLinearAveragePool"): (4, elementwise.expand_pool),
    (_MICROSOFT, "QLinearConcat"): (5, elementwise.expand_concat),
    (_MICROSOFT, "QLinearGlobalAveragePool"): (4, elementwise.expand_pool),
    (_MICROSOFT, "QLinearLeakyRelu"): (4, elementwise.expand_unary),
    (_MICROSOFT, "QLinearMul"): (7, elementwise.expand_binary),
    (_MICROSOFT, "QLinearSigmoid"): (4, elementwise.expand_unary),
    (_MICROSOFT, "QLinearSoftmax"): (4, elementwise.expand_softmax),
    (_MICROSOFT, "QLinearWhere"): (8, elementwise.expand_where),
    (_MICROSOFT, "QuantizeLinear"): (2, _rename),
    **{("", name): (1, integers.expand_selection) for name in integers.SELECTIONS},
}
"""By domain and operator: the number of operands that must be given, and the expansion, which
returns whether it was done."""


def expand_qoperators(model: onnx.ModelProto) -> None:
    """Replace every operator on quantized tensors by operators on reals, in place.

    A node that has no expansion (scales that are computed, channels that come last) stays.

    Before::

        y_q = QLinearConv(x_q, sx, zx, w_q, sw, zw, sy, zy, b_q)
        p_q = MaxPool(y_q)

    After::

        y_q = QuantizeLinear(Conv(DequantizeLinear(x_q, sx, zx), DequantizeLinear(w_q, sw, zw),
                                  DequantizeLinear(b_q, sx * sw)), sy, zy)
        p_q = QuantizeLinear(MaxPool(DequantizeLinear(y_q, 1)), 1)
    """
    expansion = Expansion(model)
    expanded = [_expand(expansion, node) for node in model.graph.node]
    if not any(expanded):
        return
    del model.graph.node[:]
    model.graph.node.extend(expansion.nodes)
    model.graph.initializer.extend(expansion.initializers)


def expanded_operators() -> tuple[str, ...]:
    """The operators on quantized tensors, with their domain where it is not ONNX's."""
    return tuple(
        f"{domain}.{name}" if domain else name
        for domain, name in _EXPANSIONS
        if domain or name not in integers.SELECTIONS
    )


def _expand(expansion: Expansion, node: onnx.NodeProto) -> bool:
    domain = "" if node.domain == "ai.onnx" else node.domain
    needed, expand = _EXPANSIONS.get((domain, node.op_type), (0, None))
    given = len(node.input) >= needed and all(node.input[:1]) and len(node.output) >= 1
    if expand is not None and given and expand(expansion, node):
        return True
    expansion.keep(node)
    return False
