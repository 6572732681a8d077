"""The stages of elementwise operators (`daedal.compiler.ops.elementwise`), and their intrinsics."""

from collections.abc import Sequence

from daedal.common.errors import ScheduleError
from daedal.compiler.graph.ops.looked_up import TABLE
from daedal.compiler.ops.accelerator.wide_results import result_intrin
from daedal.compiler.schedule.handles import BlockRef
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = [
    "MAP_RANK",
    "OWN_ROWS",
    "check_parameters",
    "has_input",
    "has_parameters",
    "load_table",
    "params_reader",
    "stages_of",
    "tensorize_result",
    "tensorize_rows",
    "tensorize_stages",
]

MAP_RANK = 7
"""Dimensions of a blocked map: (NB, CB, H, W, U, batch, lanes)."""

_STAGES = {
    "total": "alu_add",
    "product": "alu_mul",
    "larger": "alu_max",
    "smaller": "alu_min",
    "rescaled": "requantize_widen",
    "positive": "alu_mul_immediate",
    "negative": "alu_mul_immediate",
    "scaled_a": "alu_mul_immediate",
    "scaled_b": "alu_mul_immediate",
    "centred": "alu_sub_immediate",
    "centred_a": "alu_sub_immediate",
    "centred_b": "alu_sub_immediate",
    "wide": "load_widen",
    "wide_a": "load_widen",
    "wide_b": "load_widen",
}
"""Intrinsic of every stage, consumers first."""

OWN_ROWS = ("positive", "negative", "rescaled")
"""Stages that cannot work in place: something else reads the same operand."""


def stages_of(func: PrimFunc) -> dict[str, str]:
    """The stages of a function and the intrinsic of each; a factor of 1 has no stage."""
    present = {site.block.name for site in collect(func.body)[0]}
    return {name: intrin for name, intrin in _STAGES.items() if name in present}


def tensorize_stages(sch: Schedule, stages: dict[str, str]) -> None:
    """Tensorize every stage, as operations on rows or as one LOAD."""
    for name, intrin in stages.items():
        block = sch.get_block(name)
        if intrin == "load_widen":
            sch.tensorize(sch.get_loops(block)[-MAP_RANK], intrin)
        else:
            tensorize_rows(sch, block, intrin)


def check_parameters(func: PrimFunc, variant: Variant, names: Sequence[str]) -> None:
    """Raise ScheduleError unless all rows of the operands `names` fit the scratchpad of
    parameters."""
    needed = sum(buffer.shape[0] for buffer in func.inputs if buffer.name in names)
    available = scratchpad(variant, Memory.PAR).depth_rows
    if needed > available:
        raise ScheduleError(
            f"parameters of {func.name!r} must fit scratchpad 'par' of {available} rows, and take "
            f"{needed}; use a variant with a larger one"
        )


def params_reader(sch: Schedule) -> BlockRef:
    """The block that requantizes with the operator's own parameters."""
    return sch.get_block("rescaled" if "rescaled" in stages_of(sch.bare) else "y")


def tensorize_result(sch: Schedule) -> None:
    """Tensorize ``y``: a requantization, maybe with a table, or the larger one or the sum of two
    values that need no other one."""
    y = sch.get_block("y")
    if not has_parameters(sch):
        tensorize_rows(sch, y, "alu_add")
        return
    if has_input(sch, TABLE):
        load_table(sch, y, TABLE)
        tensorize_rows(sch, y, "lookup")
        return
    chosen = "rescaled" in stages_of(sch.bare)
    tensorize_rows(sch, y, "alu_max_result" if chosen else result_intrin(sch))


def has_input(sch: Schedule, name: str) -> bool:
    """Whether the function has an operand `name`."""
    return any(buffer.name == name for buffer in sch.bare.inputs)


def has_parameters(sch: Schedule) -> bool:
    """Whether the operator requantizes, apart from a convolution before it."""
    return has_input(sch, "params")


def load_table(sch: Schedule, reader: BlockRef, name: str) -> None:
    """Load the table `name`, which `reader` reads, once for the whole layer."""
    table = sch.cache_read(reader, name, "tab")
    sch.tensorize(sch.get_loops(table)[0], "load")


def tensorize_rows(sch: Schedule, block: BlockRef, intrin: str) -> None:
    """Tensorize the two innermost loops, over one row, as an operation."""
    sch.tensorize(sch.get_loops(block)[-2], intrin)
