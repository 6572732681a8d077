"""Emitted Verilog is kept, and emitted again when anything that it depends on differs."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from daedal.hw.family import Family
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl import verilog
from tests.support.owners import give_away


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[Variant]:
    """Variants that were emitted, in order; what is emitted is their name."""
    variants: list[Variant] = []

    def emit(variant: Variant, family: Family | None, *, observe: bool, assertions: bool) -> str:
        variants.append(variant)
        chip = f" for {family.value}" if family else ""
        form = f"{' observed' if observe else ''}{' asserted' if assertions else ''}"
        return f"// {variant.name}{chip}{form}\n"

    monkeypatch.setattr(verilog, "emit_verilog", emit)
    return variants


def test_the_same_variant_is_emitted_once(tmp_path: Path, emitted: list[Variant]) -> None:
    said: list[str] = []
    texts = {verilog.kept_verilog(load_variant("tiny"), tmp_path, said.append) for _ in range(3)}
    assert texts == {"// tiny\n"}
    assert emitted == [load_variant("tiny")]
    assert said == ["emitting the Verilog of variant tiny"]


def test_an_observed_machine_is_kept_beside_it(tmp_path: Path, emitted: list[Variant]) -> None:
    tiny = load_variant("tiny")
    for _ in range(2):
        assert verilog.kept_verilog(tiny, tmp_path, print) == "// tiny\n"
        assert verilog.kept_verilog(tiny, tmp_path, print, observe=True) == "// tiny observed\n"
        asserted = verilog.kept_verilog(tiny, tmp_path, print, assertions=True)
        assert asserted == "// tiny asserted\n"
    assert emitted == [tiny] * 3


def test_a_machine_for_a_chip_is_kept_beside_it(tmp_path: Path, emitted: list[Variant]) -> None:
    tiny = load_variant("tiny")
    for _ in range(2):
        assert verilog.kept_verilog(tiny, tmp_path, print) == "// tiny\n"
        for family in (Family.ECP5, Family.XC7):
            text = verilog.kept_verilog(tiny, tmp_path, print, family=family)
            assert text == f"// tiny for {family.value}\n"
    assert emitted == [tiny] * 3


def test_another_variant_name_or_source_is_emitted(
    tmp_path: Path, emitted: list[Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = load_variant("tiny")
    for variant in (tiny, load_variant("vta"), dataclasses.replace(tiny, name="other")):
        verilog.kept_verilog(variant, tmp_path, lambda _sentence: None)
    monkeypatch.setattr(verilog, "_emitter", lambda _skipped: "other sources")
    verilog.kept_verilog(tiny, tmp_path, lambda _sentence: None)
    assert [variant.name for variant in emitted] == ["tiny", "vta", "other", "tiny"]


def test_the_machine_is_made_of_what_is_hashed() -> None:
    """No folder that does not count is imported, directly or not, by what emits."""
    code = (
        "import sys, daedal.hw.emit;"
        "print(*(name for name in sys.modules if name.startswith('daedal.hw.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    folders = {name.split(".")[2] for name in done.stdout.split()}
    assert "machine" in folders
    assert folders.isdisjoint(verilog.EMITS_NOTHING)


@pytest.mark.parametrize("damage", [b"", b"// SHA-256 0\n// tiny\n", b"// tiny\n", b"\xff\xfe"])
def test_damaged_text_is_emitted_again(
    tmp_path: Path, emitted: list[Variant], damage: bytes
) -> None:
    tiny = load_variant("tiny")
    verilog.kept_verilog(tiny, tmp_path, print)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    for _ in range(2):
        assert verilog.kept_verilog(tiny, tmp_path, print) == "// tiny\n"
    assert emitted == [tiny] * 2


def test_one_changed_letter_is_noticed(tmp_path: Path, emitted: list[Variant]) -> None:
    tiny = load_variant("tiny")
    verilog.kept_verilog(tiny, tmp_path, print)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes().replace(b"tiny", b"tinx"))
    assert verilog.kept_verilog(tiny, tmp_path, print) == "// tiny\n"


@pytest.mark.parametrize("where", ["folder", "file"])
def test_text_of_another_user_is_emitted_again(
    tmp_path: Path, emitted: list[Variant], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its name and its hash can be computed by anybody."""
    tiny, folder = load_variant("tiny"), tmp_path / "rtl"
    verilog.kept_verilog(tiny, folder, print)
    (path,) = folder.iterdir()
    path.write_text(verilog._seal("// a trojan\n") + "// a trojan\n")
    assert verilog.kept_verilog(tiny, folder, print) == "// a trojan\n"
    give_away(path if where == "file" else folder, monkeypatch)
    assert verilog.kept_verilog(tiny, folder, print) == "// tiny\n"


def test_where_nothing_can_be_kept_it_is_emitted_each_time(
    tmp_path: Path, emitted: list[Variant]
) -> None:
    (tmp_path / "file").touch()
    for _ in range(2):
        text = verilog.kept_verilog(load_variant("tiny"), tmp_path / "file" / "rtl", print)
        assert text == "// tiny\n"
    assert len(emitted) == 2
