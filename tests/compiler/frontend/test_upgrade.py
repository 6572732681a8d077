"""Upgraded models mean what they meant: every operator whose schema changed since opset 7."""

import itertools
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal.backend
from daedal.checking.onnxruntime_session import open_session
from daedal.common.errors import ModelError
from daedal.common.onnx_evaluator import evaluator_of
from daedal.compiler.frontend.reader import MIN_OPSET
from daedal.compiler.frontend.upgrade import RULES, upgrade
from tests.support.old_nodes import CASES, OldNode

TARGET = 21

COMPATIBLE = {
    "ArgMax-12", "ArgMin-12", "AveragePool-10", "AveragePool-19", "Cast-19", "CastLike-19",
    "Constant-11", "Constant-12", "DepthToSpace-11", "DequantizeLinear-13", "DequantizeLinear-21",
    "GRU-14", "GatherND-12", "LSTM-14", "LpPool-18", "MaxPool-8", "MaxPool-10", "Pad-18",
    "QuantizeLinear-13", "QuantizeLinear-19", "QuantizeLinear-21", "RNN-14", "Reshape-14",
    "Resize-18", "ScatterElements-16", "ScatterND-16", "Shape-15", "TopK-11",
}  # fmt: skip
"""Changes that add attributes or operands, whose defaults keep the meaning of older nodes. The
suite of nodes below runs all of these."""


def schemas() -> dict[str, dict[int, Any]]:
    """The versions of every operator of the standard domain, in order."""
    found: dict[str, dict[int, Any]] = defaultdict(dict)
    for item in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda x: x.since_version):
        if item.domain == "":
            found[item.name][item.since_version] = item
    return found


def changes() -> Iterator[tuple[str, int, Any, Any]]:
    """Operator, the operator set that changed it, and its schemas before and since."""
    for name, versions in schemas().items():
        for before, since in itertools.pairwise(versions):
            # onnx's checker refuses deprecated operators, as GroupNormalization-18.
            if MIN_OPSET < since <= TARGET and not versions[before].deprecated:
                yield name, since, versions[before], versions[since]


def is_other(before: Any, since: Any) -> bool:
    """Whether nodes are written in another way, or mean something else by default."""

    def defaults(schema: Any) -> dict[str, bytes]:
        attributes = schema.attributes.items()
        return {name: item.default_value.SerializeToString() for name, item in attributes}

    return (
        since.deprecated
        or defaults(before) != defaults(since)
        or since.min_input > before.min_input
        or len(since.inputs) < len(before.inputs)
        or len(since.outputs) < len(before.outputs)
    )


def test_every_change_of_form_or_default_has_a_rule_or_a_reason() -> None:
    changed = {(name, since) for name, since, before, new in changes() if is_other(before, new)}
    ruled = {(name, since) for name, rules in RULES.items() for since in rules}
    compatible = {f"{name}-{since}" for name, since in changed - ruled}
    assert compatible - COMPATIBLE == set()
    assert COMPATIBLE - compatible <= {"Pad-18", "Resize-18"}


def test_every_rule_has_a_case() -> None:
    cases = {(item.op_type, item.opset) for item in CASES}
    for name, rules in RULES.items():
        previous = 0
        for since in rules:
            below = [op for op, opset in cases if op == name and previous <= opset < since]
            assert below or name == "Scan", f"{name} has no case below opset {since}"
            previous = since


def assert_alike(found: Any, wanted: Any) -> None:
    """Compare tensors, or sequences of them."""
    if isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_alike(one, other)
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1))
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5 * largest)
    else:
        np.testing.assert_array_equal(found, wanted)


def run_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """What the old form computes: onnx's reference has only one form of many operators."""
    pytest.importorskip("onnxruntime")
    return open_session(model)(feeds)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_old_node_means_the_same(case: OldNode) -> None:
    model = case.model()
    onnx.checker.check_model(model)
    before = model.SerializeToString()
    upgraded = upgrade(model, TARGET)
    assert model.SerializeToString() == before
    onnx.checker.check_model(upgraded)
    wanted = run_onnxruntime(model, case.feeds)
    assert_alike(evaluator_of(upgraded).run(None, case.feeds), wanted)


