"""The notebooks run, draw, and are kept without what a run leaves in them."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_it_is_kept_without_results(path: Path) -> None:
    for cell in code_cells(path):
        assert cell["outputs"] == [] and cell["execution_count"] is None


def test_its_links_lead_somewhere(path: Path) -> None:
    text = path.read_text("utf-8")
    for link in text.split("](")[1:]:
        assert (FOLDER / link.partition(")")[0]).resolve().exists(), link


@pytest.mark.slow
def test_it_runs(path: Path) -> None:
    if "pytorch" in path.stem:
        for name in ("torch", "onnxscript"):
            pytest.importorskip(name, reason="needs PyTorch and onnxscript: the extra `pytorch`")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra notebooks")
    nbformat = pytest.importorskip("nbformat", reason="needs the extra notebooks")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=300, resources={"metadata": {"path": FOLDER}}
    ).execute()
    shown = [item for cell in notebook.cells for item in cell.get("outputs", [])]
    kinds = {kind for item in shown for kind in item.get("data", {})}
    assert "image/png" in kinds, "a picture"
    assert "text/markdown" in kinds, "a table"
