"""`bench/processors/gpu.py` without a GPU, and on the fake of the CUDA driver."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench.processors import gpu
from bench.processors.cpu_operators import Operator
from daedal.compiler.gpu.build import build_gpu_code
from daedal.runtime.devices.cuda.device import CudaGpu
from daedal.runtime.devices.cuda.driver import open_driver
from tests.support.fake_cuda import FakeCuda


def test_without_a_gpu_it_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    status = gpu.main(["--json", str(path)], lambda: CudaGpu(driver=open_driver(["libnone.so"])))
    assert status == 0 and "skipped: GPUs need the CUDA driver" in capsys.readouterr().out
    assert json.loads(path.read_text())["skipped"].startswith("GPUs need the CUDA driver")


def test_a_generation_without_code_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    old = FakeCuda(capability=(7, 5))
    assert gpu.main(["--json", str(path)], lambda: CudaGpu(driver=old.driver())) == 0
    assert json.loads(path.read_text()) == {
        "skipped": "kernels cannot be compiled for Fake 0 (sm_75)"
    }


def test_an_operator_is_compared_and_timed() -> None:
    """The fake takes a millisecond for a launch."""
    shape = [4, 8]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    code = build_gpu_code(model, architectures=["emulated", "sm_80"])
    emulated, ptx = (code.images[name] for name in code.images)
    library = FakeCuda(programs=dict(zip(ptx, emulated, strict=True)))
    item = Operator("add", onnx.ModelProto.SerializeToString(model), bytes=256)
    row = gpu.measure(item, code, CudaGpu(driver=library.driver()))
    assert (row.architecture, row.launches, row.wrong) == ("sm_80", 1, False)
    np.testing.assert_allclose((row.seconds, row.bytes_per_second), (1e-3, 256e3), rtol=1e-5)
    assert library.calls.count("cuGraphLaunch") == (1 + gpu.ROUNDS) * gpu.REPLAYS


@pytest.mark.heavy(3)
def test_a_product_of_float16_is_compared_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By groups of warps, and by single ones."""
    monkeypatch.setattr(gpu, "REPLAYS", 1)
    monkeypatch.setattr(gpu, "ROUNDS", 1)
    item = gpu.half_products(256)
    model = onnx.load_from_string(item.model)
    for name, instruction in (("sm_90a", b"wgmma"), ("sm_90", b"mma.sync")):
        code = build_gpu_code(model, architectures=["emulated", name])
        emulated, (ptx,) = (code.images[key] for key in code.images)
        library = FakeCuda(capability=(9, 0), programs={ptx: emulated[0]})
        row = gpu.measure_half(item, code, CudaGpu(driver=library.driver()))
        assert instruction in ptx
        assert (row.architecture, row.wrong, row.share) == (name, False, None)
        assert 0 < row.difference < 1e-3
        assert row.operations_per_second == pytest.approx(2 * 256**3 / 1e-3, rel=1e-5)
