"""Programs for comparing the timing model with the RTL, as launches of one variant.

Timing depends only on a program, the addresses of its regions and its micro-ops, so inputs stay
zero unless they carry micro-ops.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.left_out import LeftOut
from bench.networks.starvation import networks_there
from bench.networks.unit_streams import unit_streams
from bench.zoo.networks import NETWORKS as NETWORKS_OF_ZOO
from bench.zoo.quantized import quantized
from daedal.common.errors import DaedalError
from daedal.compiler.model import compile_model
from daedal.isa.memory_model import MemoryModel
from daedal.isa.program import Program
from daedal.isa.protocols import next_page
from daedal.isa.random_programs import random_program
from daedal.isa.variant import Variant
from daedal.isa.vta.dump import VtaProgram
from daedal.isa.vta.translate import check_variant, translate
from daedal.sim.rtl.launch import Launch

__all__ = [
    "ROOT",
    "Case",
    "network_cases",
    "random_cases",
    "stream_cases",
    "vta_cases",
    "zoo_cases",
]

ROOT = Path(__file__).resolve().parents[2]
VTA_FOLDER = ROOT.parent / "shared" / "vta-streams"
ZOO_NETWORKS = ("resnet18", "mobilenet_v1")
ZOO_VARIANT = "vta"


@dataclass(frozen=True)
class Case:
    """A program, its regions' contents by base register, and what group of programs it is of."""

    name: str
    group: str
    program: Program
    regions: tuple[bytes, ...]

    def launch(self, timing: MemoryModel) -> Launch:
        """The regions one after the other, each on its own page, as every device places them."""
        memory = bytearray()
        bases = []
        for data, size in zip(self.regions, self.program.region_bytes, strict=True):
            bases.append(len(memory))
            memory += data.ljust(next_page(max(size, 1)), b"\0")
        return Launch(self.program, tuple(bases), bytes(memory), timing=timing)


def stream_cases(variant: Variant) -> Iterator[Case]:
    """The streams of `bench.networks.unit_streams`."""
    for stream in unit_streams(variant):
        yield _bare(stream.name, "streams", stream.program)


def random_cases(variant: Variant, seeds: range, length: int = 24) -> Iterator[Case]:
    """Random programs, with what their regions hold: micro-ops lie among it."""
    for seed in seeds:
        case = random_program(variant, seed, length=length)
        contents = {0: case.program.constants, **case.contents}
        regions = tuple(contents.get(base, b"") for base in range(4))
        yield Case(f"random {seed}", "random", case.program, regions)


def network_cases(variant: Variant, left_out: LeftOut, only: str = "") -> Iterator[Case]:
    """Networks that are there. Only variants with inputs and weights of 8 bits run any."""
    array = variant.array
    if (array.input_bits, array.weight_bits) == (8, 8):
        for name, path in networks_there(left_out, lambda name: only in f"networks {name}"):
            yield _bare(name, "networks", compile_model(path, variant).program)


def zoo_cases(variant: Variant) -> Iterator[Case]:
    """Whole networks of the zoo; on one variant only, as each takes the RTL a minute."""
    if variant.name == ZOO_VARIANT:
        for name in ZOO_NETWORKS:
            program = compile_model(quantized(NETWORKS_OF_ZOO[name]), variant).program
            yield _bare(NETWORKS_OF_ZOO[name].title, "whole networks", program)


def vta_cases(variant: Variant, left_out: LeftOut, only: str = "") -> Iterator[Case]:
    """Translated VTA programs, where the variant can hold VTA's tiles."""
    try:
        check_variant(variant)
    except DaedalError:
        return
    if not VTA_FOLDER.is_dir():
        left_out.add("translated VTA programs", f"need the folder {VTA_FOLDER}")
    for path in sorted(VTA_FOLDER.glob("*/insn.bin")):
        name = path.parent.name
        if only in name:
            translation = translate(VtaProgram.from_folder(path.parent), variant)
            program = translation.program
            regions = (program.constants, *(translation.region(base) for base in range(1, 4)))
            yield Case(name, "VTA", program, regions)


def _bare(name: str, group: str, program: Program) -> Case:
    return Case(name, group, program, (program.constants, b"", b"", b""))
