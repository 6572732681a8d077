"""docs/pytorch.md: its commands and its Python run in order, and print what it shows."""

from pathlib import Path

import pytest

from tests.support.pages import make_checkout, run_page

PATH = Path(__file__).resolve().parent.parent / "docs" / "pytorch.md"
PAGE = PATH.read_text("utf-8")


@pytest.mark.slow
# PyTorch's exporter warns of itself.
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_page_shows_what_happens(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Words are the same, and numbers within 10 %: training differs a little between machines."""
    for name in ("torch", "onnxscript"):
        pytest.importorskip(name, reason="needs PyTorch and onnxscript: the extra `pytorch`")
    pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's digits")
    page, _, far = run_page(PAGE, make_checkout(tmp_path), 0.1)
    if request.config.getoption("--update-golden"):
        PATH.write_text(page, "utf-8")
        return
    assert not far, "the page shows other numbers: run pytest --update-golden"
