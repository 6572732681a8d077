"""Every template: the configurations of its space build, verify and give the layer's bytes.

Layers are small and random, of every operator and on several variants. A failure names the seed,
the variant and the configuration.
"""

import functools
import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.stream_layout import RowStreamLayout
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.ops.space import Table
from daedal.isa.memory_model import PRESETS
from daedal.isa.program import Program
from daedal.isa.variant import Variant, load_variant
from daedal.reports.schedule_features import feature_title
from daedal.tuning.layer_runner import LayerRunner, build
from tests.support.accelerator import micro_variant
from tests.support.blocked_layer import blocked_layers
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

VARIANTS: dict[str, Variant] = {
    "tiny": load_variant("tiny"),
    # Scratchpads so small that these maps take several tiles.
    "micro": micro_variant(inp_bytes=1024),
    "wide_in": micro_variant(block_in=16, wgt_bytes=8192, inp_bytes=2048, depthwise_taps=0),
    "batch4": load_variant("batch4"),
    "16_bits": micro_variant(inp_bytes=1024, wide_requantize=True),
    "attention": load_variant("tiny").replace(
        "small_attention", tables=4, lane_reductions=True, wide_requantize=True
    ),
}

STREAM = "conv2d on a stream"

TEMPLATES = (
    "conv2d",
    STREAM,
    "conv2d_add",
    "conv2d_mul",
    "grouped_conv2d",
    "depthwise_conv2d",
    "conv_transpose2d",
    "matmul",
    "add",
    "mul",
    "leaky_relu",
    "max_requantized",
    "requantize",
    "wide_add",
    "wide_conv2d",
    "wide_conv2d_add",
    "wide_matmul",
    "wide_requantize",
    "channel_requantize",
    "lookup",
    "conv2d_lookup",
    "softmax",
    "attention_weights",
    "weighted_mean",
    "layer_norm",
    "rms_norm",
    "wide_layer_norm",
    "wide_rms_norm",
    "max_pool",
    "avg_pool",
    "slice",
    "pad",
    "concat",
    "resize",
)
"""Operators whose layers have spaces."""

QUICK_LAYERS, QUICK_CONFIGS = 2, 2
SLOW_LAYERS, SLOW_CONFIGS = 6, 10


class FewChannels(Pick):
    """Maps that come from the host as streams."""

    def channels(self, variant: Variant) -> int:
        return self.integer(1, 3)


def num_rows(table: Table) -> int:
    return len(next(iter(table.values())))


Layer = tuple[str, Variant, Graph, Node, LayerSpace, np.random.Generator]


@functools.cache
def quick_layers(name: str) -> list[Layer]:
    """The layers of a template that all quick tests look at."""
    return list(layers(name, zlib.crc32(name.encode()), QUICK_LAYERS))


def layers(name: str, seed: int, count: int) -> Iterator[Layer]:
    """Random layers of an operator, with more than one configuration."""
    operator = OPERATORS["conv2d" if name == STREAM else name]
    picks = FewChannels if name == STREAM else Pick
    able = [key for key, variant in VARIANTS.items() if operator.runs_on(variant)]
    found = 0
    for number in range(50 * count):
        pick = picks.seeded((seed, number))
        key = able[number % len(able)]
        variant = VARIANTS[key]
        graph, nodes = blocked_layers(operator.graph(pick, variant), variant)
        for node in nodes:
            streams = isinstance(graph.types[node.inputs[0]].layout, RowStreamLayout)
            if streams != (name == STREAM):
                continue
            try:
                space = space_of(graph, node, variant)
            except ScheduleError:
                continue  # No schedule fits the variant: the host computes the layer.
            if space is not None and num_rows(space.all()) > 1:
                yield f"seed {seed}, layer {number} on {key}", variant, graph, node, space, pick.rng
                found += 1
        if found >= count:
            return
    raise AssertionError(f"too few layers of {name} have a choice: {found} of {count}")


def check(found: Iterable[Layer], num_configs: int) -> None:
    for label, variant, graph, node, space, rng in found:
        runner = LayerRunner(graph, node, variant)
        for config in [space.default, *space.sample(rng, num_configs)]:
            cycles = runner.measure(config)
            assert cycles is not None, f"{label}, {node}: {config} was not built"
            (bound,) = space.bound(space.table([config]), PRESETS["ddr"])
            assert bound <= cycles, f"{label}, {node}: {config} takes less than its bound"


@pytest.mark.parametrize("name", TEMPLATES)
def test_drawn_configurations_compute_the_layer(name: str) -> None:
    check(quick_layers(name), QUICK_CONFIGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_many_drawn_configurations_compute_the_layer(name: str, seed: int) -> None:
    check(layers(name, seed, SLOW_LAYERS), SLOW_CONFIGS)


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_default_is_what_the_compiler_builds(name: str) -> None:
    """With its default spelled out, a layer has the same program as without a configuration."""
    _, variant, graph, node, space, _ = quick_layers(name)[0]
    runner = LayerRunner(graph, node, variant)
    explicit = build(runner.task, space.default)
    implicit = build(runner.task, None)
    assert isinstance(explicit, Program) and isinstance(implicit, Program)
    assert explicit.encode() == implicit.encode()


@pytest.mark.parametrize("name", TEMPLATES)
def test_spaces_are_bounded_and_have_features(name: str) -> None:
    for _, _, _, _, space, _ in quick_layers(name):
        table = space.all()
        count = num_rows(table)
        assert count <= num_rows(space.combinations()) < 100_000
        columns = [space.cycles(table), *space.features(table).values()]
        assert all(column.shape == (count,) and np.isfinite(column).all() for column in columns)
        assert space.fits(space.table([space.default])).all()


@pytest.mark.parametrize("name", TEMPLATES)
def test_explanations_have_a_phrase_for_each_feature(name: str) -> None:
    for _, _, _, _, space, _ in quick_layers(name):
        named = space.features(space.table([space.default])).keys() - {"estimate"}
        assert [item for item in named if feature_title(item) == item.replace("_", " ")] == []
