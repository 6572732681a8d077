"""What `daedal` says of itself: help, examples, version, and lists of what there is."""

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from daedal.cli import app
from daedal.commands.examples import EXAMPLES
from daedal.isa.variant import load_variant, shipped_variants
from tests.support.command_line import Run, refuses

COMMANDS = typer.main.get_command(app)
assert isinstance(COMMANDS, TyperGroup)
NAMES = sorted(COMMANDS.commands)


def test_every_command_has_examples() -> None:
    assert sorted(EXAMPLES) == NAMES


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_of_its_command_and_has_its_options(line: str) -> None:
    assert isinstance(COMMANDS, TyperGroup)
    program, name, *arguments = shlex.split(line)
    assert program == "daedal" and line in EXAMPLES[name]
    COMMANDS.commands[name].make_context(name, arguments)


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_examples_and_no_type_of_a_flag(run: Run, name: str) -> None:
    status, out, _ = run(name, "--help")
    assert status == 0
    shown = " ".join(out.split())
    for example in EXAMPLES[name]:
        assert example in shown
    assert "<bool>" not in out


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("quantize", ("mse", "percentile", "minmax", "int8|int4")),
        ("trace", ("verilator|icarus",)),
        ("board-test", ("uart|uio",)),
        ("run", ("native|verilator|icarus",)),
        ("synth", ("xc7z020|xczu3eg|ecp5-85f", "dsp|packed|lut")),
    ],
)
def test_help_lists_choices(name: str, choices: tuple[str, ...]) -> None:
    assert isinstance(COMMANDS, TyperGroup)
    command = COMMANDS.commands[name]
    context = typer.Context(command, info_name=name)
    shown = [param.get_help_record(context) for param in command.get_params(context)]
    options = " ".join(" ".join(record) for record in shown if record)
    assert all(choice in options for choice in choices), options


def test_a_folder_of_results_has_one_option(run: Run) -> None:
    for name, command in COMMANDS.commands.items():  # type: ignore[union-attr]
        for param in command.params:
            if "--output" in param.opts and param.metavar != "NAME":  # of a tensor
                assert "-o" in param.opts, name
    assert "--output" in run("build", "--help")[1]


def test_the_first_steps_come_first(run: Run) -> None:
    out = run("--help")[1]
    headings = re.findall(r"─ ([A-Z][a-z ]+) ─", out)
    assert headings[:2] == ["Options", "First steps"]
    assert all(name in out for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_help_breaks_lines_by_itself(name: str) -> None:
    """Not where the source does: a paragraph is one line."""
    assert isinstance(COMMANDS, TyperGroup)
    text = COMMANDS.commands[name].help
    assert text and "\n" not in text.replace("\n\n", "")


@pytest.mark.parametrize("name", NAMES)
def test_names_of_options_are_whole_in_80_columns(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "…" not in run(name, "--help")[1]


@pytest.mark.parametrize("name", NAMES)
def test_values_of_options_have_names_that_are_whole_in_80_columns(
    run: Run, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run(name, "--help")[1]
    assert not re.search(r"<[a-z]", out)  # a type of Python
    assert isinstance(COMMANDS, TyperGroup)
    command = COMMANDS.commands[name]
    for param in command.get_params(typer.Context(command, info_name=name)):
        assert param.metavar is not None
        assert param.metavar in out


@pytest.mark.parametrize(
    ("name", "option", "given", "expected"),
    [
        ("compile", "--target", "", {"vta", "attention", "cpu", "gpu"}),
        ("compile", "--target", "at", {"attention"}),
        ("compile", "--variant", "ecp", {"ecp5", "ecp5_half"}),
        ("compile", "--precision", "f", {"float32", "float16"}),
        ("compile", "--memory", "ul", {"ulx3s"}),
        ("compile", "--host-rates", "", {"default", "measured"}),
        ("tune", "--target", "c", {"cpu"}),
        ("run", "--variant", "ti", {"tiny"}),
        ("run", "--device", "", {"functional", "timing", "rtl", "uart", "cuda", "gpu-emulated"}),
        ("profile", "--device", "r", {"rtl"}),
        ("generate", "--device", "f", {"functional"}),
        ("explore", "--base", "ec", {"ecp5"}),
        ("build", "--board", "ecp", {"ecp5-evn"}),
        ("synth", "--fpga", "ecp", {"ecp5-85f"}),
    ],
)
def test_the_shell_completes_values(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    option: str,
    given: str,
    expected: set[str],
) -> None:
    # What the function for bash that `--install-completion` writes sets.
    words = ["daedal", name, option]
    monkeypatch.setenv("_DAEDAL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join([*words, given]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    status, out, _ = run()
    assert status == 0
    found = set(out.split())
    assert expected <= found and all(value.startswith(given) for value in found)


def test_arguments_are_named_as_in_the_texts(run: Run) -> None:
    assert "Usage: daedal compare [OPTIONS] VARIANTS..." in run("compare", "--help")[1]
    assert "Usage: daedal ops [OPTIONS] [NAMES]..." in run("ops", "--help")[1]


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version")[:2] == (0, f"daedal {importlib.metadata.version('daedal')}\n")


def test_variants_are_listed(run: Run) -> None:
    out = run("variants")[1]
    assert all(f" {name} " in out for name in shipped_variants())
    listed = json.loads(run("variants", "--json")[1])
    assert [item["name"] for item in listed] == shipped_variants()
    tiny = next(item for item in listed if item["name"] == "tiny")
    assert tiny["array"]["block_in"] == 8
    assert tiny["fingerprint"] == load_variant("tiny").fingerprint


def test_buffers_of_a_variant_are_all_its_scratchpads(run: Run) -> None:
    (line,) = (line for line in run("variants")[1].splitlines() if line.strip().startswith("vta"))
    assert int(line.split()[-2]) == 32 + 256 + 128 + 32 + 8 + 8 + 8  # variants/vta.toml


def test_operators_by_parts_of_their_names(run: Run) -> None:
    found = [item["name"] for item in json.loads(run("ops", "conv", "POOL", "--json")[1])]
    assert {"Conv", "ConvTranspose", "MaxPool"} <= set(found)
    assert all("conv" in name.lower() or "pool" in name.lower() for name in found)
    refuses(run("ops", "Frobnicate"), "a name must be part of an operator's", "frobnicate")


def test_shells_complete_names() -> None:
    """The installed command, as a shell asks it: its name is part of the question."""
    words = "daedal compile model.onnx --variant vt"
    question = {
        "_DAEDAL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    command = Path(sys.executable).with_name("daedal")
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", command],
        env=os.environ | question,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.split() == ["vta"]
    assert not re.search(r"\| +onnx$", answer.stderr, re.MULTILINE), "it takes half a second"
