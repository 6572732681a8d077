"""regs.h, as a C compiler sees it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from daedal.isa.docs import registers_header
from daedal.isa.registers import MARK_BYTES, REGISTERS, CycleClass, ErrorCode


@pytest.mark.parametrize(("command", "suffix"), [("cc", "c"), ("c++", "cc")])
def test_every_number_is_what_the_table_says(tmp_path: Path, command: str, suffix: str) -> None:
    compiler = shutil.which(command)
    if compiler is None:
        pytest.skip(f"needs a C compiler, {command}; install g++")
    expected = {
        **{f"DAEDAL_{item.name.upper()}": item.offset for item in REGISTERS},
        **{f"DAEDAL_ERROR_{code.name}": int(code) for code in ErrorCode},
        **{f"DAEDAL_CLASS_{kind.name}": int(kind) for kind in CycleClass},
        "DAEDAL_MARK_BYTES": MARK_BYTES,
    }
    prints = "\n".join(f'  printf("{name} %u\\n", {name});' for name in expected)
    includes = '#include "regs.h"\n#include "regs.h"\n#include <stdio.h>\n'
    source = f"{includes}int main(void) {{\n{prints}\n  return 0;\n}}\n"
    (tmp_path / "regs.h").write_text(registers_header())
    (tmp_path / f"print.{suffix}").write_text(source)
    flags = ["-Wall", "-Wextra", "-Werror", "-o", "print"]
    subprocess.run([compiler, *flags, f"print.{suffix}"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "print"], capture_output=True, text=True, check=True)
    found = {
        name: int(value) for name, value in (line.split() for line in done.stdout.splitlines())
    }
    assert found == expected
    assert registers_header().count("#define") == len(expected) + 1  # and the guard
