"""Channel vectors in weight rows: which parts of a tensor are one run of groups."""

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.vectors import run_of_groups


@pytest.mark.parametrize(
    ("begin", "extents", "run"),
    [
        ((0, 0, 0), (4, 3, 9), (0, 12)),
        ((1, 0, 0), (2, 3, 9), (3, 6)),
        ((2, 1, 0), (1, 2, 9), (7, 2)),
        ((3, 2, 0), (1, 1, 9), (11, 1)),
    ],
)
def test_parts_of_the_outermost_dimension_that_is_tiled(begin, extents, run):
    assert run_of_groups("w", (4, 3, 9), begin, extents) == run


@pytest.mark.parametrize("extents", [(2, 2, 9), (2, 1, 9), (1, 1, 3), (2, 3, 3), (2, 2, 3)])
def test_parts_with_gaps_are_refused(extents):
    """Groups left out between two that are loaded, or taps left out of a group."""
    with pytest.raises(ScheduleError) as error:
        run_of_groups("w", (4, 3, 9), (0, 0, 0), extents)
    assert str(error.value) == (
        f"channel vectors must be loaded in one run, not as a box of {list(extents)} out of "
        "[4, 3, 9] ('w'); tile the outermost dimension alone"
    )
