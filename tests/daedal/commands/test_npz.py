"""Arrays in .npz files: what is written is read, by numpy too; what is not arrays is refused."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from daedal.commands import npz
from daedal.isa.errors import ModelError, UserError


def test_round_trip(tmp_path: Path, rng: np.random.Generator) -> None:
    arrays = {
        "a": rng.normal(size=(2, 3)).astype(np.float32),
        "b/c:0": rng.integers(-128, 128, (4, 1), dtype=np.int8),
        "scalar": np.array(3.5),
    }
    npz.save_arrays(tmp_path / "x.npz", arrays)
    with np.load(tmp_path / "x.npz") as read:
        assert sorted(read.files) == sorted(arrays)
    found = npz.load_arrays(tmp_path / "x.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_equal_arrays_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("x.npz", "y.npz"):
        npz.save_arrays(tmp_path / name, {"a": np.arange(5)})
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()


def test_size_is_bounded_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz, "MAX_ARRAYS_BYTES", 1000)
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(10_000))
    with pytest.raises(ModelError, match="inputs must have at most 1000 bytes, not 80128"):
        npz.load_arrays(tmp_path / "x.npz")


def test_header_that_claims_too_much(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999,), }"
    text = header.encode().ljust(117) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", data)
    with pytest.raises(ModelError, match=r"a \.npz of arrays by name"):
        npz.load_arrays(tmp_path / "x.npz")


def test_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must lie in a writable folder"):
        npz.save_arrays(tmp_path / "none" / "x.npz", {"a": np.zeros(1)})
