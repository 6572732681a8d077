"""``daedal disasm``: what it prints is what the assembler reads."""

import json
from pathlib import Path

from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.variant import load_variant
from tests.support.command_line import Run


def test_disasm_reads_back(run: Run, built: Path, tmp_path: Path) -> None:
    status, out, _ = run("disasm", built / "digits.daedal", "--no-numbered")
    assert status == 0
    program = Program(load_variant("tiny"), tuple(assemble(out)))
    program.save(tmp_path / "alone.daedal")
    assert run("disasm", tmp_path / "alone.daedal", "--no-numbered")[1] == out
    listed = json.loads(run("disasm", built / "digits.daedal", "--json")[1])
    assert [item["opcode"] for item in listed] == [line.split()[0] for line in out.splitlines()]
