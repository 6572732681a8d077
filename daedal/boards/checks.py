"""Tests a connected board: memory, random programs, a network.

What runs must leave the bytes of the functional simulator.

Input: a variant, how to reach the board, and a model. Output: a `BoardReport`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal import api
from daedal.artifact.artifact import Artifact
from daedal.boards.programs import ProgramsReport, run_random_programs
from daedal.common.errors import DeviceError, UserError
from daedal.compiler.frontend.reader import read_model
from daedal.devices import open_device, takes_option
from daedal.isa.variant import Variant
from daedal.runtime.devices.memory_check import MemoryReport, check_memory
from daedal.runtime.devices.register_device import RegisterDevice

__all__ = ["BoardReport", "NetworkReport", "check_board"]

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class NetworkReport:
    """A network that ran on the board: `wrong` tensors differ from the functional simulator's.

    `cycles` of each run; `failure` is what the device said instead of results.
    """

    model: str
    num_tensors: int
    wrong: tuple[str, ...]
    cycles: tuple[int, ...]
    failure: str = ""


@dataclass(frozen=True)
class BoardReport:
    """All that was found.

    `programs` is None where memory has faults, `network` also where programs have, or where no
    model was given.
    """

    variant: str
    memory_bytes: int
    memory: MemoryReport
    programs: ProgramsReport | None
    network: NetworkReport | None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        network = self.network
        return (
            self.programs is not None
            and self.programs.passed
            and (network is None or not (network.wrong or network.failure))
        )


def check_board(
    variant: Variant,
    device: str,
    options: Mapping[str, Any],
    model: Path | None,
    *,
    num_programs: int = 20,
    num_inputs: int = 2,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _step: None,
) -> BoardReport:
    """Test the machine of `variant` behind `device`, uart or uio, opened with `options`.

    The model is compiled first, so that what is wrong with it is said before the board is touched.
    Its inputs are random.

    Raises
    ------
    UserError
        The device is no board, the model cannot be compiled, or takes no inputs of known shapes.
    DeviceError
        The board cannot be reached, or stops answering.
    """
    progress("compiling the model")
    artifact = None if model is None else api.compile(model, variant)
    kinds = {} if model is None else _element_types(model)
    if takes_option(device, "accepts_faults"):
        options = {**options, "accepts_faults": True}
    board = open_device(device, variant, **options)
    if not isinstance(board, RegisterDevice):
        raise UserError(f"board-test needs a board behind --device uart or uio, not {device!r}")
    try:
        memory = check_memory(board.port, board.memory, seed=seed, progress=progress)
        if board.memory_fault is not None:
            memory = replace(memory, faults=(*memory.faults, board.memory_fault))
        programs, network = None, None
        if not memory.faults:
            seeds = range(seed, seed + num_programs)
            programs = run_random_programs(board, seeds, progress=progress)
        if artifact is not None and programs is not None and programs.passed:
            inputs = _inputs(artifact, kinds, num_inputs, seed)
            network = _run(str(model), artifact, inputs, board, progress)
        return BoardReport(variant.name, len(board.memory), memory, programs, network)
    finally:
        board.close()


def _element_types(model: Path) -> Mapping[str, np.dtype[Any]]:
    """Element types of the model's inputs."""
    return {
        item.name: onnx.helper.tensor_dtype_to_np_dtype(item.type.tensor_type.elem_type)
        for item in read_model(model).graph.input
    }


def _inputs(
    artifact: Artifact, kinds: Mapping[str, np.dtype[Any]], count: int, seed: int
) -> Arrays:
    """Random inputs, `count` along axis 0 for each of the model's."""
    rng = np.random.default_rng(seed)
    return {
        item.name: _random(rng, (count * item.shape[0], *item.shape[1:]), kinds[item.name])
        for item in artifact.inputs
    }


def _random(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return rng.normal(size=shape).astype(dtype)


def _run(
    model: str,
    artifact: Artifact,
    inputs: Arrays,
    board: RegisterDevice,
    progress: Callable[[str], None],
) -> NetworkReport:
    expected = api.simulate(artifact, inputs).tensors

    def report(done: int, total: int) -> None:
        progress(f"running {model}: {done} of {total} done")

    try:
        result = api.simulate(artifact, inputs, device=board, progress=report)
    except DeviceError as error:
        return NetworkReport(model, len(expected), (), (), str(error))
    wrong = [
        name
        for name, tensor in expected.items()
        if result.tensors[name].tobytes() != tensor.tobytes()
    ]
    cycles = tuple(int(profile.cycles or 0) for profile in result.profiles)
    return NetworkReport(model, len(expected), tuple(wrong), cycles)
