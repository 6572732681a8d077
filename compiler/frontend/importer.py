"""ONNX model to graph: one pass over the nodes, one importer function per operator.

Input: a path or bytes. Output: a verified `Graph` of float operators, quantize and dequantize
nodes, with static shapes (a symbolic batch becomes 1) and the model's tensor names. A node that no
importer takes becomes one that the host runs as it is (`foreign`).
"""

from dataclasses import replace
from pathlib import Path

import onnx

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.foreign import NO_SUCH_OPERATOR, ForeignNodes
from daedal.compiler.frontend.node import OnnxNode, element_type_name, tensor_value, widened
from daedal.compiler.frontend.norm_patterns import NormPatterns
from daedal.compiler.frontend.operators import find_importer
from daedal.compiler.frontend.operators.normalization import import_written_norm
from daedal.compiler.frontend.reader import opset_of, read_model
from daedal.compiler.frontend.tensor_types import tensor_names
from daedal.compiler.frontend.written_softmax import SoftmaxPatterns
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.types import TensorType

__all__ = ["load_onnx"]

_INPUT_DTYPES: dict[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.BOOL: "bool",
}


_NEVER_FOLDED = ("Constant", "DequantizeLinear")
"""What has an importer that says more: weights keep their scales."""


def load_onnx(source: str | Path | bytes | onnx.ModelProto) -> Graph:
    """Import an ONNX model.

    Parameters
    ----------
    source : path of the file, its bytes, or what `read_model` made of them.

    Raises
    ------
    ModelError
        For a file that is not valid ONNX or too large, a node that is damaged, an operator that
        neither accelerator nor host can run, and an input whose shape is not static.
    """
    model = source if isinstance(source, onnx.ModelProto) else read_model(source)
    opset = opset_of(model)
    builder = GraphBuilder(model.graph.name or "model", taken=tensor_names(model))
    context = ImportContext(builder, opset)
    foreign = ForeignNodes(context, model)
    known_of = model.graph.node, context.constant_value, context.float_shape
    norms, softmaxes = NormPatterns(*known_of), SoftmaxPatterns(*known_of)
    for tensor in model.graph.initializer:
        wide = widened(tensor)
        if wide is not tensor:
            context.narrow[tensor.name] = tensor
        try:
            context.define_constant(tensor.name, tensor_value(wide))
        except UnsupportedError:
            foreign.leave_outside(tensor)
    initialized = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in initialized:
            builder.input(value.name, _input_type(value))
    for proto in model.graph.node:
        _import_node(context, foreign, norms, softmaxes, proto)
    known = [item.name for item in model.graph.output if not foreign.is_outside(item.name)]
    outputs = [_finish_output(context, name) for name in known if not foreign.keep_constant(name)]
    computed = [name for name in outputs if builder.is_computed(name)]
    graph = builder.finish(tuple(dict.fromkeys([*computed, *foreign.frontier])))
    return replace(graph, outside=foreign.outside)


def _input_type(value: onnx.ValueInfoProto) -> TensorType:
    """Type of a graph input; only the first dimension may be symbolic, and becomes 1."""
    tensor = value.type.tensor_type
    if tensor.elem_type not in _INPUT_DTYPES:
        kind = element_type_name(tensor.elem_type)
        raise ModelError(
            f"model inputs must be one of {', '.join(_INPUT_DTYPES.values())}, not {kind} (input "
            f"{value.name!r}); convert the input in the model's export"
        )
    shape = []
    for axis, dimension in enumerate(tensor.shape.dim):
        if dimension.HasField("dim_value"):
            shape.append(int(dimension.dim_value))
        elif axis == 0:
            shape.append(1)
        else:
            raise ModelError(
                f"shapes must be static except for the batch, but dimension {axis} of input "
                f"{value.name!r} is {dimension.dim_param or 'unknown'!r}; "
                "give the shape with --shape NAME=1x3x224x224 (shapes= in Python)"
            )
    return TensorType(tuple(shape), _INPUT_DTYPES[tensor.elem_type])


def _import_node(
    context: ImportContext,
    foreign: ForeignNodes,
    norms: NormPatterns,
    softmaxes: SoftmaxPatterns,
    proto: onnx.NodeProto,
) -> None:
    """Import a node; if it has no importer or its importer refuses it, it runs on the host.

    The last operator of a norm or a softmax written out becomes that; nothing reads the others any
    more.
    """
    if foreign.fold_outside(proto) or foreign.reads_outside(proto):
        return
    norm = norms.match(proto)
    if norm is not None:
        import_written_norm(context, norm, OnnxNode(proto, context.opset))
        return
    softmax = softmaxes.match(proto)
    if softmax is not None:
        x, axis = softmax
        output, name = proto.output[0], OnnxNode(proto, context.opset).name
        context.builder.add(
            "softmax", [context.resolve(x)], {"axes": (axis,)}, output=output, name=name
        )
        return
    importer = find_importer(proto.op_type) if proto.domain in ("", "ai.onnx") else None
    if proto.op_type not in _NEVER_FOLDED and foreign.fold(proto):
        return
    if importer is None:
        # Expressions read nodes of this package, so it cannot import them first.
        from daedal.compiler.ops.onnx.table import ELEMENTWISE

        known = proto.op_type in ELEMENTWISE  # by a table, if the variant has one
        foreign.add(proto, "" if known else NO_SUCH_OPERATOR)
        return
    mark = context.builder.mark()
    try:
        importer(context, OnnxNode(proto, context.opset))
    except UnsupportedError as error:
        context.builder.rewind(mark)
        foreign.add(proto, str(error))
    except ModelError:  # also of a result without elements, which the graph has not
        context.builder.rewind(mark)
        if not all(foreign.add_empty(name) for name in proto.output if name):
            raise


def _finish_output(context: ImportContext, name: str) -> str:
    """Graph tensor for a model output; an alias of another tensor gets its own node."""
    target = context.resolve(name)
    builder = context.builder
    if not builder.is_defined(target):
        raise ModelError(
            f"model outputs must be computed by a node, but {name!r} is not; repair the model"
        )
    if target == name:
        return name
    shape = builder.types[target].shape
    return builder.add("reshape", [target], {"shape": shape}, output=name)
