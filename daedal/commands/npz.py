"""Arrays by name in .npz files: inputs and outputs of `daedal run`. Files are untrusted."""

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ModelError
from daedal.common.files import write_atomically
from daedal.common.inputs import open_input

__all__ = ["MAX_ARRAYS_BYTES", "load_arrays", "save_arrays"]

MAX_ARRAYS_BYTES = 1 << 32
_SUFFIX = ".npy"


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Arrays of a .npz file by name.

    Raises ModelError for a file that cannot be read, is no .npz of arrays, is too large, or holds
    pickled objects.
    """
    with open_input(path, "inputs", ModelError) as file:
        return _read(file, path)


def _read(file: BinaryIO, path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        _check_size(os.fstat(file.fileno()).st_size, path)
        with zipfile.ZipFile(file) as archive:
            _check_size(sum(item.file_size for item in archive.infolist()), path)
            return {
                item.filename.removesuffix(_SUFFIX): _array(archive.read(item))
                for item in archive.infolist()
            }
    except ModelError:
        raise
    except Exception as error:  # whatever a damaged archive or header makes zipfile and numpy raise
        raise ModelError(
            f"inputs must be a .npz of arrays by name, without pickled objects; {str(path)!r} is "
            "not; write it with numpy.savez"
        ) from error


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a .npz file. Raises UserError where the folder cannot be written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}{_SUFFIX}"), content.getvalue())
    write_atomically(path, buffer.getvalue())


def _check_size(size_bytes: int, path: Path) -> None:
    if size_bytes > MAX_ARRAYS_BYTES:
        raise ModelError(
            f"inputs must have at most {MAX_ARRAYS_BYTES} bytes, not {size_bytes} "
            f"({str(path)!r}); run fewer items at once"
        )


def _array(data: bytes) -> npt.NDArray[Any]:
    return np.asarray(np.lib.format.read_array(io.BytesIO(data), allow_pickle=False))
