"""Programs of upstream TVM and VTA reproduce their expected bytes (../shared/vta-streams)."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from daedal.isa.variant import load_variant
from daedal.isa.verifier import verify
from daedal.isa.vta.translate import translate
from daedal.sim.functional.device import FunctionalDevice
from tests.support.vta import case_names, load_case, run_translation

VARIANT = load_variant("vta")
# Tens of thousands of instructions that move one tile each.
SLOW = {"dense_128x128x128.tophub"}


@pytest.fixture(scope="module")
def table() -> Iterator[list[str]]:
    """Lines that tests add; shown at the end with `pytest -s`."""
    lines = [f"{'case':26} {'VTA':>6} {'ours':>6} {'tokens':>6} {'seconds':>8}"]
    yield lines
    print("", *lines, sep="\n")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in case_names()],
)
def test_expected_bytes(shared: Path, name: str, table: list[str]) -> None:
    program = load_case(shared / "vta-streams" / name)
    begin = time.perf_counter()
    translation = translate(program, VARIANT)
    report = verify(translation.program)
    assert run_translation(translation, FunctionalDevice(VARIANT)) == []
    seconds = time.perf_counter() - begin
    known = {segment.address for segment in program.segments if segment.after is not None}
    assert known and known <= {place.segment.address for place in translation.places}
    table.append(
        f"{name:26} {len(program.instructions):6} {report.instructions:6} {report.tokens:6} "
        f"{seconds:8.2f}"
    )
