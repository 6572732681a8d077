"""`daedal quantize`: what it writes and reports, and one sentence for bad input."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import daedal
from bench.float_network import FloatNetwork
from tests.compiler.quantization.float_transformers import DEPTH, TOKENS, FloatTransformer
from tests.support.command_line import Run, refuses


@pytest.fixture
def model(tmp_path: Path, rng: np.random.Generator) -> Path:
    net = FloatNetwork(rng)
    x = net.op("Relu", net.conv(net.input("x", (1, 3, 6, 6)), 3, 4))
    path = tmp_path / "float.onnx"
    path.write_bytes(net.model(net.conv(x, 4, 4)).SerializeToString())
    return path


@pytest.fixture
def samples(tmp_path: Path, rng: np.random.Generator) -> Path:
    path = tmp_path / "samples.npz"
    np.savez(path, x=rng.normal(0, 1, (4, 3, 6, 6)).astype(np.float32))
    return path


def test_it_writes_what_the_function_gives(run: Run, model: Path, samples: Path) -> None:
    target = model.with_name("int8.onnx")
    status, out, err = run("quantize", model, "--samples", samples, "-o", target)
    assert status == 0, err
    assert out == f"{target}: 3 tensors in int8; 2 Conv, 1 Relu\n"
    expected = daedal.quantize(model, np.load(samples))
    assert target.read_bytes() == expected
    onnx.checker.check_model(onnx.ModelProto.FromString(expected))


def test_nodes_are_excluded(run: Run, model: Path, samples: Path) -> None:
    target = model.with_name("int8.onnx")
    first, second = (
        node.output[0] for node in onnx.load(model).graph.node if node.op_type == "Conv"
    )
    arguments = ("quantize", model, "-s", samples, "-o", target)
    status, out, err = run(*arguments, "--exclude", second)
    assert status == 0, err
    assert out == f"{target}: 2 tensors in int8; 2 Conv, 1 Relu; kept in float: {second}\n"
    assert target.read_bytes() == daedal.quantize(model, np.load(samples), exclude=[second])
    refuses(run(*arguments, "--exclude", first, "--exclude", second), "exclude fewer")
    refuses(run(*arguments, "--exclude", "nowhere"), "and 'nowhere' is none")


def test_it_counts_tensors_of_16_bits(run: Run, tmp_path: Path, rng: np.random.Generator) -> None:
    path, samples = tmp_path / "float.onnx", tmp_path / "samples.npz"
    path.write_bytes(FloatTransformer(rng).encoder().SerializeToString())
    np.savez(samples, x=rng.normal(size=(4, TOKENS, DEPTH)).astype(np.float32))
    status, out, _ = run("quantize", path, "-s", samples, "-o", tmp_path / "int8.onnx")
    assert status == 0
    # The input, the norm, the last projection in two shapes, and their sum.
    assert " tensors in int8, 5 in int16; " in out


def test_it_shows_the_error_of_each_tensor(run: Run, tmp_path: Path, model: Path, samples: Path):
    status, out, err = run("quantize", model, "-s", samples, "-o", tmp_path / "q.onnx", "--errors")
    assert status == 0, err
    rows = [line.split() for line in out.splitlines() if line.endswith("dB")]
    assert [row[1] for row in rows] == ["input", "Relu", "Conv"]
    assert all(row[2] == "8" and 20 < float(row[-2]) < 70 for row in rows)


def test_its_json_has_the_errors(run: Run, tmp_path: Path, model: Path, samples: Path) -> None:
    arguments = ("-s", samples, "-o", tmp_path / "q.onnx", "--errors", "--json")
    status, out, _ = run("quantize", model, *arguments)
    assert status == 0
    errors = json.loads(out)["errors"]
    assert [item["op"] for item in errors] == ["input", "Relu", "Conv"]
    assert all(0 < item["noise"] < item["signal"] / 100 for item in errors)


def test_it_reports_as_json(run: Run, model: Path, samples: Path) -> None:
    target = model.with_name("int8.onnx")
    arguments = ("--samples", samples, "-o", target, "--method", "minmax", "--json")
    status, out, _ = run("quantize", model, *arguments)
    assert status == 0
    counts = {"quantized_tensors": 3, "tensors_of_16_bits": 0, "operators": {"Conv": 2, "Relu": 1}}
    assert json.loads(out) == {"output": str(target), **counts}
    assert target.read_bytes() == daedal.quantize(model, np.load(samples), method="minmax")


@pytest.mark.slow
def test_it_tells_which_weights_have_4_bits(run: Run, model: Path, samples: Path) -> None:
    target = model.with_name("int4.onnx")
    arguments = ("-s", samples, "-o", target, "--weights", "int4", "--weight-error", "0.5")
    status, out, err = run("quantize", model, *arguments)
    assert status == 0, err
    assert out.splitlines()[-1] == "1 of 2 layers have weights of 4 bits; they save 72 of 252 bytes"
    expected = daedal.quantize(model, np.load(samples), weights="int4", weight_error=0.5)
    assert target.read_bytes() == expected
    status, out, _ = run("quantize", model, *arguments, "--json")
    first, second = json.loads(out)["weights"]
    assert (first["bits"], first["count"], first["error"]) == (8, 108, None)
    assert (second["bits"], second["count"]) == (4, 144) and 0 < second["error"] < 0.5
    status, _, err = run("quantize", model, "-s", samples, "-o", target, "--weights", "int2")
    assert status == 2 and "weights must be int8 or int4, not 'int2'" in err


def test_bad_input_ends_in_one_sentence(run: Run, model: Path, samples: Path) -> None:
    target = model.with_name("int8.onnx")
    run("quantize", model, "--samples", samples, "-o", target)
    again = model.with_name("again.onnx")
    status, _, err = run("quantize", target, "--samples", samples, "-o", again)
    assert status == 2 and err.count("error:") == 1
    assert "a model must be in float to be quantized, and this one is quantized already" in err
    np.savez(samples, z=np.zeros(3))
    status, _, err = run("quantize", model, "--samples", samples, "-o", again)
    assert status == 2 and "'x' is missing" in err
    assert not again.exists()
