"""What results show of themselves: a line, not their contents."""

from pathlib import Path

import numpy as np
import pytest

import daedal

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.mark.heavy(3)
def test_results_are_lines(rng: np.random.Generator) -> None:
    artifact = daedal.compile(DIGITS, "tiny")
    images = {"input": rng.normal(size=(2, 1, 8, 8)).astype(np.float32)}
    profile = daedal.profile(artifact, timeline=True)
    check = daedal.check_layers(artifact, DIGITS, images)
    inspection = daedal.inspect(artifact)
    for item, text in (
        (profile, f"on tiny, timing with memory ddr: 7 layers, {profile.cycles:,} cycles>"),
        (check, f"<LayerCheck: {len(check.tensors)} tensors, passed>"),
        (check.result, "<SimulationResult: probabilities float32[2,10]; 2 runs>"),
        (inspection, f"<Inspection of {artifact!r}: "),
    ):
        assert text in repr(item), repr(item)
        assert len(repr(item)) < 200 and "\n" not in repr(item)
