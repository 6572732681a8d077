"""`compile_model`: which variants a network may be compiled for, and that nothing is collected."""

import gc
import re
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from daedal.artifact.artifact import Artifact
from daedal.common.errors import VariantError
from daedal.compiler import model
from daedal.compiler.model import compile_model
from daedal.isa.variant import load_variant

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.mark.parametrize(("name", "bits"), [("int4", 4), ("int16", 16)])
def test_a_machine_of_other_widths_is_refused(name: str, bits: int) -> None:
    """A 4-bit machine would cut every value and compute something else without a word."""
    message = (
        "a variant that a network is compiled for must have inputs and weights of 8 bits, as "
        f"quantized ONNX models have, not {bits} and {bits} (variant {name!r}); choose another "
        "one, such as 'vta'"
    )
    with pytest.raises(VariantError, match=f"^{re.escape(message)}$"):
        compile_model(DIGITS, load_variant(name))


def test_both_widths_count() -> None:
    mixed = load_variant("tiny").replace("mixed", weight_bits=4)
    with pytest.raises(VariantError, match="must have inputs and weights of 8 bits"):
        compile_model(DIGITS, mixed)


def test_the_collector_is_off_until_the_artifact_is_built() -> None:
    """Scanning all that the layers left behind took longer than to build the artifact."""
    seen: list[bool] = []
    built = model.build_artifact

    def build(*arguments: Any) -> Artifact:
        seen.append(gc.isenabled())
        return built(*arguments)

    with mock.patch.object(model, "build_artifact", build):
        compile_model(DIGITS, load_variant("tiny"))
    assert gc.isenabled() and seen == [False]
