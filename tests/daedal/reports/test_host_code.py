"""The lines on the host's parts: one for all that are compiled whole, some for each other one."""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from daedal.artifact.artifact import Artifact, HostPart, Value
from daedal.artifact.host_code import HostCode, InterpretedNode
from daedal.reports.host_code import code_lines


def part(operators: Sequence[str], interpreted: Sequence[str] = ()) -> HostPart:
    names = ["x", *(f"t{number}" for number in range(len(operators)))]
    nodes = [
        helper.make_node(op, [before], [after])
        for op, before, after in zip(operators, names, names[1:], strict=False)
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in (names[0], names[-1]))
    zero = numpy_helper.from_array(np.zeros(1, np.float32), "zero")
    model = helper.make_model(helper.make_graph(nodes, "part", [x], [y], [zero]))
    steps = tuple(InterpretedNode(b"", op, "it has no kernel") for op in interpreted)
    code = HostCode((), {}, ("x",), (names[-1],), steps, (), 0, {"x86-64": (b"object",)})
    return HostPart(model.SerializeToString(), (), (code,))


def test_parts_that_are_compiled_whole_have_one_line() -> None:
    parts = (part(["Relu"]), part(["Exp", "Neg"]), part(["Relu", "Exp"], ["Exp"]), part(["Abs"]))
    value = (Value("x", (4,)),)
    assert code_lines(Artifact(parts, value, value)) == [
        "3 parts on the host (0, 1, 3): 4 nodes compiled for x86-64, 0 interpreted",
        "part 2, on the host: one node compiled for x86-64, 1 interpreted",
        "interpreted: Exp (one node): it has no kernel",
    ]


def test_many_parts_are_counted() -> None:
    value = (Value("x", (4,)),)
    assert code_lines(Artifact((part(["Relu"]),) * 7, value, value)) == [
        "7 parts on the host: 7 nodes compiled for x86-64, 0 interpreted"
    ]


def test_a_part_alone_has_its_number() -> None:
    value = (Value("x", (4,)),)
    assert code_lines(Artifact((part(["Relu"]),), value, value)) == [
        "part 0, on the host: one node compiled for x86-64, 0 interpreted"
    ]
