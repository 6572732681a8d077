"""ONNX's own test suites: cases with their models, inputs and expected outputs.

Source: `onnx.backend.test`. Suites whose models would have to be downloaded are not among them.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import daedal.backend
from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.cpu.build import build_host_code
from daedal.runtime.gpu_device import GpuDevice
from tests.support.aarch64 import run_on_aarch64
from tests.support.kept_value import kept

__all__ = ["AS_ONNXRUNTIME", "Case", "cases", "results_of_onnxruntime", "where"]

SUITES = ("node", "simple", "pytorch-operator", "pytorch-converted")

NEW_LENGTH = "align_corners counts with the length of the result (docs/adr, 23)"

AS_ONNXRUNTIME = {
    "test_resize_downsample_scales_cubic_align_corners": NEW_LENGTH,
    "test_resize_downsample_scales_linear_align_corners": NEW_LENGTH,
}
"""Cases whose results are onnxruntime's and not those that come with the case, and why."""


@dataclass(frozen=True)
class Case:
    """One test of ONNX's."""

    name: str
    _case: Any

    def run(self, gpu: GpuDevice | None = None) -> daedal.backend.Prepared:
        """Compile and run it, on a GPU if one is given.

        Raises AssertionError where results differ, and what else fails.
        """
        model, data = self._loaded()
        onnx.checker.check_model(model)
        prepared = daedal.backend.Prepared(model, gpu)
        self._compare(model, data, lambda operands: list(prepared.run(operands)))
        return prepared

    def run_on_aarch64(self, level: str) -> bool:
        """Compile it for a level of AArch64, and run it in an emulator of the processor; False
        where a node of it is not code.

        Raises as `run`.
        """
        model, data = self._loaded()
        code = build_host_code(model, levels=(level,))
        if code.interpreted or not code.calls:
            return False

        def run(operands: list[Any]) -> list[Any]:
            found = run_on_aarch64(code, dict(zip(code.inputs, operands, strict=True)))
            return [found[name] for name in code.outputs]

        self._compare(model, data, run)
        return True

    def _loaded(self) -> tuple[onnx.ModelProto, Any]:
        """The model, and pairs of inputs and outputs."""
        if self._case.model is not None:
            return self._case.model, self._case.data_sets
        folder = Path(self._case.model_dir)
        model = onnx.load(folder / "model.onnx")
        sets = sorted(folder.glob("test_data_set_*"))
        return model, [_data_set(item, model.graph) for item in sets]

    def _compare(
        self, model: onnx.ModelProto, data: Any, run: Callable[[list[Any]], list[Any]]
    ) -> None:
        for inputs, outputs in data:
            operands = [_array(item) for item in inputs]
            found = run(operands)
            wanted = [_array(item) for item in outputs]
            if self.name in AS_ONNXRUNTIME:
                wanted = results_of_onnxruntime(model, operands, wanted)
            Runner.assert_similar_outputs(wanted, found, rtol=self._case.rtol, atol=self._case.atol)


def made_cases() -> list[Case]:
    """All cases, in a fixed order, computed by ONNX's slow reference evaluator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite overflows on purpose while it is made
        found = [item for suite in SUITES for item in load_model_tests(kind=suite)]
    found.sort(key=lambda item: str(item.name))
    return [Case(str(item.name), item) for item in found]


def cases() -> list[Case]:
    """All cases, from a file if they were made before with the same versions."""
    return kept(made_cases, "onnx", "numpy")


def results_of_onnxruntime(
    model: onnx.ModelProto, operands: Sequence[Any], others: Sequence[Any]
) -> list[Any]:
    """What onnxruntime gives for a case of `AS_ONNXRUNTIME`.

    `others` are the results that come with the case: of the same shapes, and other values.
    """
    names = [item.name for item in model.graph.input]
    found = open_session(model)(dict(zip(names, operands, strict=True)))
    for one, other in zip(found, others, strict=True):
        assert one.shape == other.shape, f"{one.shape} is not {other.shape}"
        assert np.abs(one - other).max() > 0.1, "ONNX gives the same: take the case out"
    return found


def where(prepared: daedal.backend.Prepared) -> str:
    """Where a model ran: "compiled", "mixed", "interpreted", or "folded" if nothing was left."""
    code = prepared.code
    assert code is not None, "run it first"
    if code.calls:
        return "mixed" if code.interpreted else "compiled"
    return "interpreted" if code.interpreted else "folded"


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _data_set(folder: Path, graph: onnx.GraphProto) -> tuple[list[Any], list[Any]]:
    inputs = len(list(folder.glob("input_*.pb")))
    return (
        [_value(folder / f"input_{n}.pb", graph.input[n].type) for n in range(inputs)],
        [_value(folder / f"output_{n}.pb", item.type) for n, item in enumerate(graph.output)],
    )


def _value(path: Path, kind: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))
