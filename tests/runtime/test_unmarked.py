"""Programs without marks, and without STOREs that nothing reads: equal results, fewer cycles."""

import numpy as np

import daedal
from daedal.isa.verifier import verify
from daedal.runtime.unmarked import without_marks
from examples.digits.data import demo_images
from tests.compiler.link.on_chip.test_kept_results import chain
from tests.daedal.conftest import DIGITS


def test_only_the_profile_is_missing() -> None:
    artifact = daedal.compile(DIGITS, "tiny")
    plain = without_marks(artifact)
    inputs = {"input": demo_images(1)[0]}
    runs = [daedal.simulate(item, inputs, device="timing") for item in (artifact, plain)]
    for name, value in runs[0].outputs.items():
        np.testing.assert_array_equal(runs[1].outputs[name], value)
    before, after = (run.profiles[0].cycles for run in runs)
    assert after is not None and before is not None and after <= before
    assert not runs[1].profiles[0].marks and not runs[1].layers[0] and runs[0].layers[0]
    for one, other in zip(artifact.program.instructions, plain.program.instructions, strict=True):
        assert other == one.replace(mark=0, tag=0)


def test_stores_of_what_nothing_reads_are_left_out(rng: np.random.Generator) -> None:
    artifact = daedal.compile(chain(20, 32, 4).SerializeToString(), "attention")
    plain = without_marks(artifact)
    before, after = artifact.program, plain.program
    assert len(after.instructions) == len(before.instructions) - len(before.unread) > 0
    assert before.unread and not after.unread
    verify(after)
    x = rng.normal(size=(1, 32, 20, 1)).astype(np.float32)
    runs = [daedal.simulate(item, {"x": x}, device="timing") for item in (artifact, plain)]
    for name, value in runs[0].outputs.items():
        np.testing.assert_array_equal(runs[1].outputs[name], value)
    cycles = [run.profiles[0].cycles or 0 for run in runs]
    assert cycles[1] < cycles[0]
