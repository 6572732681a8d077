"""`daedal explore`: bad input, limits that nothing keeps, and full disks."""

import dataclasses
import errno
import os
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from bench.qdq_model import QdqModel
from daedal.codesign import explore as explore_module
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.front_search import Goal
from daedal.codesign.search.objectives import USABLE, Objective, parse_limits
from daedal.hw.synth.families import Family
from daedal.isa.variant import load_variant
from tests.support.command_line import Run, refuses
from tests.support.exploring import COUNT, DIGITS, OPTIONS, Counting, contents, explored, lines

ORDER = (
    *("search.json", "estimates.jsonl", "progress.json", "front.json", "front.csv"),
    *("variant.toml", "digits_qdq.daedal", "digits_qdq.profile.json"),
    *("predicted.json", "index.html"),
)
"""Files of a search in the order in which they are first written as a whole."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--objective", "speed"), "objectives are latency, area"),
        (("--limit", "speed=1"), "a limit is an objective and a number above 0"),
        (("--objective", ""), "objectives are latency, area"),
        (("--limit", "lut=120"), "a limit of lut is at most 100 percent of the device"),
        (("--evaluations", 0), "a budget is a number above 0, not 0"),
        (("--budget", 0), "a budget is a number above 0, not 0"),
        (("--budget", "nan"), "a budget is a number above 0, not nan"),
        (("--clock", "inf"), "a clock is a number above 0 MHz, not inf"),
        (("--budget", 1, "--evaluations", 1), "one budget"),
        (("--clock", 0), "a clock is a number above 0 MHz"),
        (("--tls", "certificates"), "tls is for pools; give a pool, too"),
        (("--pool", "nowhere"), "a pool's address must be HOST:PORT"),
        (("--pool", "192.0.2.1:80"), "a pool beyond this machine must have certificates"),
        (("--fpga", "xczu3eg"), "choose --fpga ecp5-85f"),
        (("--base", "huge"), "a variant is one of"),
        (("--base", "int4"), "inputs and weights of 8 bits, as quantized ONNX models have"),
        (("--base", "int16"), "not 16 and 16 (variant 'int16')"),
        (("--host-rates", "none.json"), "host rates must be a readable file"),
        (("--memory", "jitter"), "a memory without random delays, not 'jitter'"),
        (("--board", "ulx3s-85f"), "give one of --fpga and --board"),
        (("--memory", "ulx3s", "--base", "wide"), "bus.data_bits must be 64 with this SDRAM"),
        ((DIGITS,), "networks need different file names"),
    ],
)
def test_settings_that_cannot_be(
    run: Run, tmp_path: Path, options: tuple[object, ...], words: str
) -> None:
    folder = tmp_path / "found"
    answer = run("explore", DIGITS, "--fpga", "ecp5-85f", "-o", folder, *options)
    refuses(answer, words)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--fpga", "vu9p"),
            "error: --fpga must be one of 'xc7z020', 'xczu3eg', 'ecp5-85f', not 'vu9p'",
        ),
        (("--seed", -1), "error: --seed must be greater than or equal to 0, not '-1'"),
        (("--workers", 0), "error: --workers must be greater than or equal to 1, not '0'"),
    ],
)
def test_values_that_an_option_does_not_have(
    run: Run, tmp_path: Path, options: tuple[object, ...], words: str
) -> None:
    status, out, err = explored(run, tmp_path / "found", *options)
    assert (status, out) == (2, "")
    assert words in err
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize(
    ("limit", "nearest"), [(("latency", 0.001), r"0\.\d+"), (("block_ram", 0.1), r"\d[\d.]*")]
)
def test_a_limit_that_no_variant_meets(
    run: Run, tmp_path: Path, counting: Counting, limit: tuple[str, float], nearest: str
) -> None:
    name, most = limit
    answer = explored(run, tmp_path / "found", "--limit", f"{name}={most}")
    refuses(answer, f"no variant found keeps {name} at most {most:g}; the nearest has ", "raise")
    assert re.search(rf"has {nearest} \(x[0-9a-f]{{12}}\);", answer[2])
    assert not (tmp_path / "found" / "points").exists()


def test_the_nearest_variant_is_named() -> None:
    def item(latency: float, block_ram: float, name: str) -> Evaluation:
        variant = dataclasses.replace(load_variant("ecp5"), name=name)
        used = {"lut": 1.0, "ff": 1.0, "dsp": 1.0, "block_ram": 2.08 * block_ram}
        return Evaluation(variant, Family.ECP5, Step.counted, {"net": latency * 1e5}, used, 100.0)

    found = {(0,): item(0.5, 90.0, "fast"), (1,): item(1.3, 20.0, "near"), (2,): None}
    goal = Goal((Objective.latency,), parse_limits(["latency=1", "block_ram=25"]), USABLE)
    said = str(explore_module.nothing_found(found.values(), goal))
    assert "keeps latency at most 1 with all other limits; the nearest has 1.3 (near)" in said
    del found[(0,)]
    said = str(explore_module.nothing_found(found.values(), goal))
    assert "keeps latency at most 1; the nearest has 1.3 (near)" in said


def test_folders_that_cannot_be(run: Run, done: Path, tmp_path: Path) -> None:
    before = contents(done)
    answer = explored(run, done, "--seed", 1)
    refuses(answer, "must be that of the same search", "with another seed")
    settings = done / "search.json"
    text = settings.read_text()
    settings.write_text(text.replace('"kit": "', '"kit": "0.0.'))
    refuses(explored(run, done), "with another kit")
    settings.write_text(text)
    assert contents(done) == before
    file = tmp_path / "file"
    file.write_text("mine")
    refuses(explored(run, file), "an output folder must be one that can be made", "'")
    assert file.read_text() == "mine"


def test_a_network_with_nothing_for_the_accelerator(run: Run, tmp_path: Path) -> None:
    net = QdqModel()
    path, folder = tmp_path / "host.onnx", tmp_path / "found"
    path.write_bytes(net.model(net.op("Erf", net.input("x", (1, 8)))).SerializeToString())
    answer = run("explore", path, *OPTIONS, "--evaluations", 1, "-o", folder)
    refuses(answer, "network 'host': ")
    assert not folder.exists()


def test_a_disk_that_is_full_for_a_file(
    run: Run, done: Path, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is written then: one sentence, nothing half-written, and the search goes on."""
    folder, names = tmp_path / "found", {path.name for path in done.rglob("*") if path.is_file()}
    made, opened = tempfile.mkstemp, os.fdopen
    fails_at, handles = [""], dict[int, str]()

    def make(**given: Any) -> tuple[int, str]:
        handle, path = made(**given)
        handles[handle] = given["prefix"]
        return handle, path

    def open_full(handle: int, mode: str) -> Any:
        file = opened(handle, mode)
        if handles.pop(handle, "") == f".{fails_at[0][:40]}.":
            file = mock.Mock(wraps=file)
            file.__enter__, file.__exit__ = lambda _self: file, lambda *_given: file.close()
            file.write.side_effect = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file

    monkeypatch.setattr(tempfile, "mkstemp", make)
    monkeypatch.setattr(os, "fdopen", open_full)
    for name in ORDER:
        fails_at[0] = name
        answer = explored(run, folder)
        refuses(answer, f"{name}' is not: No space left on device; make room")
        left = {path.name for path in folder.rglob("*") if path.is_file()}
        assert left <= names - {name}, name
    assert names - set(ORDER) == {"evaluations.jsonl"}, "the others were tried"
    fails_at[0] = ""
    assert explored(run, folder)[0] == 0
    assert contents(folder) == contents(done)


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk(
    run: Run, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """It fills after so many variants; the search goes on where there is room again."""
    folder = tmp_path / "found"
    opened = Path.open

    def full(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        if mode == "a" and lines(folder) == after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, mode, *given, **named)

    with monkeypatch.context() as context:
        context.setattr(Path, "open", full)
        answer = explored(run, folder)
    refuses(answer, "No space left on device; make room, and the same command continues")
    assert lines(folder) == after
    counting.counted.clear()
    status, _, err = explored(run, folder)
    assert status == 0, err
    assert len(counting.counted) == COUNT - after
