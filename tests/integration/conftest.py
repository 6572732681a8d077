"""What the tests of whole networks share: the RTL of `vta`, built once, kept between sessions."""

import pytest

from daedal.isa.errors import ToolError
from daedal.isa.variant import load_variant
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.toolchain import find_compiler, find_make, find_verilator
from tests.support.rtl import rtl_device


@pytest.fixture(scope="session")
def vta_rtl() -> RtlDevice:
    """The RTL of variant `vta` on Verilator, or a skip that says what is missing.

    Emitting its Verilog takes many seconds: tests that use this belong to the xdist group
    ``vta-rtl``, so that one worker does it once.
    """
    for find in (find_verilator, find_compiler, find_make):
        try:
            find()
        except ToolError as error:
            pytest.skip(str(error))
    return rtl_device(load_variant("vta"))
