"""ONNX's own node and model suites as code for AArch64, in an emulator of the processor.

`make test` runs every thirtieth case, `make test-full` all.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from daedal.common.errors import DaedalError
from tests.support.aarch64 import LEVELS
from tests.support.onnx_suite import Case, cases

KNOWN = tomllib.loads((Path(__file__).parent / "onnx_backend_failures.toml").read_text())
LEAST = 1270
"""Cases of which every node is code, and that pass."""

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("onnx_suite"),  # the cases take long to make, once
]


def run(some: Iterable[Case], level: str) -> tuple[int, list[str]]:
    """How many passed, and what failed."""
    count, wrong = 0, []
    for case in some:
        try:
            count += case.run_on_aarch64(level)
        except DaedalError:
            continue  # refused for every processor; tests/integration/test_onnx_backend.py knows
        except AssertionError as error:
            if case.name not in KNOWN["fails"] | KNOWN["varies"]:
                wrong.append(f"{case.name}: {error}")
    return count, wrong


@pytest.mark.heavy(8)
def test_a_part_of_the_suite() -> None:
    count, wrong = run(cases()[::30], LEVELS[-1])
    assert not wrong and count > 30


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_all_of_the_suite(level: str) -> None:
    count, wrong = run(cases(), level)
    assert not wrong and count >= LEAST
