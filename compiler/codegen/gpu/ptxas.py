"""`assembled`: PTX to a cubin, machine code of a GPU, by NVIDIA's assembler where it is installed.

The wheel ``nvidia-cuda-nvcc`` has it (extra ``gpu``), and so has every CUDA toolkit. It also says
what a kernel needs: registers, and memory for those that it has not.
"""

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from daedal.common.errors import ToolError

__all__ = ["Cubin", "assembled", "find_ptxas", "ptxas_version"]

_SECONDS = 120


@dataclass(frozen=True)
class Cubin:
    """Machine code of a kernel, and what a thread of it needs.

    Attributes
    ----------
    registers : of 32 bits.
    spilled_bytes : stored and loaded again as there were too few registers.
    stack_bytes : of memory for arrays that are in no registers.
    warnings : of the assembler.
    """

    data: bytes
    registers: int
    spilled_bytes: int
    stack_bytes: int
    warnings: tuple[str, ...]


@lru_cache(maxsize=1)
def find_ptxas() -> Path | None:
    """The assembler, of the wheel or on the path; None where it is not installed."""
    for folder in _wheel_folders():
        found = folder / "bin" / "ptxas"
        if found.is_file():
            return found
    path = shutil.which("ptxas")
    return None if path is None else Path(path)


@lru_cache(maxsize=1)
def ptxas_version() -> str | None:
    """Of the assembler that is found; None where it is not installed."""
    tool = find_ptxas()
    if tool is None:
        return None
    done = subprocess.run(
        [str(tool), "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    found = re.search(r"release \d+\.\d+, V([\d.]+)", done.stdout)
    return found.group(1) if found else "unknown"


def _wheel_folders() -> Iterator[Path]:
    try:
        found = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return
    for place in (found and found.submodule_search_locations) or ():
        yield from sorted(Path(place).glob("cu*"), reverse=True)
        yield from sorted(Path(place).glob("cuda_nvcc"))


def assembled(ptx: str, architecture: str) -> Cubin:
    """The machine code of `ptx`. Raises ToolError without the assembler, or where it refuses."""
    tool = find_ptxas()
    if tool is None:
        raise ToolError(
            "machine code for GPUs needs ptxas, which is not installed; install the extra 'gpu', "
            "or ship PTX, which drivers compile"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="ascii")
        command = [str(tool), f"-arch={architecture}", "-v", "-O3", str(source), "-o", str(target)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        said = done.stdout + done.stderr
        if done.returncode:
            first = next((line for line in said.splitlines() if "error" in line), said[:200])
            raise ToolError(f"ptxas must assemble a kernel for {architecture}, and says: {first}")
        return _cubin(target.read_bytes(), said)


def _cubin(data: bytes, said: str) -> Cubin:
    spills = [int(number) for number in re.findall(r"(\d+) bytes spill", said)]
    stacks = [int(number) for number in re.findall(r"(\d+) bytes stack frame", said)]
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", said)]
    warnings = tuple(line for line in said.splitlines() if "warning" in line.lower())
    return Cubin(data, max(registers, default=0), sum(spills), sum(stacks), warnings)
