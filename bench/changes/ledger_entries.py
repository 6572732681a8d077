"""Entries of the ledger of cycles: every network and layer, on the machines it is quoted for.

Each entry compiles its program without any cache of code, and counts
(`bench.changes.ledger_models`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

from bench.changes import ledger_models as models
from bench.changes.ledger_machines import (
    ALTERNATIVES_OF_VTA,
    BUFFERS_OF_ATTENTION,
    BUFFERS_ON_BOARD,
    LARGER_VTA,
    OPTIONS_OF_ATTENTION,
    OTHER_MULTIPLIERS,
    SEARCHED_FOR_NARROW,
    SEARCHED_ON_BOARD,
    WIDER_ATTENTION,
    WIDER_VTA,
    machine,
)
from bench.figures import Figures
from bench.networks.board_rates import BOARD_MEMORIES, BOARD_MEMORY, BOARD_NETWORKS
from bench.networks.conv_layers import LAYERS
from bench.networks.depthwise_layers import LAYERS as DEPTHWISE_LAYERS
from daedal.hw.synth_pages.ledger_cycles import WORK
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant

__all__ = ["ENTRIES", "Entry"]

RESNET8 = "mlperf_tiny_resnet8/model_qdq.onnx"
RESNET20 = "resnet20_cifar10/model_qdq.onnx"

QUICK = ("resnet18.vta",)
"""Networks that every run of the tests compiles; other networks take too long for that."""

QUOTED = {
    "resnet18": ("ecp5", "ecp5_half", "attention", "wide", "batch4", "tiny", "smallest"),
    "resnet50": (),
    "mobilenet_v1": ("ecp5", "ecp5_half"),
    "mobilenet_v2": ("ecp5",),
    "squeezenet": (),
    "shufflenet": (),
    "inception_v1": (),
    "densenet121": (),
    "vgg19": (),
    "alexnet": (),
}
"""Networks of the zoo, and their machines besides `vta`: docs/hardware.md, docs/codesign.md."""

_CHANGED = {
    "resnet18": (*OTHER_MULTIPLIERS, *WIDER_VTA),
    "mobilenet_v1": (*LARGER_VTA,),
}
"""Machines with one parameter changed."""


@dataclass(frozen=True)
class Entry:
    """A network or layer on a machine; `count` compiles it and raises MissingModel.

    `slow` entries take too long for every run of the tests; others may use `heavy_s` seconds of CPU
    time, if they need more than one. `label` is behind the machine's name in the key.
    """

    name: str
    machine: str
    count: Callable[[Variant], Figures]
    slow: bool = False
    heavy_s: int = 0
    label: str = ""

    @property
    def key(self) -> str:
        """As the ledger has it."""
        return f"{self.name}.{self.machine}{self.label}"

    def figures(self) -> Figures:
        """Those of a program that is compiled now."""
        return self.count(machine(self.machine))


def _layers() -> Iterator[Entry]:
    yield Entry("C1", "vta", models.resnet18_stem, heavy_s=4)
    for number, layer in enumerate(LAYERS):
        yield Entry(layer.name, "vta", partial(models.convolution, number), heavy_s=4)
    for number, depthwise in enumerate(DEPTHWISE_LAYERS):
        yield Entry(depthwise.name, "vta", partial(models.depthwise, number))


def _small() -> Iterator[Entry]:
    """Small networks and streams of instructions, on `vta` and with one parameter changed."""
    for work, name in WORK.items():
        if name.endswith("_stream"):
            for changed in ALTERNATIVES_OF_VTA:
                yield Entry(name, changed, partial(models.unit_stream, work))
    for changed in (*ALTERNATIVES_OF_VTA, "smallest"):
        yield Entry("digits", changed, models.digits, slow=changed != "vta", heavy_s=3)
    resnet8 = partial(models.shared_model, RESNET8)
    for changed in ALTERNATIVES_OF_VTA:
        yield Entry("resnet8", changed, resnet8, slow=changed != "vta", heavy_s=6)
    yield Entry("resnet20", "vta", partial(models.shared_model, RESNET20), heavy_s=8)


def _zoo() -> Iterator[Entry]:
    for name in QUOTED:
        for changed in ("vta", *QUOTED[name], *_CHANGED.get(name, ())):
            slow = f"{name}.{changed}" not in QUICK
            count = partial(models.zoo_network, name)
            yield Entry(name, changed, count, slow, heavy_s=0 if slow else 60)


def _transformers() -> Iterator[Entry]:
    for changed in (*OPTIONS_OF_ATTENTION, *WIDER_ATTENTION):
        yield Entry("vit_mnist", changed, models.vit, slow=True)
    ideal = partial(models.vit, timing=PRESETS["ideal"])
    yield Entry("vit_mnist", [*WIDER_ATTENTION][-1], ideal, slow=True, label="_ideal")
    yield Entry("kwt1", "attention", models.keywords, slow=True)
    for changed in ("attention", *BUFFERS_OF_ATTENTION):
        yield Entry("minilm", changed, models.minilm, slow=True)
    for changed in BUFFERS_OF_ATTENTION:
        yield Entry("vit_mnist", changed, models.vit, slow=True)
    yield Entry("stories260k", "attention", models.prefill, slow=True)
    for number, name in enumerate(("stories260k_first", "stories260k_decode")):
        yield Entry(name, "attention", partial(models.decode_step, number), slow=True)


def _boards() -> Iterator[Entry]:
    """Of docs/boards.md, docs/memory.md and docs/codesign.md."""
    for network in BOARD_NETWORKS:
        for timing in BOARD_MEMORIES.values():
            count = partial(network.count, timing)
            yield Entry(network.name, network.machine, count, slow=True, label=f"_{timing.name}")
    sdram = BOARD_MEMORIES[BOARD_MEMORY]
    for name in ("resnet18", "mobilenet_v1", "mobilenet_v2"):  # of docs/memory.md
        count = partial(models.on_board, name, sdram, tiles_for=PRESETS["ddr"])
        yield Entry(name, "ecp5", count, slow=True, label=f"_ddr_on_{sdram.name}")
    for changed in BUFFERS_ON_BOARD:
        for name in ("resnet18", "mobilenet_v1"):
            count = partial(models.on_board, name, sdram)
            yield Entry(name, changed, count, slow=True, label=f"_{sdram.name}")
    for network in BOARD_NETWORKS:
        count = partial(network.count, sdram)
        yield Entry(network.name, SEARCHED_ON_BOARD, count, slow=True, label=f"_{sdram.name}")
    decode = partial(models.decode_on_board, sdram)
    label = f"_{sdram.name}"
    yield Entry("stories260k_decode", SEARCHED_FOR_NARROW, decode, slow=True, label=label)


def _all() -> Iterator[Entry]:
    yield from _layers()
    yield from _small()
    yield from _zoo()
    yield from _transformers()
    yield from _boards()


def _by_network(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Those of a network one after the other, as TOML has them."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.name, []).append(entry)
    return chain.from_iterable(found.values())


ENTRIES = {entry.key: entry for entry in _by_network(_all())}
"""By key, in the order of the ledger."""