def of_suite() -> Iterator[tuple[str, onnx.ModelProto, Sequence[Any]]]:
    """ONNX's node tests as nodes of the operator set before each change, where they are such."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(0)  # noqa: NPY002
        found = [item for item in collect_testcases(None) if item.model is not None]
    by_op = defaultdict(list)
    for item in sorted(found, key=lambda item: item.model.ByteSize()):
        if len(item.model.graph.node) == 1 and not item.model.graph.node[0].domain:
            by_op[item.model.graph.node[0].op_type].append(item)
    for name, since, *_ in changes():
        for item in by_op[name]:
            model = onnx.ModelProto()
            model.CopyFrom(item.model)
            model.ir_version = min(model.ir_version, 8)
            for opset in model.opset_import:
                opset.version = since - 1
            try:
                onnx.checker.check_model(model, full_check=True)
            except Exception:  # not a node of that operator set
                continue
            yield f"{item.name} at opset {since - 1}", model, item.data_sets[0][0]


def one_node(op_type: str, opset: int, results: int = 1, **attributes: Any) -> onnx.ModelProto:
    """A node of one operand of shape (1, 2, 3, 4)."""
    names = [f"y{number}" for number in range(results)]
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x"], names, "node", **attributes)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 4])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 3, 4]) for name in names],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=4)


def test_a_mask_of_dropout_keeps_its_type() -> None:
    upgraded = upgrade(one_node("Dropout", 9, results=2), TARGET)
    y, mask = evaluator_of(upgraded).run(None, {"x": np.ones((1, 2, 3, 4), np.float32)})
    assert mask.dtype == y.dtype == np.float32


def test_a_model_as_new_is_not_copied() -> None:
    model = one_node("Relu", TARGET)
    assert upgrade(model, TARGET) is model and upgrade(model, 13) is model


def test_new_names_avoid_those_of_the_model() -> None:
    model = one_node("ReduceSum", 11, axes=[1])
    model.graph.node[0].input[0] = model.graph.input[0].name = "upgraded.1"
    (node,) = upgrade(model, TARGET).graph.node
    assert list(node.input) == ["upgraded.1", "upgraded.2"]


def test_subgraphs_are_upgraded() -> None:
    branch = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["z"], axis=1)],
        "branch",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
    )
    model = one_node("Relu", 11)
    condition = numpy_helper.from_array(np.array(True), "c")
    model.graph.initializer.append(condition)
    model.graph.node[0].CopyFrom(
        helper.make_node("If", ["c"], ["y0"], then_branch=branch, else_branch=branch)
    )
    x = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)
    (found,) = evaluator_of(upgrade(model, TARGET)).run(None, {"x": x})
    np.testing.assert_allclose(found.sum(), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "opset", "results", "reason"),
    [
        ("BatchNormalization", 9, 5, "it computes statistics, as for training"),
        ("Scan", 8, 1, "it has a batch"),
    ],
)
def test_what_has_no_equivalent_is_refused(
    op_type: str, opset: int, results: int, reason: str
) -> None:
    message = rf"equivalent in opset 21, and {op_type} \(node 'node'\) has none: {reason}; export"
    with pytest.raises(ModelError, match=message):
        upgrade(one_node(op_type, opset, results), TARGET)


def old_network() -> onnx.ModelProto:
    """Upsample, Hardmax and Slice of opset 9 in a row."""
    model = one_node("Upsample", 9, mode="linear")
    model.graph.initializer.append(numpy_helper.from_array(np.float32([1, 1, 2, 2]), "scales"))
    nodes = [
        helper.make_node("Upsample", ["x", "scales"], ["u"], mode="linear"),
        helper.make_node("Hardmax", ["u"], ["h"], axis=2),
        helper.make_node("Add", ["u", "h"], ["a"]),
        helper.make_node("Slice", ["a"], ["y0"], starts=[1], ends=[100], axes=[3]),
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y0", TensorProto.FLOAT, [1, 2, 6, 7])
    )
    return model


def test_compiled_models_and_the_backend_compute_what_old_operators_mean() -> None:
    model = old_network()
    x = np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)
    wanted = run_onnxruntime(model, {"x": x})
    assert_alike(list(daedal.backend.prepare(model).run([x])), wanted)
    artifact = daedal.compile(model.SerializeToString(), target="cpu")
    assert_alike([daedal.simulate(artifact, {"x": x}).outputs["y0"]], wanted)


NOT_COMPARED = {
    "test_if_opt": "the reference gives another value for an If of optionals",
    "test_maxunpool_export_with_output_shape": "onnxruntime reads indices in the given shape",
    "test_scan_sum": "Scan-8 is refused",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_nodes_of_the_suite_mean_the_same() -> None:
    counts: dict[str, int] = defaultdict(int)
    wrong = []
    for name, model, inputs in of_suite():
        op_type = f"{model.graph.node[0].op_type}-{model.opset_import[0].version}"
        if counts[op_type] >= 4 or name.split()[0] in NOT_COMPARED:
            continue
        arrays = [
            x
            if isinstance(x, list)
            else np.asarray(numpy_helper.to_array(x) if isinstance(x, TensorProto) else x)
            for x in inputs
        ]
        feeds = dict(zip((item.name for item in model.graph.input), arrays, strict=False))
        try:
            wanted = run_onnxruntime(model, feeds)
        except Exception:  # it lacks that version
            continue
        counts[op_type] += 1
        try:
            assert_alike(evaluator_of(upgrade(model, TARGET)).run(None, feeds), wanted)
        except Exception as error:
            wrong.append(f"{name}: {str(error)[:200]}")
    assert not wrong, "\n".join(wrong)
    assert len(counts) >= 190
