"""The models of block RAM and multiplier against what the vendor's guides say, in Python."""

from pathlib import Path

import numpy as np
import pytest

import daedal.sim.rtl
from tests.support.block_ram_model import BlockRam, PortSettings
from tests.support.verilog_player import play

pytestmark = pytest.mark.rtl

MODELS = (Path(daedal.sim.rtl.__file__).parent / "hdl" / "ecp5_cells.v").read_text()
CYCLES = 1500
INPUTS = {
    f"{pin}{port}": width
    for port in "AB"
    for pin, width in {
        "CE": 1, "OCE": 1, "RST": 1, "WE": 1, "CS": 3, "AD": 14, "DI": 18,
    }.items()
}  # fmt: skip
OUTPUTS = {"DOA": 18, "DOB": 18}
PORTS = {
    "two ports": (PortSettings(18), PortSettings(18)),
    "old words": (PortSettings(18, "READBEFOREWRITE"), PortSettings(9, "READBEFOREWRITE", True)),
    "new words": (PortSettings(9, "WRITETHROUGH", True), PortSettings(18, "WRITETHROUGH")),
    "36 to 36": (PortSettings(36), PortSettings(36, registered=True)),
    "36 to 18": (PortSettings(36), PortSettings(18, select=5)),
    "9 to 36": (PortSettings(9, select=2), PortSettings(36)),
    "narrow": (PortSettings(4, "READBEFOREWRITE"), PortSettings(1, "WRITETHROUGH")),
    "narrower": (PortSettings(2), PortSettings(9, "WRITETHROUGH", True)),
}


def block_ram(a: PortSettings, b: PortSettings, contents: int, seed: int) -> str:
    """The model with these settings behind the pins of `INPUTS` and `OUTPUTS`."""
    settings = [f".CONTENTS(18432'h{contents:x})"]
    for name, port in (("A", a), ("B", b)):
        settings += [
            f".WIDTH_{name}({port.width})",
            f'.WRITEMODE_{name}("{port.mode}")',
            f".REGISTER_{name}({int(port.registered)})",
            f".SELECT_{name}({port.select})",
        ]
    inputs = ", ".join(f"input [{width - 1}:0] {pin}" for pin, width in INPUTS.items())
    pins = ", ".join(f".{pin}({pin})" for pin in [*INPUTS, *OUTPUTS])
    return (
        f"`define ECP5_SEED {seed}\n{MODELS}\n"
        f"module dut(input clk, {inputs}, output [17:0] DOA, DOB);\n"
        f"ecp5_dp16kd #({', '.join(settings)}) ram(.CLK(clk), .SEED(7), {pins});\nendmodule\n"
    )


def random_pins(rng: np.random.Generator, a: PortSettings, b: PortSettings) -> list[dict[str, int]]:
    """Few addresses, so that ports meet; enables most of the time, resets now and then."""
    found = []
    for _ in range(CYCLES):
        pins = {pin: int(rng.integers(1 << width)) for pin, width in INPUTS.items()}
        for name, port in (("A", a), ("B", b)):
            pins[f"AD{name}"] &= 0x207F
            pins[f"CE{name}"] |= int(rng.random() < 0.6)
            pins[f"RST{name}"] = int(rng.random() < 0.03)
            pins[f"CS{name}"] = port.select if rng.random() < 0.9 else pins[f"CS{name}"]
        if b.width == 36:
            pins["WEB"] = 0
        found.append(pins)
    return found


@pytest.mark.parametrize("name", PORTS)
def test_block_ram(name: str, rng: np.random.Generator, seed: int) -> None:
    a, b = PORTS[name]
    contents = int.from_bytes(rng.bytes(18432 // 8))
    stimuli = random_pins(rng, a, b)
    found = play(block_ram(a, b, contents, seed & 0xFFFF), "dut", INPUTS, OUTPUTS, stimuli)
    model = BlockRam(a, b, contents)
    checked = unknown = surprises = 0
    for cycle, (pins, row) in enumerate(zip(stimuli, found, strict=True)):
        for pin, bits in model.outputs().items():
            value = row[pin]
            assert value is not None
            for place, bit in enumerate(bits):
                if bit is None:
                    unknown += 1
                    surprises += value >> place & 1
                else:
                    checked += 1
                    assert value >> place & 1 == bit, f"{pin}[{place}] in cycle {cycle}"
        model.clock(pins)
    assert checked > CYCLES * 18
    assert unknown > 100
    assert 0.3 < surprises / unknown < 0.7  # neither the old word nor the new one, nor zeros


def signed(value: int, is_signed: bool) -> int:
    return value - (1 << 18) if is_signed and value >> 17 else value


@pytest.mark.parametrize("stages", ["", "ABP", "ABMP", "AM", "P"])
@pytest.mark.parametrize("signs", [(0, 0), (1, 1), (1, 0)])
def test_multiplier(stages: str, signs: tuple[int, int], rng: np.random.Generator) -> None:
    """Each register has an enable and a reset, which goes first."""
    controls = {f"{pin}{stage}": 1 for stage in "ABMP" for pin in ("CE", "RST")}
    inputs = {"A": 18, "B": 18, **controls}
    settings = [f".SIGNED_{port}({value})" for port, value in zip("AB", signs, strict=True)]
    settings += [f".REGISTER_{stage}(1)" for stage in stages]
    names = ", ".join(f"input [{width - 1}:0] {pin}" for pin, width in inputs.items())
    pins = ", ".join(f".{pin}({pin})" for pin in [*inputs, "P"])
    verilog = (
        f"`define ECP5_SEED 0\n{MODELS}\nmodule dut(input clk, {names}, output [35:0] P);\n"
        f"ecp5_mult18x18d #({', '.join(settings)}) block(.CLK(clk), {pins});\nendmodule\n"
    )
    corners = [0, 1, 0x1FFFF, 0x20000, 0x3FFFF]
    stimuli = []
    for _ in range(500):
        row = {pin: int(rng.random() < (0.8 if "CE" in pin else 0.05)) for pin in controls}
        for pin in "AB":
            row[pin] = int(rng.choice(corners) if rng.random() < 0.3 else rng.integers(1 << 18))
        stimuli.append(row)
    found = play(verilog, "dut", inputs, {"P": 36}, stimuli)
    kept = dict.fromkeys("ABMP", 0)
    for row, outputs in zip(stimuli, found, strict=True):
        new = {"A": row["A"], "B": row["B"]}
        seen = {pin: kept[pin] if pin in stages else new[pin] for pin in "AB"}
        new["M"] = signed(seen["A"], bool(signs[0])) * signed(seen["B"], bool(signs[1]))
        new["P"] = kept["M"] if "M" in stages else new["M"]
        assert outputs["P"] == (kept["P"] if "P" in stages else new["P"]) % (1 << 36)
        for stage in "ABMP":
            if row[f"RST{stage}"]:
                kept[stage] = 0
            elif row[f"CE{stage}"]:
                kept[stage] = new[stage]
