"""Mutations of what an ONNX model says about values: attributes, initializers and types."""

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from tests.robustness.graph_mutations import ModelMutation
from tests.robustness.nasty import nasty_integer, nasty_name, nasty_real, nasty_shape, pick

__all__ = ["VALUE_MUTATIONS"]

Rng = np.random.Generator

_ATTRIBUTES = (
    *("alpha", "auto_pad", "axes", "axis", "body", "ceil_mode", "dilations", "group"),
    *("kernel_shape", "mode", "output_dtype", "pads", "perm", "strides", "to", "transB", "value"),
)


def _initializer(rng: Rng, model: onnx.ModelProto) -> TensorProto:
    if not model.graph.initializer:
        model.graph.initializer.append(numpy_helper.from_array(np.float32(1), "made"))
    return pick(rng, model.graph.initializer)


def _attributes(model: onnx.ModelProto) -> list[tuple[onnx.NodeProto, AttributeProto]]:
    return [(node, item) for node in model.graph.node for item in node.attribute]


def drop_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    found = _attributes(model)
    if found:
        node, item = pick(rng, found)
        node.attribute.remove(item)


def duplicate_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    found = _attributes(model)
    if found:
        node, item = pick(rng, found)
        copy = node.attribute.add()
        copy.CopyFrom(item)
        copy.name = pick(rng, (item.name, nasty_name(rng), *_ATTRIBUTES))


def change_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    """Other numbers of the right type."""
    found = _attributes(model)
    if found:
        _, item = pick(rng, found)
        if item.type == AttributeProto.INTS and item.ints and rng.random() < 0.7:
            item.ints[int(rng.integers(len(item.ints)))] = nasty_integer(rng)
        elif item.type == AttributeProto.INTS:
            item.ints[:] = nasty_shape(rng)
        item.i, item.f = nasty_integer(rng), nasty_real(rng)
        item.s = nasty_name(rng).encode()


def retype_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    found = _attributes(model)
    if found:
        _, item = pick(rng, found)
        item.type = int(rng.integers(0, 15))
        item.ref_attr_name = pick(rng, ("", "other"))


def add_attribute(rng: Rng, model: onnx.ModelProto) -> None:
    values = (
        nasty_integer(rng),
        nasty_real(rng),
        nasty_name(rng),
        [nasty_integer(rng) for _ in range(int(rng.integers(1, 5)))],
        [nasty_real(rng), nasty_real(rng)],
        [nasty_name(rng), nasty_name(rng)],
        numpy_helper.from_array(np.array([nasty_integer(rng)]), nasty_name(rng)),
        b"\xff\xfe not utf-8",
    )
    name = pick(rng, (*_ATTRIBUTES, nasty_name(rng)))
    pick(rng, model.graph.node).attribute.append(helper.make_attribute(name, pick(rng, values)))


def change_scalar(rng: Rng, model: onnx.ModelProto) -> None:
    """A scale, zero point or number that is out of range: NaN, infinite, 0, denormal, huge."""
    scalars = [item for item in model.graph.initializer if not item.dims]
    tensor = pick(rng, scalars) if scalars else _initializer(rng, model)
    array = numpy_helper.to_array(tensor)
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f":
            array = np.full_like(array, np.float64(nasty_real(rng)).astype(array.dtype))
        else:
            array = np.full_like(array, np.int64(nasty_integer(rng)).astype(array.dtype))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def change_element(rng: Rng, model: onnx.ModelProto) -> None:
    """One bad element in a tensor of many: weights, a vector of scales, a bias, a shape."""
    tensor = _initializer(rng, model)
    array = numpy_helper.to_array(tensor).copy()
    if array.size:
        with np.errstate(all="ignore"):
            value = nasty_real(rng) if array.dtype.kind == "f" else nasty_integer(rng)
            array.flat[int(rng.integers(array.size))] = np.array(value).astype(array.dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def retype_tensor(rng: Rng, model: onnx.ModelProto) -> None:
    """The same bytes by another type, or the same numbers in one."""
    tensor = _initializer(rng, model)
    if rng.random() < 0.5:
        tensor.data_type = int(pick(rng, (*range(-1, 28), 1 << 30)))
        return
    kinds = ("float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64")
    with np.errstate(all="ignore"):
        array = numpy_helper.to_array(tensor).astype(pick(rng, kinds))
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def reshape_tensor(rng: Rng, model: onnx.ModelProto) -> None:
    """Dimensions that the data does not have."""
    tensor = _initializer(rng, model)
    if tensor.dims and rng.random() < 0.6:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = nasty_integer(rng)
    else:
        tensor.dims[:] = nasty_shape(rng)


def resize_tensor(rng: Rng, model: onnx.ModelProto) -> None:
    """A tensor of another shape that holds its data."""
    tensor = _initializer(rng, model)
    shape = [int(extent) for extent in rng.integers(0, 5, int(rng.integers(0, 6)))]
    kind = numpy_helper.to_array(tensor).dtype
    tensor.CopyFrom(numpy_helper.from_array(np.ones(shape, kind), tensor.name))


def change_data(rng: Rng, model: onnx.ModelProto) -> None:
    """Too few bytes, too many, or several lists of values at once."""
    tensor = _initializer(rng, model)
    kind = int(rng.integers(4))
    if kind == 0:
        tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) // 2]
    elif kind == 1:
        tensor.raw_data += b"\x00" * int(rng.integers(1, 9))
    elif kind == 2:
        tensor.float_data.extend([nasty_real(rng)] * 3)
    else:
        tensor.ClearField("raw_data")
        tensor.string_data.append(nasty_name(rng).encode())


