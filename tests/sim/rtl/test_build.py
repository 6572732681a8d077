"""Building simulators: the cache, its keys, and what a failed build leaves behind."""

import dataclasses
import shutil
import sys
import threading
from pathlib import Path

import pytest

from daedal.common.errors import ToolError
from daedal.sim.rtl import compile as compile_module
from daedal.sim.rtl import compile_native
from daedal.sim.rtl.build import Built, build_simulator
from daedal.sim.rtl.kept import is_whole, seal
from daedal.sim.rtl.toolchain import find_verilator

pytestmark = pytest.mark.rtl

SIZES = {"data_bits": 64, "addr_bits": 32, "words": 1024}


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_build_is_found_again(simulator: str, standin: Built, standin_verilog: str) -> None:
    again = build_simulator(
        standin_verilog,
        data_bits=standin.data_bits,
        addr_bits=standin.addr_bits,
        words=standin.words,
        cache_dir=standin.program.parent.parent,
        simulator=simulator,
    )
    assert again.build_seconds == 0
    assert again.program == standin.program


def test_text_and_path_are_the_same_and_anything_else_is_not(
    icarus: str, standin_verilog: str, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    source = tmp_path / "design.v"
    source.write_text(standin_verilog)
    options = {"cache_dir": cache, "simulator": icarus}
    first = build_simulator(standin_verilog, **SIZES, **options)
    assert first.build_seconds > 0
    assert build_simulator(source, **SIZES, **options).program == first.program
    others = [
        build_simulator(standin_verilog + "\n", **SIZES, **options),
        build_simulator(standin_verilog, **SIZES | {"words": 2048}, **options),
        build_simulator(standin_verilog, **SIZES, **options, waves=True),
    ]
    assert len({first.program, *(built.program for built in others)}) == 4


def test_concurrent_builders_share_one_build(
    icarus: str, standin_verilog: str, tmp_path: Path
) -> None:
    results: list[Built] = []

    def build() -> None:
        results.append(
            build_simulator(standin_verilog, **SIZES, cache_dir=tmp_path, simulator=icarus)
        )

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(built.build_seconds > 0 for built in results) == [False, False, True]
    assert len(entries(tmp_path)) == 1


def test_a_refused_design_leaves_nothing(simulator: str, tmp_path: Path) -> None:
    steps: list[str] = []
    with pytest.raises(ToolError, match=r"could not build the simulator \(exit status") as caught:
        build_simulator(
            "module daedal_top(input ap_clk); assign nowhere.x = ; endmodule\n",
            **SIZES,
            cache_dir=tmp_path,
            simulator=simulator,
            progress=steps.append,
        )
    assert "syntax error" in str(caught.value)
    assert entries(tmp_path) == []
    assert len(steps) == 1


def test_an_interrupted_build_leaves_nothing(
    icarus: str, standin_verilog: str, tmp_path: Path
) -> None:
    def interrupt(_sentence: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_simulator(
            standin_verilog, **SIZES, cache_dir=tmp_path, simulator=icarus, progress=interrupt
        )
    assert entries(tmp_path) == []


def test_an_unknown_simulator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="must be one of native, verilator, icarus, not 'questa'"):
        build_simulator("", **SIZES, cache_dir=tmp_path, simulator="questa")


VIOLATION = 'module checked(input c); always @(posedge c) $fatal(1, "no"); endmodule\n'


def test_much_to_compile_is_optimized_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what runs in every cycle counts."""
    monkeypatch.setattr(compile_module, "LARGE_BYTES", 1000)
    (tmp_path / "Vtop__Slow.cpp").write_bytes(bytes(2000))
    (tmp_path / "Vtop__0.cpp").write_bytes(bytes(600))
    assert compile_module._less_optimization(tmp_path, False) == []
    assert compile_module._less_optimization(tmp_path, True) == ["OPT_FAST=-Og"]
    (tmp_path / "Vtop__1.cpp").write_bytes(bytes(600))
    assert compile_module._less_optimization(tmp_path, False) == ["OPT_FAST=-O1"]


def test_assertions_are_found_in_any_source(tmp_path: Path) -> None:
    (tmp_path / "plain.v").write_text("module plain; endmodule\n")
    (tmp_path / "checked.v").write_text(VIOLATION)
    assert not compile_module._checks_itself(tmp_path, ["plain.v"])
    assert compile_module._checks_itself(tmp_path, ["plain.v", "checked.v"])


def test_a_damaged_runtime_library_is_kept_anew(tmp_path: Path) -> None:
    (tmp_path / "obj").mkdir()
    for name in ("verilated.o", "verilated_vcd_c.o", "Vtop.o"):
        (tmp_path / "obj" / name).write_text(name)
    shared = compile_module._Shared.runtime(tmp_path, [])
    runtime = shared.folder
    for _ in range(2):
        shared.keep(tmp_path)
        assert is_whole(runtime, "verilated.o", "verilated_vcd_c.o")
        assert not (runtime / "Vtop.o").exists()
        (runtime / "verilated.o").write_text("verilatee.o")
        assert not shared.take(tmp_path / "obj")


@pytest.mark.slow
def test_a_precompiled_header_of_another_compiler(
    standin_verilog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GCC does not take it, as after an update that leaves the version as it was."""
    # Files so small that both the fast and the slow ones are compiled.
    options = ["50" if option == "20000" else option for option in compile_module._OPTIONS]
    monkeypatch.setattr(compile_module, "_OPTIONS", tuple(options))
    build_simulator(standin_verilog, **SIZES, cache_dir=tmp_path)
    (slow,) = tmp_path.glob("verilator-header-*/runtime.h.slow.gch")
    (fast,) = tmp_path.glob("verilator-header-*/runtime.h.fast.gch")
    shutil.copyfile(slow, fast)
    (fast.parent / "hashes.json").unlink()
    seal(fast.parent)
    text = standin_verilog + "// other\n"
    assert build_simulator(text, **SIZES, cache_dir=tmp_path).build_seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["native", "verilator"])
def test_blanks_in_paths(
    simulator: str, standin_verilog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In those of the cache, of Verilator and of Python."""
    folder = tmp_path / "some folder"
    folder.mkdir()
    found = find_verilator()
    (folder / "verilator").symlink_to(found.root)
    moved = dataclasses.replace(found, root=folder / "verilator")
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    for module in (compile_module, compile_native):
        monkeypatch.setattr(module, "find_verilator", lambda: moved)
    built = build_simulator(standin_verilog, **SIZES, cache_dir=folder, simulator=simulator)
    assert built.program.is_file() and built.build_seconds > 0
