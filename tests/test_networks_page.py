"""docs/networks.md: its commands and its Python run in order, and print what it shows."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from daedal.artifact.artifact import Artifact, Launch
from daedal.isa.program import Program
from daedal.isa.table import LoadMemory, Opcode
from daedal.runtime.layers import layer_tags
from tests.support.pages import make_checkout, run_line, run_page

PATH = Path(__file__).resolve().parent.parent / "docs" / "networks.md"
PAGE = PATH.read_text("utf-8")
FAULTY = "daedal run wrong.daedal --input images.npz --check mine.onnx || test $? -eq 1"


def plant_fault(folder: Path) -> None:
    """The artifact of the page with other signs in some weights of the layer conv3_linear."""
    artifact = Artifact.load(folder / "mine.daedal")
    (launch,) = artifact.launches
    tag = next(layer.tag for layer in launch.layers if layer.name == "conv3_linear")
    weights = next(
        item
        for item, layer in zip(launch.program.instructions, layer_tags(launch.program), strict=True)
        if layer == tag and item.opcode is Opcode.LOAD and LoadMemory(item.memory) is LoadMemory.WGT
    )
    parts = (
        replace(part, program=with_other_signs(part.program, weights.offset_beats))
        if isinstance(part, Launch)
        else part
        for part in artifact.parts
    )
    replace(artifact, parts=tuple(parts)).save(folder / "wrong.daedal")


def with_other_signs(program: Program, word: int) -> Program:
    """The weights of the first output channel for one block of inputs."""
    constants = bytearray(program.constants)
    at = word * program.variant.bus_bytes
    for k in range(at, at + program.variant.array.block_in):
        constants[k] ^= 0x80
    return replace(program, constants=bytes(constants))


@pytest.mark.heavy(10)
def test_the_page_shows_what_happens(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Words are the same, and numbers within 10 %, but for times."""
    folder = make_checkout(tmp_path)

    def run_with_fault() -> str:
        plant_fault(folder)
        printed = run_line(FAULTY, folder)
        return printed[printed.index("check: ") :]

    page, printed, far = run_page(PAGE, folder, 0.1, run_with_fault)
    assert "('probabilities', 'the variant has no tables, units.lane_reductions" in printed
    if request.config.getoption("--update-golden"):
        PATH.write_text(page, "utf-8")
        return
    assert not far, "the page shows other numbers: run pytest --update-golden"
    assert len(re.findall(r"```text", PAGE)) >= 5
