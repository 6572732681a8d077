"""Extents of windows, against the windows themselves."""

from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.graph.window_extents import output_extent, window_span

_SMALL = st.integers(1, 5)


@given(st.integers(1, 20), _SMALL, _SMALL, st.tuples(st.integers(0, 3), st.integers(0, 3)), _SMALL)
def test_windows_are_those_whose_taps_all_lie_inside(
    size: int, kernel: int, stride: int, pads: tuple[int, int], dilation: int
) -> None:
    padded = range(size + sum(pads))
    windows = [
        [start + tap * dilation for tap in range(kernel)]
        for start in padded[::stride]
        if start + (kernel - 1) * dilation in padded
    ]
    count = output_extent(size, kernel, stride, pads, dilation)
    assert max(count, 0) == len(windows)
    if windows:
        taps = [tap for window in windows for tap in window]
        assert window_span(count, kernel, stride, dilation) == max(taps) - min(taps) + 1
