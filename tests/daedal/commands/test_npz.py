"""Arrays in .npz files: what is written is read, by numpy too; what is not arrays is refused."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from daedal.commands import npz
from daedal.common.errors import ModelError, UserError


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


def npz_with_header(path: Path, header: str) -> Path:
    """A .npz of one array without data whose header says that."""
    text = header.encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        size = len(text).to_bytes(2, "little")
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + size + text)
    return path


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 70,), }",
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 70},), }}",
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 62}, {1 << 62}), }}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True, None), }",
        "{'descr': ('<f4', ('<f4', 3)), 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<q999', 'fortran_order': 3, 'shape': (1,), }",
        "{'descr': 'V' , 'shape': (1,), }",
        "{[]: 3}",
        "{" * 400,
        "-" * 9000,
        "(" * 90 + ")" * 90,
    ],
)
def test_headers_that_claim_what_cannot_be(tmp_path: Path, header: str) -> None:
    with pytest.raises(ModelError, match=r"a \.npz of arrays by name"):
        npz.load_arrays(npz_with_header(tmp_path / "x.npz", header))


def test_flipped_bits(tmp_path: Path) -> None:
    """Read as what was written, or refused; the checksums of the zip find those in the data."""
    np.savez(tmp_path / "x.npz", a=np.arange(3))
    data = (tmp_path / "x.npz").read_bytes()
    read = 0
    for flip in range(0, 8 * len(data), 3):
        changed = bytearray(data)
        changed[flip // 8] ^= 1 << flip % 8
        (tmp_path / "x.npz").write_bytes(changed)
        try:
            found = npz.load_arrays(tmp_path / "x.npz")
        except ModelError as error:
            assert str(error).isprintable()
        else:
            assert [array.tolist() for array in found.values()] == [[0, 1, 2]]
            read += 1
    assert 0 < read < 8 * len(data) / 6


def test_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="an output must be a file in a folder that exists"):
        npz.save_arrays(tmp_path / "none" / "x.npz", {"a": np.zeros(1)})
