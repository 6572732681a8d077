"""Every operator at every level: numpy = te = loop IR after each primitive = the machine.

The quick examples run always; ``-m slow`` runs many more, of the same kind.
"""

from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from daedal.isa.variant import Variant, load_variant
from tests.support.accelerator import micro_variant
from tests.support.levels import check_levels
from tests.support.operator_graphs.layer_graph import inputs_of
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

VARIANTS: dict[str, Variant] = {
    "tiny": load_variant("tiny"),
    "vta": load_variant("vta"),
    "batch4": load_variant("batch4"),
    "wide": load_variant("wide"),
    # Scratchpads so small that these maps take several tiles.
    "micro": micro_variant(inp_bytes=1024),
    "one_table": micro_variant(inp_bytes=1024, tables=1, wide_requantize=True),
    "tables": load_variant("vta").replace("tables", tables=4, wide_requantize=True),
    "rows": load_variant("vta").replace(
        "rows", tables=4, lane_reductions=True, wide_requantize=True
    ),
    "wide_in": micro_variant(block_in=16, wgt_bytes=8192, inp_bytes=2048, depthwise_taps=0),
    "wide_out": micro_variant(
        block_out=16,
        wgt_bytes=8192,
        inp_bytes=2048,
        acc_bytes=4096,
        out_bytes=1024,
        par_bytes=512,
        depthwise_taps=0,
    ),
}

NUM_QUICK, NUM_SLOW = 1, 10

# Making a failing layer smaller compiles it hundreds of times: it is small enough as it comes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def check(name: str, variant: str, pick: Pick) -> None:
    graph = OPERATORS[name].graph(pick, VARIANTS[variant])
    check_levels(graph, VARIANTS[variant], inputs_of(graph, pick))


def examples(name: str) -> Callable[[], None]:
    """A property of operator `name`, for hypothesis to run."""

    able = [key for key, variant in VARIANTS.items() if OPERATORS[name].runs_on(variant)]

    @given(st.sampled_from(able), st.integers(0, 2**32 - 1), st.data())
    def test(variant: str, seed: int, data: st.DataObject) -> None:
        check(name, variant, Pick.drawn(data, seed))

    return test


@pytest.mark.parametrize("name", OPERATORS)
def test_every_level(name: str) -> None:
    settings(max_examples=NUM_QUICK, phases=PHASES)(examples(name))()


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_every_level_of_many_shapes(name: str) -> None:
    settings(max_examples=NUM_SLOW, phases=PHASES)(examples(name))()
