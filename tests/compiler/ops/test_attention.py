"""What attention's weights cost: a mask is added where it hides something."""

import numpy as np
import pytest

from daedal.compiler.graph import Graph
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.ops.attention import ATTENTION_WEIGHTS
from daedal.compiler.graph.ops.integer_rows import step_rows
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.types import TensorType
from daedal.compiler.integer.attention import (
    FILLER,
    HIDDEN,
    INDEX_BOUNDS,
    hiding_factor,
    index_step,
    weight_table,
)
from daedal.isa.table import AluOp, Opcode, OutMemory
from daedal.isa.variant import Variant, load_variant
from tests.support.levels import Compiled, check_levels

SCALE = 0.001
QUERIES = 10
VARIANTS = [
    load_variant("attention"),
    load_variant("tiny").replace("rows", tables=4, lane_reductions=True, wide_requantize=True),
]


def weights(keys: int, mask: np.ndarray | None, variant: Variant, queries: int = QUERIES) -> Graph:
    depth = variant.block
    builder = GraphBuilder("layer")
    constants = {
        "factor": np.array([correction(0)[0]], dtype=np.int8),
        "table": weight_table(SCALE),
        "params": step_rows([index_step(SCALE, variant.units.multiplier_bits)]),
        **({} if mask is None else {"mask": mask.astype(np.int8)}),
    }
    operands = [
        builder.input("q", TensorType((1, depth, queries, 1), "int8")),
        builder.input("k", TensorType((1, depth, keys, 1), "int8")),
        *(builder.constant(name, value) for name, value in constants.items()),
    ]
    zero_point, low, high = INDEX_BOUNDS
    attrs = {
        "zero_point_a": 0,
        "zero_point_b": 0,
        "columns": keys,
        "mask_factor": hiding_factor(SCALE, depth * 128 * 128),
        "filler": FILLER,
        "zero_point": zero_point,
        "low": low,
        "high": high,
    }
    return builder.finish([builder.add(ATTENTION_WEIGHTS.name, operands, attrs, output="y")])


def additions(compiled: Compiled) -> int:
    """Rows to which another row is added."""
    return sum(
        item.extent0 * item.extent1 * item.extent2 * (item.uop_end - item.uop_begin)
        for item in compiled.result.launch.program.instructions
        if item.opcode is Opcode.ALU
        and item.operation == AluOp.ADD
        and item.destination == OutMemory.ACC
        and not item.use_immediate
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("blocks", [1, 3])
def test_keys_that_fill_a_block_cost_additions_to_this_block(
    variant: Variant, blocks: int, rng: np.random.Generator
) -> None:
    graph = weights(blocks * variant.block - 3, None, variant)
    check_levels(graph, variant, {name: int8(rng, graph, name) for name in graph.inputs})
    assert additions(Compiled.of(graph, variant)) == QUERIES


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_mask_is_added_from_its_first_block_on(first: int, rng: np.random.Generator) -> None:
    variant = VARIANTS[0]
    mask = np.zeros((1, 3 * variant.block, 1, 1))
    mask[:, first * variant.block + 5 :] = HIDDEN
    graph = weights(3 * variant.block, mask, variant)
    check_levels(graph, variant, {name: int8(rng, graph, name) for name in graph.inputs})
    assert additions(Compiled.of(graph, variant)) == QUERIES * (3 - first)


def test_few_queries_of_many_keys_are_one_tile() -> None:
    """The maximum of a query waits for each of its blocks, meanwhile for those of other queries."""
    compiled = Compiled.of(weights(272, None, VARIANTS[0], queries=4), VARIANTS[0])
    operations = [
        item.operation
        for item in compiled.result.launch.program.instructions
        if item.opcode is Opcode.ALU
    ]
    assert operations.count(AluOp.MAX) == 1


def int8(rng: np.random.Generator, graph: Graph, name: str) -> np.ndarray:
    return rng.integers(-128, 128, graph.types[name].shape).astype(np.int8)
