"""docs/quantization.md: its commands and its Python run, and its steps are the modules."""

from pathlib import Path

import pytest

from tests.support.pages import blocks, commands, make_checkout, run_line

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "quantization.md").read_text(encoding="utf-8")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's digits")
    return make_checkout(tmp_path)


@pytest.mark.heavy(8)
def test_commands_run(checkout: Path) -> None:
    """In order, in one folder."""
    outputs = [run_line(line, checkout) for line in commands(PAGE)]
    assert "10 tensors in int8" in outputs[1]
    assert (checkout / "digits_int8.daedal").exists()


@pytest.mark.heavy(4)
def test_python_runs(checkout: Path) -> None:
    (snippet,) = blocks(PAGE, "python")
    (checkout / "snippet.py").write_text(snippet)
    run_line("python snippet.py", checkout)


def test_steps_are_modules_of_the_quantizer() -> None:
    for step in (
        "float_model",
        "normalize",
        "fold_affine",
        "hoist_bounds",
        "plan",
        "calibrate",
        "insert",
    ):
        found = list((ROOT / "compiler" / "quantization").rglob(f"{step}.py"))
        assert len(found) == 1, step
