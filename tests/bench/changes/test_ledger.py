"""The ledger of cycles: every entry's figures, what is said of differences, and quotes of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.changes import ledger, ledger_quotes
from bench.changes.ledger import main
from bench.changes.ledger_entries import ENTRIES, Entry
from bench.changes.ledger_models import MissingModel
from bench.changes.ledger_quotes import documents, unknown, unquoted, with_quotes
from bench.changes.ledger_table import difference, ledger_text, read_ledger
from bench.figures import Figures
from daedal.isa.variant import Variant

OLD = Figures(cycles=1000, launches=1, instructions=50, bytes_moved=4096)
KEY = "digits.vta"


def _entries() -> Iterator[object]:
    """As parameters, those marked that take more than a second of CPU time."""
    for key, entry in ENTRIES.items():
        heavy = [pytest.mark.heavy(entry.heavy_s)] if entry.heavy_s else []
        yield pytest.param(entry, id=key, marks=[pytest.mark.slow] if entry.slow else heavy)


@pytest.mark.parametrize("entry", list(_entries()))
def test_figures_are_those_of_the_ledger(entry: Entry) -> None:
    try:
        figures = entry.figures()
    except MissingModel as missing:
        pytest.skip(f"{entry.key} {missing}")
    message = difference(entry.key, read_ledger().get(entry.key), figures)
    assert message is None, message


def test_the_ledger_has_every_entry_and_no_other() -> None:
    assert list(read_ledger()) == list(ENTRIES)


def test_the_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "cycles.toml"
    path.write_text(ledger_text({KEY: OLD}), encoding="utf-8")
    assert read_ledger(path) == {KEY: OLD}
    assert read_ledger(tmp_path / "none.toml") == {}


def changed(**figures: int) -> str | None:
    return difference(KEY, OLD, Figures(**{**vars(OLD), **figures}))


def test_equal_figures() -> None:
    assert changed() is None


@pytest.mark.parametrize("figure", ["cycles", "launches", "instructions", "bytes_moved"])
def test_a_loss_is_to_be_mended_or_explained(figure: str) -> None:
    old = getattr(OLD, figure)
    message = changed(**{figure: 2 * old})
    assert message == (
        f"digits.vta: {figure} {old:,} -> {2 * old:,}, worse by 100.00 %: mend it, or run "
        "`make ledger` and give the reason in the commit's message"
    )


def test_a_gain_belongs_into_the_ledger() -> None:
    assert changed(cycles=999) == (
        "digits.vta: cycles 1,000 -> 999, better by 0.10 %: the ledger is out of date: "
        "run `make ledger`"
    )


def test_a_loss_among_gains_is_a_loss() -> None:
    message = changed(cycles=999, bytes_moved=4097)
    assert message is not None and "mend it" in message


def test_an_entry_that_the_ledger_lacks() -> None:
    message = difference(KEY, None, OLD)
    assert message is not None
    assert "not in the ledger yet" in message and "run `make ledger`" in message


def _missing(_variant: Variant) -> Figures:
    raise MissingModel("needs the package nowhere")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger of one entry that moved, in a repository without documents."""
    path = tmp_path / "cycles.toml"
    path.write_text(ledger_text({KEY: OLD}), encoding="utf-8")
    entries = {
        KEY: Entry("digits", "vta", lambda _variant: Figures(1100, 1, 40, 4096)),
        "minilm.attention": Entry("minilm", "attention", _missing),
    }
    monkeypatch.setattr(ledger, "ENTRIES", entries)
    monkeypatch.setattr(ledger, "LEDGER", path)
    monkeypatch.setattr(ledger_quotes, "ROOT", tmp_path)
    monkeypatch.setattr(ledger.page, "main", lambda: path.with_name("hardware.md").touch())
    page = tmp_path / "README.md"
    page.write_text("It takes 5<!-- digits.vta.cycles --> cycles.\n", encoding="utf-8")
    return path


def test_the_command_rewrites_the_table_and_the_quotes(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["digits.*"]) == 0
    assert read_ledger(table)[KEY].cycles == 1100
    assert "takes 1,100<!-- digits.vta.cycles -->" in (table.parent / "README.md").read_text()
    assert not table.with_name("hardware.md").exists(), "the ledger lacks an entry"
    shown = capsys.readouterr().out
    assert shown.index("cycles") < shown.index("instructions")
    assert "+10.00" in shown and "-20.00" in shown


def test_the_command_rewrites_the_tables_of_hardware(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "ENTRIES", {KEY: ledger.ENTRIES[KEY]})
    assert main(["digits.*"]) == 0
    assert table.with_name("hardware.md").exists()


def test_check_writes_nothing(table: Path) -> None:
    before = table.read_text(encoding="utf-8")
    assert main(["digits.*", "--check"]) == 1
    assert table.read_text(encoding="utf-8") == before


def test_what_was_not_counted_is_said(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["minilm.*"]) == 1
    shown = capsys.readouterr().out
    assert "not counted: minilm.attention: needs the package nowhere" in shown
    assert "nothing moved" in shown and table.is_file()


def test_a_pattern_without_entry_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["resnet19.*"])
    assert ended.value.code == 2
    assert "a pattern must match an entry, such as C1.vta" in capsys.readouterr().err


TABLE = {KEY: OLD, "C1.vta": Figures(cycles=40_000, launches=1, instructions=5, bytes_moved=1)}


@pytest.mark.parametrize(
    ("comment", "number"),
    [
        ("digits.vta.cycles", "1,000"),
        ("digits.vta.bytes_moved / 1e3, .2f", "4.10"),
        ("C1.vta.cycles / digits.vta.cycles, .1f", "40.0"),
        ("100 * 2_560_000 / C1.vta.cycles / 256, .1f", "25.0"),
        ("C1.vta.cycles - digits.vta.cycles", "39,000"),
        ("a comment of its own", "7"),
    ],
)
def test_quotes_are_computed(comment: str, number: str) -> None:
    before, after = f"of 7<!-- {comment} --> and 7", f"of {number}<!-- {comment} --> and 7"
    assert with_quotes(before, TABLE) == after and not unknown(before, TABLE)


@pytest.mark.parametrize("figure", ["lenet.vta.cycles", "digits.vta.starved", "digits.vta.speed"])
def test_quotes_of_what_the_ledger_lacks(figure: str) -> None:
    text = f"1<!-- C1.vta.cycles / {figure}, .1f -->"
    assert with_quotes(text, TABLE) == text and unknown(text, TABLE) == [figure]


def test_cycles_without_a_quote_are_found() -> None:
    prose = "It takes 40,000 cycles, of 40,000<!-- C1.vta.cycles --> or 140,000 or 40,000,000.\n"
    assert unquoted(prose, TABLE) == ["40,000"]
    fenced = "```console\n40,000 cycles\n```\n"
    generated = "<!-- generated by -->\n40,000\n<!-- end of it -->\n"
    assert unquoted(f"{fenced}{generated}1,000 cycles\n", TABLE) == []


@pytest.mark.parametrize("path", list(documents()), ids=lambda path: path.name)
def test_documents_quote_the_ledger(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not unknown(text, read_ledger())
    assert not unquoted(text, read_ledger()), (
        "put the entry behind it: bench/changes/ledger_quotes.py"
    )
    assert with_quotes(text, read_ledger()) == text, f"{path.name}: run `make ledger`"
