"""What the README says runs: its commands, its Python, its links, and the demo it shows."""

import re
from pathlib import Path

import pytest

import daedal
from daedal.compiler.ops.onnx.table import LOWERINGS
from daedal.sim.rtl.device import RtlDevice
from tests.support.pages import blocks, commands, make_checkout, run_in_shell, run_line

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "architecture.md",
    ROOT / "docs" / "boards.md",
    ROOT / "docs" / "networks.md",
    ROOT / "docs" / "profiling.md",
    *sorted((ROOT / "docs/adr").iterdir()),
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout, for commands that write into it."""
    return make_checkout(tmp_path)


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {line.split()[1] for line in commands(README) if line.startswith("make ")}
    assert {"demo", "test"} <= named <= targets


COMMANDS = [line for line in commands(README) if line.startswith(("daedal ", "python "))]


def is_of_rtl(command: str) -> bool:
    return "--device rtl" in command or command.startswith("daedal verilog ")


@pytest.mark.heavy(20)
def test_commands_run(checkout: Path) -> None:
    """In order, in one folder, those of the RTL apart."""
    for line in COMMANDS:
        if not is_of_rtl(line):
            run_line(line, checkout)


@pytest.mark.slow
@pytest.mark.rtl
@pytest.mark.xdist_group("vta-rtl")
def test_all_commands_run(checkout: Path, vta_rtl: RtlDevice) -> None:
    """`vta_rtl` says whether the simulator can be built."""
    assert {line.split()[1] for line in COMMANDS} >= {
        *("compile", "quantize", "run", "profile", "diff", "disasm", "verilog", "doctor")
    }
    outputs = {line: run_line(line, checkout) for line in COMMANDS}
    (simulated,) = (text for line, text in outputs.items() if "--device rtl" in line)
    assert "of peak" in simulated


@pytest.mark.heavy(4)
def test_the_installed_command_runs(checkout: Path) -> None:
    """In a process of its own, by its name: the pages' commands run in this one."""
    assert "Usage: daedal [OPTIONS] COMMAND" in run_in_shell("daedal --help", checkout)


@pytest.mark.heavy(6)
def test_python_runs(checkout: Path) -> None:
    (snippet,) = blocks(README, "python")
    (checkout / "snippet.py").write_text(snippet)
    run_line("python snippet.py", checkout)


def test_demo_shown_is_of_the_network_that_is_there() -> None:
    (shown,) = blocks(README, "text")
    artifact = daedal.compile(ROOT / "examples/digits/digits_qdq.onnx", "vta")
    rows = dict(re.findall(r"^ (\w+) +q_\w+ +([\d,]+) ", shown, re.MULTILINE))
    assert rows == {layer.name: f"{layer.macs:,}" for layer in artifact.layers}
    assert artifact.program.variant.fingerprint in shown
    assert "RTL bytes = functional bytes = numpy integer reference" in shown


def test_the_number_of_compiled_operators_is_todays() -> None:
    (number,) = re.findall(r"(\d+)\s+operators are compiled", README)
    assert int(number) == len(LOWERINGS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    """Every path in backticks that looks like one of ours is there."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for name in re.findall(r"`([\w./-]+/[\w./-]*)`", page.read_text()):
        if name.split("/")[0] in folders - {".daedal"}:
            assert (ROOT / name).exists() or (ROOT / f"{name}.py").exists(), name
