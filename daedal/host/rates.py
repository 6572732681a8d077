"""`load_host_rates`: the host's throughput, as assumed, as measured here, or from a file.

Decisions about what runs on the host follow from these rates, so programs differ where the rates
do. That is why the default is fixed, and measured rates are kept: in the user's cache, and as a
file that other machines can compile with.
"""

import dataclasses
import json
import math
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from daedal.common.errors import UserError
from daedal.common.inputs import read_input
from daedal.compiler.artifact.host_code import best_levels
from daedal.compiler.model import compile_for_cpu
from daedal.compiler.targets.crossings import DEFAULT_HOST, HostRates
from daedal.compiler.version import compiler_version
from daedal.isa.tensor import TensorSpec, pack_tensor, unpack_tensor
from daedal.native.caches.kept_files import KeptFiles
from daedal.native.caches.place import CACHES, cache_folder
from daedal.native.cpu import host_cpu
from daedal.runtime.host_parts import load_host_part

__all__ = ["DEFAULT", "MEASURED", "AnyHostRates", "load_host_rates", "measure_host_rates"]

AnyHostRates: TypeAlias = HostRates | str | Path
"""What `load_host_rates` takes."""

DEFAULT, MEASURED = "default", "measured"
"""Names of rates that are no files."""

_MHZ = 100.0
"""Clock of the accelerator, of which the rates count cycles."""

_LIMIT_BYTES = 10_000
_REPEATS = 7
_CHANNELS = 64
_SMALL, _LARGE = 4, 48
"""Heights and widths of the maps that are measured."""

_CONV = 16
_TAPS = 3


def load_host_rates(source: AnyHostRates, folder: Path | None = None) -> HostRates:
    """The rates that `source` names: ``default``, ``measured``, or a JSON file of rates; rates are
    returned as they are.

    The rates of this machine are measured once for each processor and version of the kit, and kept
    in `folder`, by default in the user's cache. They are written as a file of rates is.

    Raises UserError for a file that is none.
    """
    if isinstance(source, HostRates):
        return source
    if source == DEFAULT:
        return DEFAULT_HOST
    if source != MEASURED:
        path = Path(source)
        return _parsed(read_input(path, "host rates", _LIMIT_BYTES), path)
    files = KeptFiles(
        cache_folder("host_rates") if folder is None else folder, CACHES["host_rates"].limit
    )
    name = _kept_name()
    found = files.read(name)
    try:
        if found is not None:
            return _parsed(found, files.folder / name)
    except UserError:
        pass  # it is damaged, and written again
    rates = measure_host_rates()
    files.write(name, (json.dumps(dataclasses.asdict(rates), indent=1) + "\n").encode())
    return rates


def _kept_name() -> str:
    """Of the file of this machine's measured rates."""
    cpu = host_cpu()
    key = "\n".join((cpu.triple, cpu.name, cpu.feature_text, compiler_version()))
    return f"{cpu.name}-{sha256(key.encode()).hexdigest()[:16]}.json"


def measure_host_rates() -> HostRates:
    """Measure this machine, in a fraction of a second besides compiling.

    The difference between two sizes of a quantized sum tells the time of an element, without that
    of a call; the rest of a convolution's time is that of its products. What it takes to launch is
    not measured, since it depends on the board.
    """
    small, large = _seconds(_sum_model(_SMALL)), _seconds(_sum_model(_LARGE))
    num_elements = _CHANNELS * (_LARGE**2 - _SMALL**2)
    per_element = max(large - small, large / 2) / num_elements
    macs = (_CHANNELS * _CONV * _TAPS) ** 2
    conv = _seconds(_conv_model())
    products = conv - small - _CHANNELS * _CONV**2 * per_element
    return HostRates(
        launch_cycles=DEFAULT_HOST.launch_cycles,
        bytes_per_cycle=_per_cycle(*_transfer()),
        macs_per_cycle=_per_cycle(macs, max(products, conv / 4)),
        elements_per_cycle=_per_cycle(1, per_element),
    )


def _per_cycle(amount: float, seconds: float) -> float:
    """With three significant digits, since more would be noise."""
    return float(f"{amount / seconds / (_MHZ * 1e6):.3g}")


def _transfer() -> tuple[int, float]:
    """Bytes that the driver packs and unpacks, and the seconds that it takes."""
    shape = (1, _CHANNELS, _LARGE, _LARGE)
    spec = TensorSpec("x", 0, 0, shape, element_bits=8, batch=1, block=16)
    values = np.zeros(shape, np.int64)
    data = pack_tensor(spec, values)
    taken = _best(lambda: pack_tensor(spec, values)) + _best(lambda: unpack_tensor(spec, data))
    return 2 * len(data), taken


def _seconds(model: onnx.ModelProto) -> float:
    """The time of a compiled model, on zeros."""
    artifact = compile_for_cpu(model.SerializeToString(), cpu_levels=best_levels())
    (part,) = artifact.host_parts
    loaded = load_host_part(part, "the model that is measured")
    feeds = loaded.zeros()
    return _best(lambda: loaded.run(feeds))


def _best(run: Callable[[], object]) -> float:
    """Seconds of the shortest of several runs, after one that is not counted."""
    run()
    taken = []
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        run()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def _sum_model(size: int) -> onnx.ModelProto:
    """The sum of two int8 maps (1, 64, size, size), requantized."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["x_f"]),
        helper.make_node("DequantizeLinear", ["z", "scale", "zero"], ["z_f"]),
        helper.make_node("Add", ["x_f", "z_f"], ["y_f"]),
        helper.make_node("QuantizeLinear", ["y_f", "scale", "zero"], ["y"]),
    ]
    return _model(nodes, ["x", "z"], size, {})


def _conv_model() -> onnx.ModelProto:
    """A 3x3 convolution of an int8 map (1, 64, 16, 16), requantized."""
    weights = np.ones((_CHANNELS, _CHANNELS, _TAPS, _TAPS), np.int8)
    pads = [_TAPS // 2] * 4
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["x_f"]),
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["w_f"]),
        helper.make_node("Conv", ["x_f", "w_f"], ["y_f"], pads=pads),
        helper.make_node("QuantizeLinear", ["y_f", "scale", "zero"], ["y"]),
    ]
    return _model(nodes, ["x"], _CONV, {"w": weights})


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[str],
    size: int,
    constants: dict[str, npt.NDArray[Any]],
) -> onnx.ModelProto:
    values = {"scale": np.float32(0.05), "zero": np.int8(3), **constants}
    shape = (1, _CHANNELS, size, size)
    graph = helper.make_graph(
        nodes,
        "rates",
        [helper.make_tensor_value_info(name, TensorProto.INT8, shape) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.INT8, shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _parsed(data: bytes, path: Path) -> HostRates:
    names = [field.name for field in dataclasses.fields(HostRates)]
    try:
        found = json.loads(data)
        if not isinstance(found, dict) or sorted(found) != sorted(names):
            raise ValueError
        return HostRates(**{name: _number(found[name]) for name in names})
    except (ValueError, OverflowError, RecursionError) as error:
        raise UserError(
            f"host rates must be a JSON object with numbers for {', '.join(names)}, and "
            f"{str(path)!r} is none; write one, or use {DEFAULT!r} or {MEASURED!r}"
        ) from error


def _number(value: Any) -> float:
    """A finite number. Raises ValueError for anything else."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError
    return cast(float, value)
