"""Expands operators on quantized tensors (ONNX's and onnxruntime's QOperator format) to operators
on reals between DequantizeLinear and QuantizeLinear, so that one lowering handles both.

Input: a checked ModelProto. Output: the same model in the standard operator set, with the names of
all quantized tensors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx

from daedal.compiler.frontend.qoperators import elementwise, integers, layers
from daedal.compiler.frontend.qoperators.expansion import Expansion

__all__ = ["EXPANSIONS", "QOperator", "expand_qoperators"]

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


@dataclass(frozen=True)
class QOperator:
    """An operator on quantized tensors.

    Parameters
    ----------
    becomes : the operator on reals that replaces it.
    num_operands : number of required operands.
    expand : adds the expansion to the model; returns whether it could.
    """

    becomes: str
    num_operands: int
    expand: _Expand

    def fits(self, node: onnx.NodeProto) -> bool:
        """Whether a node has the required operands and a result."""
        return bool(node.output) and len(node.input) >= self.num_operands and bool(node.input[0])


EXPANSIONS: Mapping[tuple[str, str], QOperator] = {
    ("", "QLinearConv"): QOperator("Conv", 8, layers.expand_qlinear_conv),
    ("", "QLinearMatMul"): QOperator("MatMul", 8, layers.expand_qlinear_matmul),
    (_MICROSOFT, "DequantizeLinear"): QOperator("DequantizeLinear", 2, _rename),
    (_MICROSOFT, "QGemm"): QOperator("Gemm", 6, layers.expand_qgemm),
    (_MICROSOFT, "QLinearAdd"): QOperator("Add", 7, elementwise.expand_binary),
    (_MICROSOFT, "QLinearAveragePool"): QOperator("AveragePool", 4, elementwise.expand_pool),
    (_MICROSOFT, "QLinearConv"): QOperator("Conv", 8, layers.expand_qlinear_conv),
    (_MICROSOFT, "QLinearConcat"): QOperator("Concat", 5, elementwise.expand_concat),
    (_MICROSOFT, "QLinearGlobalAveragePool"): QOperator(
        "GlobalAveragePool", 4, elementwise.expand_pool
    ),
    (_MICROSOFT, "QLinearLeakyRelu"): QOperator("LeakyRelu", 4, elementwise.expand_unary),
    (_MICROSOFT, "QLinearMul"): QOperator("Mul", 7, elementwise.expand_binary),
    (_MICROSOFT, "QLinearSigmoid"): QOperator("Sigmoid", 4, elementwise.expand_unary),
    (_MICROSOFT, "QLinearSoftmax"): QOperator("Softmax", 4, elementwise.expand_softmax),
    (_MICROSOFT, "QLinearWhere"): QOperator("Where", 8, elementwise.expand_where),
    (_MICROSOFT, "QuantizeLinear"): QOperator("QuantizeLinear", 2, _rename),
    **{("", name): QOperator(name, 1, integers.expand_selection) for name in integers.SELECTIONS},
}
"""By domain and operator."""


def expand_qoperators(model: onnx.ModelProto) -> None:
    """Replace every operator on quantized tensors by operators on reals, in place.

    A node that has no expansion (scales that are computed) stays.

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


def _expand(expansion: Expansion, node: onnx.NodeProto) -> bool:
    """Add the expansion of a node, or the node itself; returns whether it was expanded."""
    found = EXPANSIONS.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
    if found is not None and found.fits(node) and found.expand(expansion, node):
        return True
    expansion.keep(node)
    return False
