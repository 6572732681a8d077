"""The documentation site: its index, its reference, and what a page fetches."""

import dataclasses
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import daedal
from daedal.isa.variant import Variant
from daedal.reports.variant_prices import CHANGES, WITHOUT_PRICE, with_prices
from tests.support.browser import Browser
from tests.support.pages import blocks, make_checkout, run_line

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
INDEX = (DOCS / "index.md").read_text("utf-8")
PAGES = sorted(
    path.relative_to(DOCS).with_suffix("").as_posix()
    for path in DOCS.rglob("*.md")
    if path.relative_to(DOCS).parts[0] != "profiling"
)
LISTED = [page for page in PAGES if page != "index" and not page.startswith("adr/0")]


def test_the_index_lists_every_page_twice() -> None:
    """In a table that says what it is for, and in the navigation."""
    trees = re.findall(r"```\{toctree\}\n(?::.*\n)*\n((?:.+\n)+)```", INDEX)
    assert sorted("".join(trees).split()) == LISTED
    rows = re.findall(r"^\| \[[^]]+\]\(([^)#]+)\.md\) \| .+ \|$", INDEX, re.MULTILINE)
    assert sorted(rows) == LISTED


def test_decisions_are_listed_under_their_titles() -> None:
    """In order, each with its own heading."""
    folder = DOCS / "adr"
    found = re.findall(
        r"^(\d+)\. \[(.+)\]\((.+)\)$", (folder / "index.md").read_text("utf-8"), re.M
    )
    headings = [
        (*re.findall(r"^# ADR (\d+): (.+)$", path.read_text("utf-8"), re.M)[0], path.name)
        for path in sorted(folder.glob("0*.md"))
    ]
    assert found == headings


def test_every_parameter_of_a_variant_is_on_its_page() -> None:
    """In the order of the definition, with its default."""
    page = (DOCS / "reference" / "variants.md").read_text("utf-8")
    variant = Variant(name="defaults")
    for section in ("array", "memory", "bus", "units"):
        _, _, rest = page.partition(f"\n## {section}:")
        found = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", rest.partition("\n## ")[0], re.MULTILINE)
        values = getattr(variant, section)
        assert found == [
            (field.name, shown(getattr(values, field.name))) for field in dataclasses.fields(values)
        ]


def test_prices_of_parameters_are_those_of_the_estimate() -> None:
    page = (DOCS / "reference" / "variants.md").read_text("utf-8")
    assert with_prices(page) == page
    assert {name for _, name, _ in CHANGES} | WITHOUT_PRICE == parameters()


def parameters() -> set[str]:
    variant = Variant(name="defaults")
    sections = (getattr(variant, name) for name in ("array", "memory", "bus", "units"))
    return {field.name for values in sections for field in dataclasses.fields(values)}


def shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f'"{value}"'


def test_every_public_name_is_on_the_page_of_python() -> None:
    page = (DOCS / "reference" / "python.md").read_text("utf-8")
    assert set(re.findall(r"daedal\.(\w+)$", page, re.MULTILINE)) == set(daedal.__all__)


@pytest.mark.heavy(10)
def test_the_python_of_the_page_of_python_runs(tmp_path: Path) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    folder = make_checkout(tmp_path)
    (block,) = blocks((DOCS / "reference" / "python.md").read_text("utf-8"), "python")
    (folder / "block.py").write_text(block)
    slow, fast = map(int, run_line("python block.py", folder).split())
    assert slow > fast and (folder / "digits.db").is_file()


FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc="(?:https?:)?//"""
    r"""|<link\b[^>]*\brel="(?!canonical)[^"]*"[^>]*\bhref="(?:https?:)?//"""
    r"""|(?:@import|url\()\s*["']?(?:https?:)?//"""
)


@pytest.mark.parametrize(
    ("text", "fetches"),
    [
        ('<script src="https://cdn.example/x.js">', True),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', True),
        ("@import url(https://fonts.example/x)", True),
        ('<a href="https://example.org">', False),
        ('<script src="_static/x.js">', False),
    ],
)
def test_what_fetches_is_found(text: str, fetches: bool) -> None:
    assert bool(FETCHED.search(text)) == fetches


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does."""
    if importlib.util.find_spec("sphinx") is None:
        pytest.skip("needs Sphinx: pip install daedal[site]")
    folder = tmp_path_factory.mktemp("site")
    options = ["-E", "-b", "html", "-W", "--keep-going", "-q", "-d", str(folder / "trees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(folder / "site")],
        env=os.environ | {"TERM": "dumb"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_fetches_nothing(site: Path) -> None:
    for page in PAGES:
        assert (site / f"{page}.html").is_file(), page
    for path in [*site.rglob("*.html"), *site.rglob("*.css")]:
        found = FETCHED.search(path.read_text("utf-8"))
        assert not found, f"{path.name}: {found and found[0]}"
    commands = (site / "reference" / "command-line.html").read_text("utf-8")
    for text in ("daedal quantize", "--samples", "daedal compile int8.onnx -v vta -o net.daedal"):
        assert text in re.sub(r"<[^>]+>", "", commands), text
    python = (site / "reference" / "python.html").read_text("utf-8")
    assert all(f'id="daedal.{name}"' in python for name in daedal.__all__)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("roofline", "Why is this layer slow?"),
        ("requantize", "Add an operator, from ONNX to the RTL"),
        ("--precision", "Code for GPUs, one primitive at a time"),
    ],
)
def test_search_finds_pages_before_decisions(
    site: Path, browser: Browser, query: str, first: str
) -> None:
    with browser.visited(f"{(site / 'search.html').as_uri()}?q={query}") as (page, _):
        page.wait_for_selector("text=Search finished")
        links = page.locator("#search-results li > a")
        titles = links.all_text_contents()
        pages = links.evaluate_all("found => found.map((link) => link.getAttribute('href'))")
    assert titles[0] == first
    decisions = [name.startswith("adr/") for name in pages]
    assert decisions == sorted(decisions) and any(decisions)


@pytest.mark.slow
def test_a_profile_fits_the_page(site: Path, browser: Browser) -> None:
    with browser.visited((site / "profiling.html").as_uri()) as (page, _):
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        table = page.locator("pre", has_text="held up by").first
        assert table.evaluate("shown => shown.scrollWidth <= shown.clientWidth")
