"""A path of nextpnr's report in the words of the design."""

import pytest

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.hierarchy import Hierarchy
from daedal.hw.synth.paths import modules_of, read_path

HIERARCHY = Hierarchy(frozenset({"gemm", "gemm.dots", "acc"}))


def step(kind: str, delay: float, cell: str, port: str, net: str = "") -> dict[str, object]:
    ends = {"from": {"cell": cell, "port": "x"}, "to": {"cell": cell, "port": port}}
    return {"type": kind, "delay": delay, **ends, **({"net": net} if net else {})}


def test_a_path() -> None:
    path = read_path(
        {
            "from": "posedge clk",
            "to": "posedge clk",
            "path": [
                step("clk-to-q", 0.5, "gemm.dots.sum_TRELLIS_FF_Q_5", "Q"),
                step("routing", 1.0, "gemm.dots.sum_TRELLIS_FF_Q_5", "Q", "gemm.dots.sum[5]"),
                step("logic", 0.25, "\\$nextpnr_CCU2C_7$CCU2_COMB0".lstrip("\\"), "FCO"),
                step("logic", 0.125, "$total_CCU2C_S0$CCU2_COMB1", "FCO"),
                step("logic", 0.5, "$total_CCU2C_S0$CCU2_COMB1", "F"),
                step("routing", 2.0, "acc.x_TRELLIS_FF_Q_DI_PFUMX_Z", "D", "\\$total[3]"),
                step("logic", 0.25, "acc.x_TRELLIS_FF_Q_DI_PFUMX_Z", "OFX"),
                step("setup", 0.0, "acc.x_TRELLIS_FF_Q", "DI"),
            ],
        },
        HIERARCHY,
    )
    assert (path.start, path.end) == ("gemm.dots.sum", "acc.x")
    assert path.modules == ("gemm.dots", "", "acc")
    assert path.route == f"gemm.dots -> {TOP_MODULE} -> acc"
    assert path.ends == ("clk", "clk", "gemm.dots", "acc")
    assert path.signals == ("gemm.dots.sum[5]", "$total[3]")
    assert path.levels == 1  # the carry chain; the multiplexer lies in the slice of its tables
    assert (path.logic_ns, path.routing_ns, path.delay_ns) == (1.625, 3.0, 4.625)
    assert path.sentence == (
        f"gemm.dots -> {TOP_MODULE} -> acc: from gemm.dots.sum to acc.x, 4.62 ns "
        "(1.62 logic, 3.00 routing, 1 level)"
    )


@pytest.mark.parametrize("added", ["$PACKER_VCC", "$nextpnr_CCU2C_101$CCU2_COMB0"])
def test_cells_of_place_and_route_lie_in_no_module(added: str) -> None:
    assert modules_of(["acc.x", added, "acc.y", added], HIERARCHY) == ("acc",)
    assert modules_of(["acc.x", "$signal$30"], HIERARCHY) == ("acc", "")
