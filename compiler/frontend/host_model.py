"""A part of a model in the form in which the host runs it (`runtime.host`): ONNX, of an operator
set that ONNX's reference evaluator implements.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import count

import numpy as np
import onnx
from onnx import helper, numpy_helper

from daedal.common.errors import ModelError
from daedal.compiler.frontend.upgrade import upgrade, upgrade_node
from daedal.compiler.frontend.upgrade.rule import ModelUpgrade
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.foreign import copy_onnx, names_read
from daedal.compiler.graph.ops.onnx_form import OnnxForm
from daedal.compiler.graph.ops.registry import get_op

__all__ = ["HOST_OPSET", "host_model", "modern_model"]

HOST_OPSET = 21
"""Parts of older opsets are upgraded to this one: ONNX's reference evaluator implements only the
recent forms of some operators (QuantizeLinear and DequantizeLinear from opset 19 on)."""


def host_model(
    graph: Graph,
    outputs: Sequence[str],
    model: onnx.ModelProto,
    types: Mapping[str, onnx.ValueInfoProto],
    *,
    opset: int = HOST_OPSET,
) -> onnx.ModelProto:
    """A graph of operators of ONNX, with what is outside it, written in `opset` or newer.

    Parameters
    ----------
    outputs : of the graph and of what is outside, in order.
    model, types : from which the graph was imported, and the types of its tensors.

    Raises
    ------
    ModelError
        For a node that has no equivalent in that opset.
    """
    opsets = dict(graph.outside.opsets)
    own = max(opsets.pop(name, 0) for name in ("", "ai.onnx"))
    upgrades, opset = ModelUpgrade(model), max(own, opset)
    fresh = (name for number in count() if (name := f"written.{number}") not in graph.names)
    form = OnnxForm(
        graph, opset, lambda: next(fresh), lambda node: upgrade_node(node, upgrades, own, opset)
    )
    for node in graph.nodes:
        write = get_op(node.op).onnx
        assert write is not None, f"{node} has no form in ONNX"
        if node.output not in form.made:  # as another name of a tensor that was read before
            write(form, node)
    for node in graph.outside.nodes:
        copy_onnx(form, onnx.NodeProto.FromString(node.attrs["proto"]), node.inputs)
    read = {name for node in form.nodes for name in names_read(node)} | set(outputs)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*it) for it in opsets.items())]
    used = {"", *(node.domain for node in form.nodes)}
    return helper.make_model(
        helper.make_graph(
            form.nodes,
            "part",
            [_value_info(graph, name) for name in graph.inputs],
            [
                _value_info(graph, name) if name in graph.types
                else types.get(name, helper.make_empty_tensor_value_info(name))
                for name in outputs
            ],
            _constants(graph, form, upgrades, read),
        ),
        opset_imports=[item for item in imports if item.domain in used],
        ir_version=max(
            model.ir_version, helper.find_min_ir_version_for(imports, ignore_unknown=True)
        ),
        producer_name="daedal",
    )  # fmt: skip


def _value_info(graph: Graph, name: str) -> onnx.ValueInfoProto:
    kind = graph.types[name]
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype))
    return helper.make_tensor_value_info(name, number, kind.shape)


def _constants(
    graph: Graph, form: OnnxForm, upgrades: ModelUpgrade, read: Collection[str]
) -> list[onnx.TensorProto]:
    """The constants that are `read`, each once."""
    values = {**graph.constants, **form.constants}
    given = {**graph.outside.constants, **{item.name: item for item in upgrades.constants}}
    return [
        *(tensor for name, tensor in given.items() if name in read and name not in values),
        *(numpy_helper.from_array(value, name) for name, value in values.items() if name in read),
    ]


def modern_model(model: onnx.ModelProto) -> onnx.ModelProto:
    """A whole model in opset `HOST_OPSET` or newer, or as it is where a node has no equivalent."""
    try:
        return upgrade(model, HOST_OPSET)
    except ModelError:
        return model
