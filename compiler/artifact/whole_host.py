"""`host_artifact`: an artifact of one host part, for processors alone."""

from collections.abc import Callable, Sequence

import onnx

from daedal.artifact.artifact import Artifact, HostNode, HostPart, Value
from daedal.compiler.artifact.host_code import compile_host_model
from daedal.compiler.artifact.placements import place_nodes
from daedal.compiler.cpu.support import check_runs
from daedal.compiler.frontend.cut import ModelCutter, is_static
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.native.cache import ObjectCache

__all__ = ["host_artifact"]

_WHY = "the model is compiled for processors alone"


def host_artifact(
    model: onnx.ModelProto,
    cpu_levels: Sequence[str],
    report: Callable[[str], None] | None = None,
    objects: ObjectCache | None = None,
) -> Artifact:
    """The artifact of a whole checked model, compiled for `cpu_levels`.

    Object code is kept in `objects`, by default in the user's cache.

    Raises ModelError for a model whose inputs have no static shapes, apart from a batch, which is
    1, and for one with an operator that nothing runs.
    """
    cutter = ModelCutter(model, tensor_types(model))
    numbers = sorted(cutter.needed(cutter.inputs, cutter.outputs))
    check_runs(cutter.nodes[number] for number in numbers)
    run = [n for n in numbers if not cutter.constants.issuperset(cutter.nodes[n].output)]
    part_model = modern_model(cutter.part(numbers, cutter.inputs, cutter.outputs))
    serialized = bytes(part_model.SerializeToString(deterministic=True))
    part = HostPart(
        serialized,
        tuple(_host_node(cutter.nodes[number]) for number in run),
        compile_host_model(serialized, cpu_levels, report, objects),
    )
    return Artifact(
        parts=(part,),
        inputs=tuple(_value(cutter, name) for name in cutter.inputs),
        outputs=tuple(_value(cutter, name) for name in cutter.outputs),
        placements=place_nodes(cutter, (part,), {}, dict.fromkeys(run, 0), lambda _node: _WHY),
    )


def _host_node(node: onnx.NodeProto) -> HostNode:
    return HostNode(node.op_type, node.name or next((name for name in node.output if name), ""))


def _value(cutter: ModelCutter, name: str) -> Value:
    """A tensor with its shape, empty where it is not static."""
    value = cutter.types.get(name)
    if value is None or not is_static(value.type.tensor_type):
        return Value(name, ())
    return Value(name, tuple(int(dim.dim_value) for dim in value.type.tensor_type.shape.dim))
