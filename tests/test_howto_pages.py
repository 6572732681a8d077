"""docs/howto: each page's changes are made to a copy of the sources, and its Python then runs, and
the tests that it names."""

import re
from pathlib import Path

import pytest

from tests.support.howto import (
    changed_copy,
    changed_tree,
    changes,
    commands_of_tests,
    listed_files,
    run_blocks,
    run_tests,
)
from tests.support.pages import make_checkout

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "howto"
PAGES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}
LONG = {"alu-operation": "rtl", "operator": "rtl"}
"""Pages that take many seconds, with the mark of the tools that they need."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_lists_the_files_that_it_changes(name: str) -> None:
    assert listed_files(PAGES[name]) == list(changes(PAGES[name])), "in order"


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    text = re.sub(r"^```.*?^```$", "", PAGES[name], flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (FOLDER / link).exists(), link


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.slow, getattr(pytest.mark, LONG[name])]
            if name in LONG
            else pytest.mark.heavy(20),
        )
        for name in PAGES
    ],
)
def test_a_page_ends_in_green(name: str, tmp_path: Path) -> None:
    page, folder = PAGES[name], tmp_path / "work"
    folder.mkdir()
    files = changes(page)
    for own in files.keys() - {file for file in files if "/" in file}:
        (folder / own).write_text(files[own], "utf-8")
    run_blocks(page, changed_tree(files, tmp_path / "tree"), make_checkout(folder))


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.parametrize("name", [name for name in PAGES if commands_of_tests(PAGES[name])])
def test_the_tests_that_a_page_names_pass_after_its_changes(name: str, tmp_path: Path) -> None:
    page = PAGES[name]
    copy = changed_copy(changes(page), tmp_path / "copy")
    for arguments in commands_of_tests(page):
        assert re.search(r"\b[1-9]\d* passed", run_tests(arguments, copy)), arguments


def test_pages_of_the_kit_itself_name_tests() -> None:
    with_tests = {name for name in PAGES if commands_of_tests(PAGES[name])}
    assert with_tests == {
        "alu-operation",
        "graph-pass",
        "operator",
        "processor-operator",
        "variant-parameter",
    }
