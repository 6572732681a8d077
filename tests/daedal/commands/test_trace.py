"""``daedal trace``: no difference, a planted fault, and one sentence for every bad input."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal import cli
from daedal.artifact.artifact import Artifact
from daedal.common.errors import ToolError
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import load_variant
from daedal.sim.rtl import observer
from daedal.sim.rtl.toolchain import find_icarus
from daedal.sim.trace.difference import Kind
from examples.digits.data import demo_images
from tests.support.command_line import Run, refuses
from tests.support.mutants import MUTANTS, mutant_verilog
from tests.support.pages import with_assertions

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"

GUIDE = (ROOT / "docs" / "debugging.md").read_text()


def shown() -> list[str]:
    """What docs/debugging.md shows of the command's output."""
    return re.findall(r"```text\n(.*?)```", GUIDE, re.DOTALL)


def masked(text: str) -> list[str]:
    """Lines without their numbers, which follow the machine's timing, and without padding."""
    lines = re.sub(r"0x[0-9a-f]+|-?[\d,.]*\d", "#", text).splitlines()
    return [" ".join(line.split()) for line in lines]


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the first layer of the digits network for `tiny`, and an image."""
    folder = tmp_path_factory.mktemp("layer")
    daedal.compile(DIGITS, "tiny", to_tensors=["conv0_q"]).save(folder / "layer.daedal")
    np.savez(folder / "images.npz", input=demo_images(1)[0])
    return folder


@pytest.fixture
def icarus() -> None:
    try:
        find_icarus()
    except ToolError as error:
        pytest.skip(str(error))


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.xdist_group("trace-rtl")
@pytest.mark.usefixtures("icarus")
def test_no_difference_ends_with_status_0(run: Run, layer: Path) -> None:
    arguments = (layer / "layer.daedal", "-i", layer / "images.npz", "--simulator", "icarus")
    status, out, _ = run("trace", *arguments, "--assertions")
    assert status == 0
    instructions = len(Artifact.load(layer / "layer.daedal").program.instructions)
    assert out.startswith(f"no difference: {instructions} instructions, ")


@pytest.mark.rtl
@pytest.mark.xdist_group("trace-rtl")
@pytest.mark.usefixtures("icarus")
def test_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        monkeypatch.setattr(sys, "argv", shlex.split(with_assertions(line)))
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
    assert masked(capsys.readouterr().out)[-1:] == masked(shown()[0])


def test_the_guide_names_every_kind() -> None:
    named = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", GUIDE, re.MULTILINE)
    assert re.findall(r"\w+", " ".join(named)) == [kind.value for kind in Kind]


@pytest.mark.rtl
@pytest.mark.xdist_group("trace-rtl")
@pytest.mark.usefixtures("icarus")
def test_a_planted_fault_is_explained(
    run: Run, layer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = mutant_verilog(load_variant("tiny"), MUTANTS["rounds down"])
    monkeypatch.setattr(observer, "kept_verilog", lambda *_arguments, **_options: text)
    arguments = ("trace", layer / "layer.daedal", "--seed", 4, "--simulator", "icarus")
    status, out, _ = run(*arguments)
    assert status == 1
    lines = out.splitlines()
    example = masked(shown()[1])
    assert masked(out)[: len(example) - 2] == example[:-2]
    assert "(ALU) leaves" in lines[0]
    number = int(lines[0].split()[1])
    assert "layer: conv0_linear (q_conv2d), output conv0_q" in lines
    assert any("tensor 'conv0_q.blocked', element (0, " in line for line in lines)
    (pointed,) = [line for line in lines if line.startswith("> ")]
    assert pointed.split()[1:3] == [str(number), "ALU"]
    assert "operation=REQUANTIZE" in pointed

    status, out, _ = run(*arguments, "--json")
    assert status == 1
    difference = json.loads(out)["difference"]
    assert (difference["kind"], difference["instruction"]) == ("value", number)
    assert difference["layer"]["name"] == "conv0_linear"
    assert difference["place"]["tensor"] == "conv0_q.blocked"
    assert difference["expected"] != difference["found"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--memory", "sram"], f"memory must be one of {', '.join(PRESETS)}, or the path of"),
        (["--memory", "ulx3s"], "a trace must have another memory than an SDRAM, not 'ulx3s'"),
        (["--simulator", "none"], "simulator must be one of verilator, icarus, not 'none'"),
        (["-i", "nowhere.npz"], "inputs must be a readable file; 'nowhere.npz' is not"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], sentence: str, run: Run, layer: Path
) -> None:
    refuses(run("trace", layer / "layer.daedal", *arguments), sentence)


def test_another_file_is_no_artifact(run: Run) -> None:
    refuses(run("trace", DIGITS), "must be a file that `daedal compile` wrote")