def point_outside(rng: Rng, model: onnx.ModelProto) -> None:
    """External data, in an initializer or in a constant."""
    tensor = _initializer(rng, model)
    if rng.random() < 0.4:
        node = model.graph.node.add(op_type="Constant", output=["outside"])
        item = node.attribute.add(name="value", type=AttributeProto.TENSOR)
        tensor = item.t
        tensor.data_type, tensor.dims[:] = TensorProto.INT8, [16]
    places = ("/etc/passwd", "../../../../etc/passwd", "weights.bin", ".", "", nasty_name(rng))
    if rng.random() < 0.8:
        tensor.data_location = TensorProto.EXTERNAL
    if rng.random() < 0.7:
        tensor.ClearField("raw_data")
    tensor.external_data.add(key="location", value=pick(rng, places))
    tensor.external_data.add(key="offset", value=str(nasty_integer(rng)))
    tensor.external_data.add(key=pick(rng, ("length", nasty_name(rng))), value="x")


def add_sparse(rng: Rng, model: onnx.ModelProto) -> None:
    values = numpy_helper.from_array(np.ones(2, np.float32), pick(rng, ("sparse", "y_q", "")))
    indices = numpy_helper.from_array(np.array([0, nasty_integer(rng)]), "indices")
    sparse = helper.make_sparse_tensor(values, indices, [max(1, nasty_integer(rng))])
    if rng.random() < 0.5:
        model.graph.sparse_initializer.append(sparse)
    else:
        model.graph.node.append(helper.make_node("Constant", [], ["s"], sparse_value=sparse))


def duplicate_initializer(rng: Rng, model: onnx.ModelProto) -> None:
    copy = model.graph.initializer.add()
    copy.CopyFrom(_initializer(rng, model))
    if rng.random() < 0.5:
        names = [name for node in model.graph.node for name in (*node.input, *node.output)]
        copy.name = pick(rng, names)


def change_input_type(rng: Rng, model: onnx.ModelProto) -> None:
    if not model.graph.input:
        return
    kind = pick(rng, model.graph.input).type
    choice = int(rng.integers(5))
    if choice == 0:
        kind.tensor_type.elem_type = int(pick(rng, (*range(-1, 28), 1 << 30)))
    elif choice == 1:
        kind.tensor_type.ClearField("shape")
    elif choice == 2:
        kind.CopyFrom(
            pick(
                rng,
                (
                    helper.make_sequence_type_proto(kind),
                    helper.make_optional_type_proto(kind),
                    helper.make_map_type_proto(TensorProto.INT64, kind),
                    helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [1, 2]),
                    onnx.TypeProto(),
                ),
            )
        )
    elif choice == 3:
        kind.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, nasty_shape(rng)))
    else:
        for dim in kind.tensor_type.shape.dim:
            if rng.random() < 0.4:
                dim.dim_value = nasty_integer(rng)
            elif rng.random() < 0.2:
                dim.dim_param = nasty_name(rng)


def change_value_info(rng: Rng, model: onnx.ModelProto) -> None:
    """What the file says about a tensor between or at the end is not so."""
    values = [*model.graph.value_info, *model.graph.output]
    if values:
        kind = pick(rng, values).type
        element = pick(rng, (TensorProto.FLOAT, TensorProto.INT8, TensorProto.STRING, 99))
        kind.CopyFrom(helper.make_tensor_type_proto(element, nasty_shape(rng)))


VALUE_MUTATIONS: tuple[ModelMutation, ...] = (
    drop_attribute,
    duplicate_attribute,
    change_attribute,
    retype_attribute,
    add_attribute,
    change_scalar,
    change_element,
    retype_tensor,
    reshape_tensor,
    resize_tensor,
    change_data,
    point_outside,
    add_sparse,
    duplicate_initializer,
    change_input_type,
    change_value_info,
)
