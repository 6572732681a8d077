"""Data of models in other files: of the model's folder alone."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.common.errors import ModelError
from daedal.compiler.frontend import external
from daedal.compiler.frontend.reader import read_model

WEIGHTS = np.arange(6, dtype=np.float32)


def saved(folder: Path, **entries: str | None) -> Path:
    """``x + w`` with w in data.bin from byte 4; `entries` replace those of the tensor."""
    folder.mkdir(exist_ok=True)
    (folder / "data.bin").write_bytes(b"head" + WEIGHTS.tobytes())
    tensor = numpy_helper.from_array(WEIGHTS, "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    given = {"location": "data.bin", "offset": "4", "length": "24", **entries}
    for key, value in given.items():
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [6]) for name in "xy")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "sum", [x], [y], [tensor]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return folder / "model.onnx"


def read(path: Path) -> np.ndarray:
    (tensor,) = read_model(path).graph.initializer
    return numpy_helper.to_array(tensor)


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(path)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_data_is_read(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read(saved(tmp_path)), WEIGHTS)
    np.testing.assert_array_equal(read(saved(tmp_path, length=None)), WEIGHTS)
    (tmp_path / "sub").mkdir()
    os.replace(tmp_path / "data.bin", tmp_path / "sub" / "w")
    path = saved(tmp_path, location="./sub/w")
    os.remove(tmp_path / "data.bin")
    np.testing.assert_array_equal(read(path), WEIGHTS)


def test_a_relative_path_and_what_onnx_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load(saved(tmp_path))
    options = {"all_tensors_to_one_file": True, "location": "all", "size_threshold": 0}
    onnx.save(model, tmp_path / "again.onnx", save_as_external_data=True, **options)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(read(Path("again.onnx")), WEIGHTS)


def test_it_compiles_and_runs(tmp_path: Path) -> None:
    artifact = daedal.compile(saved(tmp_path), target="cpu")
    found = daedal.simulate(artifact, {"x": np.ones(6, np.float32)}).outputs["y"]
    np.testing.assert_array_equal(found, WEIGHTS + 1)


def test_bytes_have_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = saved(tmp_path).read_bytes()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="'w' is external data; give the model's path"):
        read_model(data)


OUTSIDE = ["../data.bin", "/etc/hostname", "sub/../../data.bin", "..", "", ".", "a\\b", "C:/x"]
OUTSIDE += ["data\n.bin", "data.bin\0"]


@pytest.mark.parametrize("location", OUTSIDE)
def test_outside(tmp_path: Path, location: str) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(100))
    assert refusal(saved(tmp_path / "inner", location=location)).startswith(
        "external data must lie in the folder of its model, and tensor 'w' names "
    )


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_links_that_lead_outside(tmp_path: Path, kind: str) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(100))
    path = saved(tmp_path / "inner", location="link" if kind == "file" else "link/data.bin")
    (path.parent / "link").symlink_to(tmp_path / "data.bin" if kind == "file" else tmp_path)
    assert "must lie in the folder of its model" in refusal(path)


def test_a_link_that_stays_inside(tmp_path: Path) -> None:
    path = saved(tmp_path, location="link")
    (tmp_path / "link").symlink_to("data.bin")
    np.testing.assert_array_equal(read(path), WEIGHTS)


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "missing": ({"location": "none.bin"}, "external data must be a readable file"),
    "short": ({"offset": "5"}, "must have 24 bytes at 5 for tensor 'w', and 'data.bin' is shorter"),
    "length": ({"length": "20"}, "must be as long as its tensor, 24 bytes for 'w', not 20"),
    "negative": ({"offset": "-4"}, "must have an offset and a length in bytes, not '-4'"),
    "huge": ({"offset": "9" * 30}, "must have an offset and a length in bytes"),
    "text": ({"offset": "four"}, "must have an offset and a length in bytes, not 'four'"),
    "folder": ({"location": "sub"}, "it is a folder"),
    "pipe": ({"location": "pipe"}, "it is a pipe"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data(tmp_path: Path, name: str) -> None:
    entries, message = WRONG[name]
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert message in refusal(saved(tmp_path, **entries))


def change(path: Path, edit: Callable[[TensorProto], None]) -> Path:
    model = onnx.ModelProto.FromString(path.read_bytes())
    edit(model.graph.initializer[0])
    path.write_bytes(model.SerializeToString())
    return path


def test_types_without_a_size(tmp_path: Path) -> None:
    for kind in (TensorProto.STRING, TensorProto.UNDEFINED, 99):
        path = change(saved(tmp_path), lambda tensor, kind=kind: setattr(tensor, "data_type", kind))
        assert "external data must be numbers, and tensor 'w' is of another type" in refusal(path)


def test_too_much(tmp_path: Path) -> None:
    path = change(saved(tmp_path), lambda tensor: tensor.dims.extend([1 << 40]))
    assert "must have at most" in refusal(path) and "in all its files" in refusal(path)
    model = onnx.ModelProto.FromString(saved(tmp_path).read_bytes())
    with pytest.raises(ModelError, match="at most 23 bytes in all its files"):
        external.load_external_data(model, tmp_path, 23)
