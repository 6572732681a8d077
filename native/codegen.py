"""LLVM text to object code, and object code to addresses in this process."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm

from daedal.native.bodies.dot_products import with_dot_products
from daedal.native.bodies.half_conversions import with_half_conversions
from daedal.native.bodies.nearest_products import with_nearest_products
from daedal.native.bodies.packed_bytes import with_packed_bytes
from daedal.native.bodies.quotients import with_quotients
from daedal.native.bodies.tile_products import with_tile_products
from daedal.native.cpu import Cpu, host_cpu

__all__ = [
    "LoadedCode",
    "LoadedLibrary",
    "assembly_text",
    "compile_text",
    "compile_vectors",
    "load_object",
    "load_objects",
    "simplify",
]

_numbers = itertools.count()


@lru_cache(maxsize=4)
def _target_machine(cpu: Cpu) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    return llvm.Target.from_triple(cpu.triple).create_target_machine(
        cpu=cpu.name, features=cpu.feature_text, opt=3, reloc="pic", codemodel="small"
    )


def _parsed(text: str, cpu: Cpu) -> Any:
    for with_bodies in (
        with_tile_products,  # some of which add products
        with_dot_products,
        with_half_conversions,
        with_nearest_products,
        with_packed_bytes,
        with_quotients,
    ):
        text = with_bodies(text, cpu)
    module = llvm.parse_assembly(text)
    module.triple = cpu.triple
    module.data_layout = str(_target_machine(cpu).target_data)
    module.verify()
    return module


def _optimized(text: str, cpu: Cpu) -> Any:
    machine, module = _target_machine(cpu), _parsed(text, cpu)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    options.loop_unrolling = True
    options.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def compile_text(text: str, cpu: Cpu | None = None) -> bytes:
    """Object code of a module in LLVM's text form, optimized for `cpu` (this one by default).

    Raises RuntimeError if LLVM rejects the text, which is a bug in its generator.
    """
    cpu = cpu or host_cpu()
    data: bytes = _target_machine(cpu).emit_object(_optimized(text, cpu))
    return data


def simplify(module: Any, machine: Any) -> None:
    """Inline functions, make registers of stack slots, and compute equal values once."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))


def compile_vectors(text: str, cpu: Cpu | None = None) -> bytes:
    """Object code of a module whose loops are tiled and vectorized already.

    Only what such a text relies on is done before code generation: stack slots become registers,
    equal values are computed once. Raises RuntimeError if LLVM rejects the text.
    """
    cpu = cpu or host_cpu()
    machine, module = _target_machine(cpu), _parsed(text, cpu)
    simplify(module, machine)
    data: bytes = machine.emit_object(module)
    return data


def assembly_text(text: str, cpu: Cpu | None = None) -> str:
    """The same as assembler text, to inspect a kernel's code."""
    cpu = cpu or host_cpu()
    result: str = _target_machine(cpu).emit_assembly(_optimized(text, cpu))
    return result


@dataclass(frozen=True)
class LoadedCode:
    """Machine code in this process: valid as long as this object lives."""

    address: int
    tracker: Any


@lru_cache(maxsize=1)
def _linker() -> Any:
    return llvm.create_lljit_compiler(_target_machine(host_cpu()), use_jit_link=True)


def load_object(data: bytes, symbol: str) -> LoadedCode:
    """Link object code into this process and find `symbol`.

    Raises RuntimeError where it cannot be linked.
    """
    library = (
        llvm.JITLibraryBuilder()
        .add_object_img(data)
        .add_current_process()  # memset and memcpy, which LLVM calls on its own
        .export_symbol(symbol)
    )
    tracker = library.link(_linker(), f"daedal{next(_numbers)}")
    return LoadedCode(tracker[symbol], tracker)


@dataclass(frozen=True)
class LoadedLibrary:
    """Several functions in this process: valid as long as this object lives."""

    addresses: Mapping[str, int]
    tracker: Any


def load_objects(objects: Sequence[bytes], symbols: Sequence[str]) -> LoadedLibrary:
    """Link object files into this process and find `symbols`.

    Raises RuntimeError where they cannot be linked.
    """
    library = llvm.JITLibraryBuilder().add_current_process()
    for data in objects:
        library.add_object_img(data)
    for symbol in symbols:
        library.export_symbol(symbol)
    tracker = library.link(_linker(), f"daedal{next(_numbers)}")
    return LoadedLibrary({symbol: tracker[symbol] for symbol in symbols}, tracker)
