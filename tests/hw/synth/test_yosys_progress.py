"""Steps that Yosys announces, and the estimate of what is left."""

from daedal.hw.synth.yosys_progress import YosysProgress


def test_the_rest_is_estimated_from_the_time_so_far_once_a_tenth_is_done() -> None:
    times = iter([1000.0, 1010.0, 1060.0, 1400.0])
    progress = YosysProgress("step: ", {"coarse": 0.05, "map": 0.2, "cells": 0.8}, times.__next__)
    steps = ("begin (1 of 4)", "coarse (2 of 4)", "map (3 of 4)", "cells (4 of 4)")
    said = [progress.step_of(f"step: {step}\n") for step in steps]
    assert said == [
        "begin (1 of 4)",
        "coarse (2 of 4)",
        "map (3 of 4, about 4 minutes left)",
        "cells (4 of 4, about 2 minutes left)",
    ]
    assert progress.step_of("Warning: begin (1 of 4)") is None


def test_steps_without_a_known_share_have_no_estimate() -> None:
    progress = YosysProgress("step: ", {})
    assert progress.step_of("step: map_luts (7 of 8)") == "map_luts (7 of 8)"
