"""What the objects of an artifact show of themselves: a line, not their contents."""

from pathlib import Path

import daedal

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"


def test_an_artifact_is_a_line() -> None:
    artifact = daedal.compile(DIGITS, "tiny")
    (launch,) = artifact.launches
    shown = repr(artifact)
    assert shown.startswith("<Artifact input -> ") and "1 Launch" in shown
    program = launch.program
    assert f"for tiny: {len(program.instructions):,} instructions" in repr(program)
    assert repr(program) in repr(launch) and f"{len(launch.layers)} layers" in repr(launch)
    first = artifact.host_parts[0]
    assert "quantize" in repr(first) and "x86-64" in repr(first.codes[0])
    for item in (artifact, launch, program, first, first.codes[0]):
        assert len(repr(item)) < 300
        assert "\n" not in repr(item)
