"""``daedal inspect``: the tables for people, the same as JSON, and one sentence for bad input."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import Artifact, Launch
from tests.support.command_line import Run, refuses
from tests.support.small_networks import island


def test_tables(run: Run, built: Path) -> None:
    status, out, err = run("inspect", built / "digits.daedal", "--mhz", 50)
    assert status == 0, err
    titles = ("Parts, in order", "Layers on the accelerator", "Nodes of the model")
    assert [line for line in out.splitlines() if line in titles] == list(titles)
    cycles = daedal.profile(Artifact.load(built / "digits.daedal"), device="timing").cycles
    assert re.search(rf" launch +input_q +fc0_q +7 .* {cycles:,} +{cycles / 50e3:,.3f} ms", out)
    assert re.search(r" conv3_linear +q_conv2d +conv3_q +1x32x4x4 +73,728 ", out)
    assert re.search(r" add0_linear +Add +accelerator +add0_q +0\.0 %", out)
    assert re.search(r" probabilities +Softmax +host +the variant has no tables", out)
    assert "28 more" in out and "no work is left" in out
    (total,) = (line for line in out.splitlines() if line.startswith("a run takes "))
    launched, host, whole = (
        float(re.search(pattern, total)[1])  # type: ignore[index]
        for pattern in (r"([\d.]+) ms in one launch", r"([\d.]+) ms on the host", r"takes ([\d.]+)")
    )
    assert launched == round(cycles / 50e3, 3)
    assert abs(launched + host - whole) <= 0.002
    assert out.splitlines()[-1].startswith("cycles: of the cycle model with memory ddr; ")


def test_json(run: Run, tmp_path: Path, rng: np.random.Generator) -> None:
    artifact = daedal.compile(island(rng).SerializeToString(), "tiny")
    artifact.save(tmp_path / "island.daedal")
    status, out, err = run("inspect", tmp_path / "island.daedal", "--json", "--memory", "ideal")
    assert status == 0, err
    report = json.loads(out)
    assert (report["variant"], report["memory"], report["mhz"]) == ("tiny", "ideal", 100)
    kinds = [part["kind"] for part in report["parts"]]
    assert kinds == ["host", "launch", "host", "launch", "host"]
    outputs = [layer["output"] for part in report["parts"] for layer in part.get("layers", ())]
    assert outputs == [layer.output for layer in artifact.layers]
    assert report["seconds"] == pytest.approx(sum(part["seconds"] for part in report["parts"]))
    (sigmoid,) = (node for node in report["nodes"] if node["op"] == "Sigmoid")
    assert (sigmoid["where"], sigmoid["part"]) == ("host", 2) and sigmoid["why"]

    bare = json.loads(run("inspect", tmp_path / "island.daedal", "--json", "--no-time-host")[1])
    assert bare["seconds"] is None
    assert {part["seconds"] for part in bare["parts"] if part["kind"] == "host"} == {None}


def test_bad_input(run: Run, built: Path, tmp_path: Path) -> None:
    refuses(run("inspect", tmp_path / "none.daedal"), "an artifact must be a readable file")
    artifact = built / "digits.daedal"
    answer = run("inspect", artifact, "--memory", "jitter")
    refuses(answer, "needs a memory without random delays, not 'jitter'")
    refuses(run("inspect", artifact, "--mhz", 0), "--mhz must be", "not '0'")


def test_marks_that_name_no_layer(run: Run, built: Path, tmp_path: Path) -> None:
    """`inspect` refused them, and `run` did not."""
    artifact = Artifact.load(built / "digits.daedal")
    parts = tuple(
        replace(
            part,
            program=replace(
                part.program,
                instructions=tuple(
                    item.replace(tag=99) if item.mark else item
                    for item in part.program.instructions
                ),
            ),
        )
        if isinstance(part, Launch)
        else part
        for part in artifact.parts
    )
    path = tmp_path / "marks.daedal"
    replace(artifact, parts=parts).save(path)
    for command in (("inspect", path), ("run", path, "-i", built / "images.npz")):
        refuses(run(*command), "must mark each unit's last instruction", "layer 99")
