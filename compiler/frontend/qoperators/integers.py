"""Expansion of standard operators that are given 8-bit integers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from daedal.compiler.frontend.qoperators.expansion import Expansion

__all__ = ["SELECTIONS", "Selection", "expand_selection"]


@dataclass(frozen=True)
class Selection:
    """The data operands and results of an operator that selects elements.

    Parameters
    ----------
    all_data : whether all operands are data, not only the first.
    values : indices of the operands that hold one number of the data's type.
    all_results : whether all results are data, not only the first.
    """

    all_data: bool = False
    values: tuple[int, ...] = ()
    all_results: bool = False


SELECTIONS: Mapping[str, Selection] = {
    "Clip": Selection(values=(1, 2)),
    "Concat": Selection(all_data=True),
    "Flatten": Selection(),
    "MaxPool": Selection(),
    "Pad": Selection(values=(2,)),
    "Relu": Selection(),
    "Reshape": Selection(),
    "Resize": Selection(),
    "Slice": Selection(),
    "Split": Selection(all_results=True),
    "Squeeze": Selection(),
    "Transpose": Selection(),
    "Unsqueeze": Selection(),
    "Upsample": Selection(),
}
"""The operators of the standard domain that an 8-bit model applies to integers themselves."""


def expand_selection(model: Expansion, node: onnx.NodeProto) -> bool:
    """Expand a selection of 8-bit integers to the same selection of reals.

    The dequantize and quantize around it have scale 1 and zero point 0, whatever the integers
    represent. Nodes over constants are kept.
    """
    form = SELECTIONS[node.op_type]
    data = node.input[:] if form.all_data else node.input[:1]
    if not data or not all(model.is_integer(name) for name in data):
        return False
    if all(model.is_constant(name) for name in data):
        return False
    if not form.all_results and any(node.output[1:]):
        return False
    one = model.add_constant(f"{node.output[0]}.one", np.array(1, dtype=np.float32))
    operands = [model.real(name, one) for name in data]
    for index, name in enumerate(node.input[len(data) :], start=len(data)):
        value = model.constant(name) if index in form.values and name else None
        if value is not None:
            name = model.add_constant(f"{name}.real", value.astype(np.float32))
        operands.append(name)
    reals = model.op(node, node.op_type, operands)
    for output, real in zip(node.output, reals, strict=True):
        model.quantize(output, real, one, "", like=data[0])
    return True
