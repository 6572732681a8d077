"""What options take and give: which machines are compared, and how a network runs on them."""

from pathlib import Path

import numpy as np
import pytest

from bench.networks.transformer_models import Transformer
from bench.synthesis import option_costs
from bench.synthesis.option_costs import ESTIMATED, OPTIONS, network_run, without
from daedal.isa.variant import load_variant
from tests.support.heads import Heads, attention_layer


def test_the_variant_has_all_options() -> None:
    large = load_variant(ESTIMATED[0])
    none = large.replace(None, **without(*OPTIONS))
    for name, change in OPTIONS.items():
        assert large.replace(None, **change) == large
        assert none.replace(None, **without(name)) == none != large.replace(None, **without(name))


def test_what_a_machine_cannot_do_ends_a_launch(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(option_costs, "CYCLES", tmp_path)
    heads = Heads(attention=True)
    model = attention_layer(rng, heads).SerializeToString()
    tokens = rng.normal(size=(1, heads.tokens, heads.depth)).astype(np.float32)
    network = Transformer("layer", model, model, {"x": tokens})
    told: list[str] = []
    with_all, with_none = (
        network_run(network, variant, told.append)
        for variant in (
            load_variant("attention"),
            load_variant("attention").replace(None, **without(*OPTIONS)),
        )
    )
    assert with_all["launches"] == 1 < with_none["launches"]
    assert 0 < with_none["macs"] < with_all["macs"] == 1
    assert with_all["cycles"] > with_none["cycles"] > 0
    assert told == ["layer on the cycle model"] * 2
    # The answers are kept.
    assert network_run(network, load_variant("attention"), told.append) == with_all
    assert len(told) == 2
