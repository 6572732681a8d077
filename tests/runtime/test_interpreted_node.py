"""Small models that ONNX's reference evaluator runs: what they compute, and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.common.errors import ArtifactError
from daedal.runtime.interpreted_node import InterpretedModel
from tests.support.host_models import SHAPE, one_model

HEADER = '<ir_version: 10, opset_import: ["": 21]>'


def interpreted(text: str) -> InterpretedModel:
    model = onnx.parser.parse_model(f"{HEADER} {text}")
    return InterpretedModel(model.SerializeToString(), "the operator")


def test_a_loop_counts_its_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body gets their number, and the count ends the loop; results of any rank are stacked."""
    monkeypatch.setattr("daedal.runtime.bounded_loop.MAX_ITERATIONS", 10)
    model = interpreted("""
        looping (int64 count, float[1, 2] x)
            => (float[1, 2] y, int64[n] numbers, float[n, 1, 2] all)
        <bool go = {1}>
        {
            y, numbers, all = Loop (count, go, x) <
                body = step (int64 number, bool go_on, float[1, 2] v)
                    => (bool still, float[1, 2] w, int64 seen, float[1, 2] kept)
                {
                    still = Identity (go_on)
                    w = Add (v, v)
                    seen = Identity (number)
                    kept = Identity (v)
                }
            >
        }
    """)
    x = np.array([[1, -3]], np.float32)
    found = model.run({"count": np.array(3), "x": x})
    np.testing.assert_array_equal(found["y"], 8 * x)
    np.testing.assert_array_equal(found["numbers"], [0, 1, 2])
    np.testing.assert_array_equal(found["all"], np.stack([x, 2 * x, 4 * x]))


def test_infinities_are_results_and_no_warnings() -> None:
    model = interpreted("quotient (float[2] a, float[2] b) => (float[2] y) { y = Div (a, b) }")
    found = model.run({"a": np.array([1, -1], np.float32), "b": np.zeros(2, np.float32)})
    assert found["y"].tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("as_constant", [False, True])
def test_data_in_other_files_is_refused(
    as_constant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the file is there."""
    monkeypatch.chdir(tmp_path)
    tensor = numpy_helper.from_array(np.zeros(SHAPE, np.float32), "w")
    (tmp_path / "weights.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    nodes, tensors = [helper.make_node("Add", ["x", "w"], ["y"])], [tensor]
    if as_constant:
        nodes, tensors = [helper.make_node("Constant", [], ["w"], value=tensor), *nodes], []
    sentence = r"^the operator of an artifact .* is damaged, .* \(ValueError\)$"
    with pytest.raises(ArtifactError, match=sentence):
        InterpretedModel(one_model(nodes, tensors), "the operator")
