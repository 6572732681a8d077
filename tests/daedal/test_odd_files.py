"""Files of every command: inputs are regular files, outputs replace nothing else, and both are
looked at before the work begins."""

from pathlib import Path

import pytest

from tests.support.command_line import Run, refuses
from tests.support.odd_files import at_most, make_odd_file, unchanged

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"
PROFILE = ROOT / "docs" / "profiling" / "before.json"

# ODD stands for the file that is none, GOOD for the folder of `built`.
INPUTS = {
    "compile a model": ("compile", "ODD", "-o", "OUT"),
    "compile for a variant": ("compile", DIGITS, "-v", "ODD.toml", "-o", "OUT"),
    "quantize a model": ("quantize", "ODD", "-s", "GOOD/images.npz", "-o", "OUT"),
    "quantize with samples": ("quantize", DIGITS, "-s", "ODD", "-o", "OUT"),
    "run an artifact": ("run", "ODD", "-i", "GOOD/images.npz"),
    "run on inputs": ("run", "GOOD/digits.daedal", "-i", "ODD"),
    "run a variant": ("run", "GOOD/digits.daedal", "-i", "GOOD/images.npz", "-v", "ODD.toml"),
    "check a run": ("run", "GOOD/digits.daedal", "-i", "GOOD/images.npz", "--check", "ODD"),
    "inspect": ("inspect", "ODD"),
    "profile": ("profile", "ODD"),
    "diff before": ("diff", "ODD", "GOOD/digits.daedal"),
    "diff after": ("diff", PROFILE, "ODD"),
    "disasm": ("disasm", "ODD"),
    "trace an artifact": ("trace", "ODD"),
    "trace inputs": ("trace", "GOOD/digits.daedal", "-i", "ODD"),
    "verilog": ("verilog", "ODD.toml"),
    "synth": ("synth", "ODD.toml", "--fpga", "ecp5-85f"),
    "build": ("build", "ODD.toml", "--board", "ulx3s-85f", "--out", "OUT"),
    "build for a board": ("build", "tiny", "--board", "ODD.toml", "--out", "OUT"),
    "explore for a board": ("explore", DIGITS, "--board", "ODD.toml", "-o", "OUT"),
    "export": ("export", "ODD.toml", "--vivado", "OUT"),
}

# No input is there: the sentence is about the output, as outputs are looked at first.
OUTPUTS = {
    "compile": ("compile", "none.onnx", "-o", "ODD"),
    "quantize": ("quantize", "none.onnx", "-s", "none.npz", "-o", "ODD"),
    "run": ("run", "none.daedal", "-i", "none.npz", "-o", "ODD"),
    "profile": ("profile", "none.daedal", "-o", "ODD"),
    "profile, page": ("profile", "none.daedal", "--html", "ODD"),
    "profile, trace": ("profile", "none.daedal", "--trace", "ODD"),
    "synth": ("synth", "none.toml", "--fpga", "ecp5-85f", "--html", "ODD"),
    "verilog": ("verilog", "none.toml", "-o", "ODD"),
    "verilog, header": ("verilog", "none.toml", "--header", "ODD"),
}
FOLDERS = {
    "compile": ("compile", "none.onnx", "-o", "OUT", "--dump-dir", "ODD"),
    "run": ("run", "none.daedal", "-i", "none.npz", "--wave", "0:1", "--wave-dir", "ODD"),
    "build": ("build", "tiny", "--board", "ulx3s-85f", "--out", "ODD"),
    "export": ("export", "none.toml", "--vivado", "ODD"),
}
FILES_IN_FOLDERS = {
    "wave.vcd": ("run", "none.daedal", "-i", "none.npz", "--wave", "0:1", "--wave-dir", "FOLDER"),
    "ulx3s-85f-tiny.bit": ("build", "tiny", "--board", "ulx3s-85f", "--out", "FOLDER"),
    "ulx3s-85f-tiny.json": ("build", "tiny", "--board", "ulx3s-85f", "--out", "FOLDER"),
}


def filled(command: tuple[object, ...], **names: Path) -> list[str]:
    """The command line with paths in the place of their names."""
    words = []
    for word in command:
        if isinstance(word, str):
            for name, path in names.items():
                word = word.replace(name, str(path))
        words.append(str(word))
    return words


@pytest.mark.parametrize("kind", ["a pipe", "a link to a device"])
@pytest.mark.parametrize("command", INPUTS)
def test_inputs(run: Run, built: Path, tmp_path: Path, command: str, kind: str) -> None:
    for suffix in ("", ".toml"):
        name = make_odd_file(kind, tmp_path / f"odd{suffix}")
    words = filled(INPUTS[command], ODD=tmp_path / "odd", GOOD=built, OUT=tmp_path / "out")
    with unchanged(tmp_path), at_most(60):
        refuses(run(*words), "must be a readable file", "odd", f"it is {name}")


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a link to a device", "a folder"])
@pytest.mark.parametrize("command", OUTPUTS)
def test_outputs(run: Run, tmp_path: Path, command: str, kind: str) -> None:
    name = make_odd_file(kind, tmp_path / "odd")
    words = filled(OUTPUTS[command], ODD=tmp_path / "odd")
    with unchanged(tmp_path), at_most(60):
        refuses(
            run(*words), f"must be a regular file or a new name, and '{tmp_path}/odd' is {name}"
        )


@pytest.mark.parametrize("kind", ["a pipe", "a link to a device", "a link to nothing"])
@pytest.mark.parametrize("command", FOLDERS)
def test_output_folders(run: Run, tmp_path: Path, command: str, kind: str) -> None:
    make_odd_file(kind, tmp_path / "odd")
    words = filled(FOLDERS[command], ODD=tmp_path / "odd", OUT=tmp_path / "out")
    with unchanged(tmp_path), at_most(60):
        refuses(run(*words), "an output folder must be one that can be", f"'{tmp_path}/odd'")


@pytest.mark.parametrize("name", FILES_IN_FOLDERS)
def test_files_in_output_folders(run: Run, tmp_path: Path, name: str) -> None:
    make_odd_file("a pipe", tmp_path / name)
    words = filled(FILES_IN_FOLDERS[name], FOLDER=tmp_path)
    with unchanged(tmp_path), at_most(60):
        refuses(run(*words), f"must be a regular file or a new name, and '{tmp_path}/{name}' is a")


def test_one_file_for_two_outputs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("old")
    (tmp_path / "link").symlink_to("page")
    arguments = ("--html", tmp_path / "page", "--trace", tmp_path / "link")
    with unchanged(tmp_path):
        refuses(run("profile", "none.daedal", *arguments), "outputs must be different files")
