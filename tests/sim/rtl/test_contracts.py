"""A broken contract ends a simulation with its rule, on every simulator, and nothing else."""

from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from daedal.common.errors import DeviceError
from daedal.hw.contracts import contract
from daedal.hw.emit import emit_component
from daedal.hw.family import Portable
from daedal.sim.rtl.build import Built, build_simulator
from daedal.sim.rtl.contracts import broken_contract
from daedal.sim.rtl.job import Job
from daedal.sim.rtl.run import run_jobs
from tests.sim.rtl.conftest import CACHE, WORDS

pytestmark = pytest.mark.rtl

RULE = 'nothing must be bad: "not even 100 % of it"'
GOOD, BAD = (
    Job(
        start=(0, 1),
        writes=((12, 0), (16, 64), (20, 1), (24, 1), (28, products)),
        cycle_limit=10_000,
    )
    for products in (3, 77)
)


class Planted(wiring.Component):
    """A contract that the job with 77 products breaks."""

    products: In(32)

    def elaborate(self, platform: Portable | None) -> Module:
        m = Module()
        contract(m, platform, self.products != 77, RULE)
        return m


def planted(standin_verilog: str, *, assertions: bool) -> str:
    """The stand-in with a block of ours inside."""
    block = emit_component(Planted(), "planted", "a contract", assertions=assertions)
    inside = "  planted block (.clk(ap_clk), .rst(!ap_rst_n), .products(products));\nendmodule"
    return standin_verilog.replace("endmodule", inside, 1) + block


@pytest.fixture
def built(simulator: str, standin_verilog: str) -> Built:
    return build_simulator(
        planted(standin_verilog, assertions=True),
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=CACHE,
        simulator=simulator,
    )


def test_a_broken_contract_ends_the_run_with_its_rule(built: Built, tmp_path: Path) -> None:
    (result,) = run_jobs(built, [GOOD], work_dir=tmp_path)
    assert not result.timed_out
    with pytest.raises(DeviceError) as caught:
        run_jobs(built, [GOOD, BAD], work_dir=tmp_path, limit_seconds=60)
    assert str(caught.value) == (
        f"the machine must keep its own contracts; it broke one in harness.dut.block: {RULE}"
    )
    # This process is well, and so is the next run in it.
    assert run_jobs(built, [GOOD], work_dir=tmp_path)[0].cycles == result.cycles


def test_a_shipped_text_has_no_assertions(standin_verilog: str) -> None:
    assert "$fatal(1, " in planted(standin_verilog, assertions=True)
    assert "$fatal" not in planted(standin_verilog, assertions=False)


def test_other_ends_are_not_taken_for_contracts() -> None:
    assert broken_contract("- source0.v:9: Verilog $finish") is None
    assert broken_contract("%Error: x.v:3: Verilog $stop") is None
