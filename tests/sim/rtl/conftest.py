"""Simulators for these tests: built once, kept between sessions, found by content."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.correctness.rtl_launches import CACHE
from daedal.common.errors import ToolError
from daedal.sim.rtl.build import (
    COCOTB_SIMULATORS,
    SIMULATORS,
    Built,
    build_protocol_simulator,
    build_simulator,
)
from daedal.sim.rtl.toolchain import find_compiler, find_icarus, find_make, find_verilator

HERE = Path(__file__).resolve().parent
WORDS = 1 << 16  # of 8 bytes


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    return CACHE


@pytest.fixture(scope="session")
def standin_verilog() -> str:
    """The accelerator's pins on a copy engine."""
    return (HERE / "standin.v").read_text()


def with_slow_verilator(names: Sequence[str]) -> list[Any]:
    """Each simulator. Verilator under cocotb builds for as long as `native`, which runs always."""
    slow = {"verilator": [pytest.mark.slow]}
    return [pytest.param(name, marks=slow.get(name, [])) for name in names]


NEEDED: dict[str, tuple[Callable[[], object], ...]] = {
    "native": (find_verilator, find_compiler, find_make),
    "verilator": (find_verilator, find_compiler, find_make),
    "icarus": (find_icarus,),
}


def available(simulator: str) -> str:
    """Return `simulator`, or skip with the sentence that says what it lacks."""
    for find in NEEDED[simulator]:
        try:
            find()
        except ToolError as error:
            pytest.skip(str(error))
    return simulator


@pytest.fixture(params=with_slow_verilator(SIMULATORS))
def simulator(request: pytest.FixtureRequest) -> str:
    """Each simulator in turn."""
    return available(request.param)


@pytest.fixture(params=with_slow_verilator(COCOTB_SIMULATORS))
def cocotb_simulator(request: pytest.FixtureRequest) -> str:
    """Each simulator that cocotb drives in turn."""
    return available(request.param)


@pytest.fixture
def icarus() -> str:
    """The simulator that builds at once, where the choice makes no difference."""
    return available("icarus")


@pytest.fixture
def native() -> str:
    """The simulator that is a library, for tests of designs other than the machine."""
    return available("native")


@pytest.fixture
def standin(simulator: str, standin_verilog: str) -> Built:
    """The stand-in inside the harness."""
    return build_simulator(
        standin_verilog,
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=CACHE,
        simulator=simulator,
    )


@pytest.fixture
def bare_standin(cocotb_simulator: str, standin_verilog: str) -> Built:
    """The stand-in by itself, for cocotbext-axi."""
    return build_protocol_simulator(
        standin_verilog,
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=CACHE,
        simulator=cocotb_simulator,
    )
