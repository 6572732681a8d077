"""Cycles of whole transformers: ``python bench/networks/transformers.py --step cycles``.

Each is quantized (`bench.networks.transformer_models`), compiled, and run on its first test input:
on the cycle model and on the RTL, which must count the same cycles and give the bytes of the
functional simulator, whose layers are compared with the integer reference. The memory preset is
`ddr`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import daedal
from bench.networks.transformer_models import MODELS, Transformer
from daedal.artifact.artifact import Layer
from daedal.checking.layer_check import check_layers
from daedal.compiler.graph.ops.attention import ATTENTION_WEIGHTS, WEIGHTED_MEAN
from daedal.compiler.graph.ops.channel_requantize import Q_CHANNEL_REQUANTIZE
from daedal.compiler.graph.ops.integer_rows import ROW_OPERATORS
from daedal.runtime.layers import layer_cycles

__all__ = ["CycleRow", "cycle_rows", "exposed_cycles", "show_cycles"]

_COUNTED = (
    *ROW_OPERATORS,
    Q_CHANNEL_REQUANTIZE.name,
    ATTENTION_WEIGHTS.name,
    WEIGHTED_MEAN.name,
)
"""Softmax, norms and norms that are derived from others, and attention."""


@dataclass(frozen=True)
class CycleRow:
    """What was measured of one network.

    Attributes
    ----------
    macs_on_accelerator : share.
    macs, cycles, peak : the model's multiply-accumulates in the launches, their cycles, and the
        array's multiply-accumulates in a cycle.
    computed_macs : those of the layers: without results that nothing reads, with what passes add.
    exposed : `exposed_cycles`.
    rtl_cycles, rtl_differs : on the RTL; outputs whose bytes are not the functional simulator's.
    layers_compared, layers_wrong : functional simulator against the integer reference; tensors that
        enter the launch count, too.
    most_cycles, least_share, most_exposed : the bars.
    """

    network: str
    launches: int
    layers: int
    macs_on_accelerator: float
    macs: int
    computed_macs: int
    cycles: int
    peak: int
    exposed: int
    rtl_cycles: int
    rtl_differs: int
    layers_compared: int
    layers_wrong: int
    most_cycles: int | None = None
    least_share: float | None = None
    most_exposed: float | None = None

    @property
    def share(self) -> float:
        """Of the peak, by the model's multiply-accumulates."""
        return self.macs / (self.cycles * self.peak)

    @property
    def computed_share(self) -> float:
        """Of the peak, by the multiply-accumulates that are computed."""
        return self.computed_macs / (self.cycles * self.peak)

    @property
    def missed(self) -> list[str]:
        """The bars that are missed."""
        bars = {
            "launches": self.launches == 1,
            "MACs": self.macs_on_accelerator == 1,
            "reference": self.layers_compared >= self.layers and self.layers_wrong == 0,
            "RTL": self.rtl_differs == 0 and self.rtl_cycles == self.cycles,
            "cycles": self.most_cycles is None or self.cycles <= self.most_cycles,
            "share of peak": self.least_share is None or self.share >= self.least_share,
            "exposed": self.most_exposed is None or self.exposed <= self.most_exposed * self.cycles,
        }
        return [name for name, holds in bars.items() if not holds]


_BARS: dict[str, dict[str, float]] = {
    "vit_mnist": {"least_share": 0.45},
    "minilm": {"most_cycles": 7_000_000, "most_exposed": 0.1},
}


def cycle_rows(
    models: Path, variant: str, report: Callable[[str], None], only: str | None = None
) -> Iterator[CycleRow]:
    """One row for each network whose data are present, as `accuracy_rows`."""
    for name, make in MODELS.items():
        transformer = make(models) if only in (None, name) else None
        if transformer is not None:
            report(name)
            yield _measured(transformer, variant, _BARS.get(name, {}))


def show_cycles(console: Console, rows: list[CycleRow]) -> None:
    """One line for each network."""
    heads = (
        "network",
        "launches",
        "layers",
        "cycles",
        "RTL",
        "MACs",
        "of peak",
        "computed",
        "of peak",
        "exposed",
        "wrong",
        "missed",
    )
    table = Table(*heads)
    for row in rows:
        table.add_row(
            row.network,
            str(row.launches),
            str(row.layers),
            f"{row.cycles:,}",
            f"{row.rtl_cycles:,}",
            f"{row.macs:,}",
            f"{row.share:.1%}",
            f"{row.computed_macs:,}",
            f"{row.computed_share:.1%}",
            f"{row.exposed / row.cycles:.1%}",
            f"{row.layers_wrong} of {row.layers_compared}",
            ", ".join(row.missed),
        )
    console.print(table)


def _measured(transformer: Transformer, variant: str, bars: dict[str, float]) -> CycleRow:
    artifact = daedal.compile(transformer.quantized, variant)
    inputs = {name: value[:1] for name, value in transformer.inputs.items()}
    counted, rtl, functional = (
        daedal.simulate(artifact, inputs, device=device)
        for device in ("timing", "rtl", "functional")
    )
    check = check_layers(artifact, transformer.quantized, inputs)
    (layers,), (profile,) = counted.layers, counted.profiles
    macs = Counter[str]()
    for item in artifact.placements:
        macs[item.where] += item.macs or 0
    peak = artifact.launches[0].program.variant.macs_per_cycle
    return CycleRow(
        network=transformer.name,
        launches=len(artifact.launches),
        layers=sum(len(launch.layers) for launch in artifact.launches),
        macs_on_accelerator=macs["accelerator"] / macs.total(),
        macs=macs["accelerator"],
        computed_macs=sum(item.layer.needed_macs for item in layers),
        cycles=profile.cycles,
        peak=peak,
        exposed=exposed_cycles(layer_cycles(profile.marks), [item.layer for item in layers], peak),
        rtl_cycles=sum(profile.cycles for profile in rtl.profiles),
        rtl_differs=sum(
            rtl.outputs[name].tobytes() != value.tobytes()
            for name, value in functional.outputs.items()
        ),
        layers_compared=sum(item.difference is not None for item in check.tensors),
        layers_wrong=sum(item.differs for item in check.tensors) + len(check.overwritten),
        **bars,
    )


def exposed_cycles(windows: Mapping[int, int], layers: Sequence[Layer], peak: int) -> int:
    """Cycles of norms and attention in which no products are computed.

    A layer's window, in the order of `windows`, ends with its last STORE, and begins with that of
    the layer before. A layer with more products than its window has cycles has computed the rest
    before, in the last windows that have cycles left. So attention counts with what it takes beyond
    its products, and a norm with what it takes beyond those of the layers that overlap with it.
    """
    found = ahead = 0
    known = {layer.tag: layer for layer in layers}
    for tag, cycles in reversed(windows.items()):
        layer = known[tag]
        left = cycles - (layer.macs or 0) // peak - ahead
        ahead = max(0, -left)
        if layer.op in _COUNTED:
            found += max(0, left)
    return found
