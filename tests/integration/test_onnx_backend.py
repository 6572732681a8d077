"""ONNX's own node and model suites on `daedal.backend`.

`onnx_backend_failures.toml` has the cases that fail, each with the reason. It may only shrink: a
case that passes and is said to fail is an error, too. Cases of `AS_ONNXRUNTIME`, whose results are
others than ONNX's on purpose, are compared with onnxruntime. `make test` runs every twelfth case on
the processor and every fortieth on the emulated GPU, `make test-full` all on both.
"""

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from daedal.sim.gpu.emulator import EmulatedGpu
from tests.support.onnx_suite import Case, cases, where

KNOWN = tomllib.loads((Path(__file__).parent / "onnx_backend_failures.toml").read_text())

LEAST_PASSED = 0.9896
LEAST_COMPILED = 1315
LEAST_COMPILED_ON_GPU = 1305

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("onnx_suite"),  # the cases take long to make, once
]


@pytest.fixture(scope="module")
def suite() -> list[Case]:
    return cases()


def _run(some: Iterable[Case], *, on_gpu: bool = False) -> tuple[Counter[str], list[str]]:
    """How many cases ran where, and those that did not do what the file says."""
    counts: Counter[str] = Counter()
    wrong = []
    for case in some:
        try:
            prepared = case.run(EmulatedGpu(seed=counts.total()) if on_gpu else None)
            found = where(prepared)
            if on_gpu and prepared.code is not None and prepared.code.objects:
                wrong.append(f"{case.name} has a kernel that the processor runs")
        except Exception as error:  # whatever fails is counted
            found = "failed"
            if case.name not in KNOWN["fails"] | KNOWN["varies"]:
                wrong.append(f"{case.name} fails: {error}")
        else:
            if case.name in KNOWN["fails"]:
                wrong.append(f"{case.name} passes; take it out of the file")
        counts[found] += 1
    return counts, wrong


@pytest.mark.heavy(10)
@pytest.mark.parametrize(("on_gpu", "step"), [(False, 12), (True, 40)])
def test_a_part_of_the_suite(suite: list[Case], on_gpu: bool, step: int) -> None:
    _, wrong = _run(suite[::step], on_gpu=on_gpu)
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_whole_suite(suite: list[Case], on_gpu: bool) -> None:
    counts, wrong = _run(suite, on_gpu=on_gpu)
    print(dict(counts))
    assert not wrong, "\n".join(wrong)
    assert counts["failed"] <= (1 - LEAST_PASSED) * counts.total()
    assert counts["compiled"] >= (LEAST_COMPILED_ON_GPU if on_gpu else LEAST_COMPILED)
