"""How many instructions configurations take: counted as they are emitted, and bounded by spaces."""

import numpy as np
import pytest

from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.codegen.instruction_count import count_instructions
from daedal.compiler.ops.accelerator.lowering import lower_node
from tests.daedal.tuning.test_templates import TEMPLATES, layers

QUICK_LAYERS, QUICK_CONFIGS = 2, 8
SLOW_LAYERS, SLOW_CONFIGS = 6, 20


def check(name: str, seed: int, num_layers: int, num_configs: int) -> None:
    """Bounds hold the number that is counted, and this is the number that is emitted."""
    for label, variant, graph, node, space, rng in layers(name, seed, num_layers):
        configs = space.sample(rng, num_configs)
        bounds = space.instructions(space.table(configs))
        for config, least, most in zip(configs, *np.transpose(bounds, (0, 2, 1)), strict=True):
            functions = lower_node(graph, node, variant, config)
            counted = [
                count_instructions(item.schedule.func, variant, item.views) for item in functions
            ]
            emitted = [
                len(emit_segment(item.schedule.func, variant, views=item.views).instructions)
                for item in functions
            ]
            where = f"{label}, {node}: {config}"
            assert counted == emitted, where
            assert len(least) == len(counted), where
            assert (least <= counted).all() and (counted <= most).all(), (
                f"{where} takes {counted}, not between {least} and {most}"
            )


@pytest.mark.parametrize("name", TEMPLATES)
def test_bounds_hold_what_is_emitted(name: str, seed: int) -> None:
    check(name, seed, QUICK_LAYERS, QUICK_CONFIGS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_bounds_hold_what_is_emitted_by_many(name: str, seed: int) -> None:
    check(name, seed, SLOW_LAYERS, SLOW_CONFIGS)
