"""`bench/processors/gpu_libraries.py` without a GPU, and on a fake of the driver and of PyTorch."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from bench.processors import gpu_libraries
from bench.processors.cpu_networks import model_feeds
from bench.processors.gpu_compile import MODELS
from bench.processors.gpu_libraries import GROUPS, Case, cases, main, measure
from bench.processors.torch_models import OPERATORS, TorchModel
from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.devices.cuda.driver import open_driver
from tests.support.fake_cuda import FakeCuda


class FakeModel:
    """What onnxruntime computes, as PyTorch's tensors have it."""

    def __init__(self, _torch: object, model: onnx.ModelProto, *_: object, **__: object) -> None:
        self.run_model = open_session(model)

    def tensor(self, value: np.ndarray) -> np.ndarray:
        return value

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, Any]:
        (found,) = self.run_model(feeds)
        tensor = SimpleNamespace(numpy=lambda: found.astype(np.float32))
        tensor.float = tensor.cpu = lambda: tensor
        return {"y": tensor}


TORCH = SimpleNamespace(inference_mode=lambda: open("/dev/null"))  # noqa: SIM115


def test_without_a_gpu_it_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    assert main(["--json", str(path)], lambda: CudaGpu(driver=open_driver(["libnone.so"]))) == 0
    assert "skipped: GPUs need the CUDA driver" in capsys.readouterr().out
    assert json.loads(path.read_text())["skipped"].startswith("GPUs need the CUDA driver")


@pytest.mark.parametrize("installed", [False, True])
def test_without_pytorch_for_gpus_it_is_skipped(
    installed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def torch() -> Any:
        if not installed:
            raise ImportError("No module named 'torch'")
        return SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))

    assert main([], lambda: CudaGpu(driver=FakeCuda().driver()), torch) == 0
    said = "PyTorch is installed without" if installed else "No module named 'torch'"
    assert f"skipped: {said}" in capsys.readouterr().out


def test_every_group_has_cases() -> None:
    found = list(cases())
    assert list(dict.fromkeys(case.group for case in found)) == list(GROUPS)
    names = [case.name for case in found if case.group == "convolutions of float16"]
    assert names == [f"C{number}" for number in range(1, 12)]


def test_pytorch_has_all_operators_of_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_libraries, "SIZE", 8)
    for case in cases():
        if case.group != "networks" and case.name not in ("C4", "C8", "C9", "C10", "C11"):
            assert {node.op_type for node in case.build().graph.node} <= OPERATORS.keys()


@pytest.mark.heavy(3)
@pytest.mark.parametrize("is_convolution", [False, True])
def test_a_case_is_compared_and_timed(
    is_convolution: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake takes a millisecond for a launch, and PyTorch two."""
    shapes = ((1, 8, 6, 6), (16, 8, 3, 3)) if is_convolution else ((8, 24), (24, 16))
    attributes = {"pads": [1] * 4} if is_convolution else {}
    operator = "Conv" if is_convolution else "MatMul"
    build = partial(gpu_libraries._model, operator, "float16", *shapes, **attributes)
    case = Case("group", "name", build, "float16", "sm_80", channels_last=is_convolution)
    programs = {b"": b""}

    def built(model: onnx.ModelProto, **_: object) -> Any:
        code = build_gpu_code(model, architectures=["emulated", "sm_80"])
        emulated, ptx = code.images.values()
        programs.update(zip(ptx, emulated, strict=True))
        return code

    monkeypatch.setattr(gpu_libraries, "build_gpu_code", built)
    monkeypatch.setattr(gpu_libraries, "TorchModel", FakeModel)
    monkeypatch.setattr(gpu_libraries, "library_timer", lambda *_, **__: lambda: 2e-3)
    row = measure(case, CudaGpu(driver=FakeCuda(programs=programs).driver()), TORCH)
    assert row.seconds == pytest.approx(1e-3 * row.launches, rel=1e-5)
    assert row.share == pytest.approx(2 / row.launches, rel=1e-5)
    assert 0 <= row.difference <= row.most_different


@pytest.mark.slow
def test_pytorch_computes_what_onnxruntime_does() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: the extra `pytorch`")
    chosen = [case.build() for case in cases() if case.group.startswith("depthwise")][:1]
    for model in (MODELS["vit_mnist"](), *chosen):
        feeds = model_feeds(model)
        for channels_last in (False, True):
            made = TorchModel(torch, model, "cpu", channels_last=channels_last)
            with torch.inference_mode():
                found = made.run({name: made.tensor(value) for name, value in feeds.items()})
            (wanted,) = open_session(model)(feeds)
            (result,) = found.values()
            difference = np.abs(result.float().numpy() - wanted.astype(np.float32)).max()
            assert difference <= 2e-3 * np.abs(wanted).max()
