"""The command line in this process, and a compiled network to call it with."""

import sys
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal import cli
from examples.digits.data import demo_images
from tests.support.command_line import Answer, Run
from tests.support.kept_tools import kept_tools

__all__ = ["built", "kept_tools", "run"]

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call ``daedal ARGUMENTS`` from the repository, where built simulators are kept."""
    monkeypatch.chdir(ROOT)

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["daedal", *map(str, arguments)])
        capsys.readouterr()  # what was printed before, the seed for one
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
        streams = capsys.readouterr()
        return status, streams.out, streams.err

    return call


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits network compiled for `tiny`, and two images."""
    folder = tmp_path_factory.mktemp("built")
    daedal.compile(DIGITS, "tiny").save(folder / "digits.daedal")
    np.savez(folder / "images.npz", input=demo_images(2)[0])
    return folder
