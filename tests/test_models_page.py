"""docs/models.md: its Python and its commands run in order, and print what it shows."""

import re
from pathlib import Path

import pytest

from tests.support.pages import make_checkout, run_line, shown_again

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "models.md").read_text("utf-8")
BLOCK = re.compile(r"```(sh|python|text)\n(.*?)```\n", re.DOTALL)


@pytest.mark.heavy(8)
def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    """Words and figures are the same; none of them is a time."""
    pytest.importorskip("sklearn.datasets", reason="needs scikit-learn's digits")
    folder = make_checkout(tmp_path)
    printed, kinds = "", []
    for number, (kind, text) in enumerate(BLOCK.findall(PAGE)):
        kinds.append(kind)
        if kind == "sh":
            for line in text.splitlines():
                printed = run_line(line, folder)
        elif kind == "python":
            (folder / f"block{number}.py").write_text(text)
            printed = run_line(f"python block{number}.py", folder)
        else:
            assert shown_again(text, printed) == text
    assert kinds.count("text") >= 4
