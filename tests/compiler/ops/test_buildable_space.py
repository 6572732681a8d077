"""`BuildableSpace`: no schedule of too many instructions, and all that surely take fewer."""

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen import accelerator
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.accelerator import buildable_space
from daedal.compiler.ops.accelerator.lowering import buildable_space_of, lower_node
from daedal.compiler.ops.space import Config
from daedal.isa.variant import load_variant
from tests.support.blocked_layer import blocked_layers
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

TINY = load_variant("tiny")
NAMES = ("conv2d", "depthwise_conv2d", "conv_transpose2d", "max_pool", "add", "matmul")


def layer(name: str, seed: int) -> tuple[Graph, Node]:
    graph, nodes = blocked_layers(OPERATORS[name].graph(Pick.seeded((seed, 1)), TINY), TINY)
    return graph, nodes[0]


def builds(graph: Graph, node: Node, config: Config | None) -> bool:
    try:
        for item in lower_node(graph, node, TINY, config):
            emit_segment(item.schedule.func, TINY, views=item.views)
    except ScheduleError as error:
        assert "instructions" in str(error)
        return False
    return True


def limit(patch: pytest.MonkeyPatch, count: int) -> None:
    patch.setattr(accelerator, "MAX_LAYER_INSTRUCTIONS", count)
    patch.setattr(buildable_space, "MAX_LAYER_INSTRUCTIONS", count)


@pytest.mark.parametrize("name", NAMES)
def test_it_holds_what_builds(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, node = layer(name, seed)
    whole = buildable_space_of(graph, node, TINY).template
    configs = whole.sample(np.random.default_rng(seed), 8)
    least, most = (bound.max(axis=0) for bound in whole.instructions(whole.table(configs)))
    for count in (int(np.median(most)), int(most.min()) - 1):
        limit(monkeypatch, count)
        space = buildable_space_of(graph, node, TINY)
        fitting = space.fits(whole.table(configs)).tolist()
        for config, fits, few in zip(configs, fitting, 2 * least <= count, strict=True):
            built = builds(graph, node, config)
            sure = few or config == whole.default
            assert built if fits else not (built and sure), f"{config}, seed {seed}, most {count}"


def test_the_default_builds_if_anything_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, node = layer("conv2d", seed)
    whole = buildable_space_of(graph, node, TINY).template
    usual = whole.default
    assert buildable_space_of(graph, node, TINY).default == usual
    counts = whole.instructions(whole.all())[0].max(axis=0)
    limit(monkeypatch, int(counts.min()))
    space = buildable_space_of(graph, node, TINY)
    if list(space.enumerate()):
        assert space.fits(space.table([space.default])).all()
    limit(monkeypatch, 0)
    space = buildable_space_of(graph, node, TINY)
    assert not list(space.enumerate())
    assert space.default == usual
    assert not builds(graph, node, None)
