"""The clock generator's dividers stay within the data sheet and come near what is wanted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import UserError
from daedal.hw.boards.pll import pll_settings


@given(
    oscillator=st.sampled_from([10_000_000, 12_000_000, 25_000_000, 100_000_000]),
    wanted=st.floats(3.2e6, 400e6),
)
def test_dividers_are_legal_and_the_clock_is_never_too_fast(oscillator: int, wanted: float) -> None:
    """Source of the limits: Lattice FPGA-DS-02012, "sysCLOCK PLL Timing"."""
    found = pll_settings(oscillator, wanted)
    phase = oscillator / found.input_divider
    vco = phase * found.feedback_divider * found.loop_divider
    dividers = (found.input_divider, found.feedback_divider, found.loop_divider)
    assert all(1 <= divider <= 128 for divider in (*dividers, found.output_divider))
    assert 10e6 <= phase <= 400e6
    assert 400e6 <= vco <= 800e6
    # The loop's output feeds back: it must be the input's rate.
    assert vco / found.loop_divider == pytest.approx(phase * found.feedback_divider)
    assert found.output_hz == int(vco / found.output_divider)
    assert 0.8 * wanted < found.output_hz <= wanted
    if oscillator == 25_000_000 and wanted < 140e6:
        assert found.output_hz > 0.97 * wanted


@pytest.mark.parametrize("mhz", [25, 80, 90, 95, 100, 105, 110, 120, 130])
def test_round_frequencies_are_met(mhz: int) -> None:
    assert pll_settings(25_000_000, mhz * 1e6).output_hz == mhz * 1_000_000


@given(wanted=st.floats(3.2e6, 200e6), phase=st.floats(0, 359.99))
def test_clocks_for_a_memory_have_twice_the_frequency(wanted: float, phase: float) -> None:
    found = pll_settings(25_000_000, wanted, phase)
    assert 0.8 * wanted < found.output_hz <= wanted
    assert 400e6 <= found.vco_hz <= 800e6
    assert found.output_divider % 2 == 0
    # CPHASE has seven bits; of it and FPHASE come the phases.
    assert found.lag is not None and found.output_divider // 2 - 1 + found.lag // 8 < 128
    away = abs(found.chip_phase - phase)
    assert min(away, 360 - away) <= 360 / (8 * found.output_divider / 2) / 2 + 1e-6


def test_a_phase_beyond_a_turn_is_refused() -> None:
    with pytest.raises(UserError, match="must be 0 to below 360 degrees, not 360"):
        pll_settings(25_000_000, 90e6, 360)


@pytest.mark.parametrize("hertz", [1e6, 401e6])
def test_what_the_pll_does_not_reach_is_refused(hertz: float) -> None:
    with pytest.raises(
        UserError, match=rf"a clock must be 3\.125 to 400 MHz .*, not {hertz / 1e6:g}"
    ):
        pll_settings(25_000_000, hertz)
