"""``daedal ops`` and the page that has the same table."""

import json
from pathlib import Path

from daedal.compiler.supported import supported_operators
from daedal.reports.operators import operators_page
from tests.support.command_line import Run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operators.md"


def test_ops_lists_every_operator(run: Run) -> None:
    status, out, _ = run("ops")
    assert status == 0
    for item in supported_operators():
        assert f"\n {item.name} " in out, item.name


def test_ops_as_json(run: Run) -> None:
    records = {item["name"]: item for item in json.loads(run("ops", "--json")[1])}
    assert records["Conv"] == {
        "name": "Conv",
        "first_opset": 7,
        "last_opset": None,
        "where": "accelerator",
        "processor": "compiled",
        "limits": "one or two spatial dimensions; constant quantized weights",
    }
    assert len(records) == len(supported_operators())


def test_the_page_is_the_table() -> None:
    """`make docs` writes it."""
    assert PAGE.read_text(encoding="utf-8") == operators_page()
