"""``daedal disasm``: what it prints is what the assembler reads."""

import json
from pathlib import Path

import numpy as np

import daedal
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.variant import load_variant
from tests.support.command_line import Run, refuses
from tests.support.small_networks import island


def test_disasm_reads_back(run: Run, built: Path, tmp_path: Path) -> None:
    status, out, _ = run("disasm", built / "digits.daedal", "--no-numbered")
    assert status == 0
    program = Program(load_variant("tiny"), tuple(assemble(out)))
    program.save(tmp_path / "alone.daedal")
    assert run("disasm", tmp_path / "alone.daedal", "--no-numbered")[1] == out
    written = run("disasm", built / "digits.daedal", "--no-numbered", "-o", tmp_path / "digits.s")
    assert written[:2] == (0, "") and f"{len(program.instructions)} instructions" in written[2]
    assert (tmp_path / "digits.s").read_text("utf-8") == out
    listed = json.loads(run("disasm", built / "digits.daedal", "--json")[1])
    assert [item["opcode"] for item in listed] == [line.split()[0] for line in out.splitlines()]


def test_launches(run: Run, tmp_path: Path, rng: np.random.Generator) -> None:
    artifact = daedal.compile(island(rng).SerializeToString(), "tiny")
    artifact.save(tmp_path / "island.daedal")
    for number, launch in enumerate(artifact.launches):
        status, out, _ = run("disasm", tmp_path / "island.daedal", "--launch", number)
        assert status == 0 and out.startswith(f"# launch {number} of 2\n")
        assert tuple(assemble(out)) == launch.program.instructions
    refuses(run("disasm", tmp_path / "island.daedal", "--launch", 2), "from 0 to 1, not 2")
