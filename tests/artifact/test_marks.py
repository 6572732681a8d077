"""Artifacts whose marks do not name their layers: every command refuses them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import daedal
from daedal.artifact.artifact import Artifact, Launch
from daedal.common.errors import ArtifactError
from daedal.isa.instruction import Instruction
from daedal.isa.table import Unit

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"

Change = Callable[[Launch], Launch]


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    """Two layers."""
    return daedal.compile(DIGITS, "tiny", from_tensors=["input_q"], to_tensors=["conv1_q"])


def with_instructions(change: Callable[[Instruction], Instruction]) -> Change:
    def changed(launch: Launch) -> Launch:
        items = tuple(change(item) for item in launch.program.instructions)
        return replace(launch, program=replace(launch.program, instructions=items))

    return changed


def unmarked(item: Instruction) -> Instruction:
    return item.replace(mark=0, tag=0) if item.mark else item


def with_names(marks: dict[int, str]) -> Change:
    return lambda launch: replace(launch, program=replace(launch.program, marks=marks))


def with_tags(*tags: int) -> Change:
    return lambda launch: replace(
        launch,
        layers=tuple(
            replace(layer, tag=tag) for layer, tag in zip(launch.layers, tags, strict=True)
        ),
    )


NUMBERED = "its layers are not numbered from 0 in program and manifest"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (with_tags(0, 2), NUMBERED),
        (with_tags(1, 0), NUMBERED),
        (with_names({0: "a"}), NUMBERED),
        (with_names({0: "a", 1: "b", 2: "c"}), NUMBERED),
        (with_instructions(unmarked), r"instruction \d+ \(STORE\) belongs to none of them"),
        (
            with_instructions(lambda x: x.replace(tag=7) if x.mark and x.tag else x),
            r"instruction \d+ \(\w+\) has the mark of layer 7",
        ),
        (
            with_instructions(lambda x: x.replace(tag=1) if x.mark else x),
            r"(LOAD|GEMM|ALU|STORE) marks layer 1 twice in a row",
        ),
        (
            with_instructions(lambda x: unmarked(x) if x.tag == 0 else x),
            "layer 0 has no mark",
        ),
        (
            with_instructions(lambda x: unmarked(x) if x.unit is Unit.LOAD else x),
            r"instruction \d+ \(LOAD\) belongs to none of them",
        ),
    ],
)
def test_bad_marks_are_refused(artifact: Artifact, change: Change, problem: str) -> None:
    assert len(artifact.layers) == 2
    parts = tuple(change(part) if isinstance(part, Launch) else part for part in artifact.parts)
    data = replace(artifact, parts=parts).to_bytes()
    with pytest.raises(ArtifactError) as error:
        Artifact.from_bytes(data, source="'x.daedal'")
    assert error.match(
        r"^program \d of 'x\.daedal' must mark each unit's last instruction before another of its "
        rf"2 layers, and {problem}; compile the model again$"
    )


def test_good_marks(artifact: Artifact) -> None:
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
