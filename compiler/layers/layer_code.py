"""`LayerCode`: the segment of each layer; identical layers are scheduled once.

Networks repeat their layers. Schedule and code depend only on the operator, its attributes, the
types of operands and result, and on what its constants allow: whether its REQUANTIZE changes any
value, and whether its weights have 4 bits. A layer that differs from an earlier one only in names
and immediates (`immediates`) reuses its segment, renamed. A `SegmentStore` also keeps segments for
other networks and for the next compilation.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from daedal.common.errors import ScheduleError, TuningError
from daedal.compiler.codegen.scheduled_function import ScheduledFunction
from daedal.compiler.codegen.segment import Segment, relabeled
from daedal.compiler.cost.memory import MemoryCost
from daedal.compiler.graph.aliases import row_pitch
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.narrow_weights import narrow_weights
from daedal.compiler.layers.chained_tiles import chain_of, chained_tiles
from daedal.compiler.layers.divided_tiles import divided_tile, leading_tile
from daedal.compiler.layers.early_tiles import early_tile, work_in_front
from daedal.compiler.layers.immediates import Patches, patched, with_placeholders
from daedal.compiler.layers.interleaved_tiles import interleaved_tile
from daedal.compiler.layers.matching_tiles import matching_tile
from daedal.compiler.layers.paired_tiles import paired_tile
from daedal.compiler.layers.pairs import Pair, PairTiles, pair_of
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.layers.segment_store import SegmentStore
from daedal.compiler.layers.sharing_tiles import sharing_tiles
from daedal.compiler.layers.sparing_tiles import sparing_tile
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.link import LinkedCode
from daedal.compiler.link.ordering.order import by_need
from daedal.compiler.ops.accelerator.lowering import buildable_space_of, keeps_values, lower_node
from daedal.compiler.ops.space import Config
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["LayerCode"]

LEAST_GAIN = 0.01
"""Of a layer's cycles with its usual tile: the layers around it gain or lose more by another tile
than an estimate that is nearer."""

LEAST_WORDS = 0.1
"""Of a layer's bus words with its usual tile, in as many cycles: another layer that runs at the
same time needs them."""

_T = TypeVar("_T")

_ChoosePair = Callable[[Graph, Pair, Variant, MemoryModel], PairTiles | None]


@dataclass(frozen=True)
class _Code:
    """The functions and the segment of `node`, the first one of its kind."""

    node: Node
    functions: list[ScheduledFunction]
    segment: Segment


class LayerCode:
    """Lowers and emits nodes with `builder`, of all launches of a network.

    Parameters
    ----------
    store : keeps segments on disk; None: every kind of layer is built here.
    for_reuse : build layers with placeholders for their immediates, so that more of them are of one
        kind, and order their LOADs once for all. Then functions have placeholders, too.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        store: SegmentStore | None = None,
        *,
        for_reuse: bool = False,
    ) -> None:
        self._builder = builder
        self._store = store
        self._for_reuse = for_reuse
        self._known: dict[object, _Code] = {}
        self._tiles: dict[object, Config | None] = {}
        self._pairs: dict[object, PairTiles | None] = {}

    def of(
        self, graph: Graph, node: Node, before: Sequence[Segment] = ()
    ) -> tuple[list[ScheduledFunction], Segment]:
        """The functions of `node` (or of the first one of its kind), and its segment.

        The tiles match those of the layer `before`, if possible and if no others are recorded.
        There are no functions where the segment comes from the store. Raises ScheduleError as
        `lower_node` does, TuningError for a configuration that does not build.
        """
        general, patches = self._general(node)
        kind = _kind(graph, general, self._builder.variant)
        config = self._config(graph, general)
        own = None if config else self._own_tile(graph, general, kind, before)
        known = None
        if own is not None:
            with suppress(TuningError):  # else an estimate was wrong, and the usual tile is taken
                known = self._built(graph, general, kind, own)
        known = known or self._built(graph, general, kind, config)
        first = known.node
        segment = known.segment
        names = dict(zip((*first.inputs, first.output), (*node.inputs, node.output), strict=True))
        if any(old != new for old, new in names.items()):
            segment = relabeled(segment, node.output, names)
        return known.functions, patched(segment, patches)

    def key(self, graph: Graph, node: Node) -> str:
        """What the code of `node` depends on, apart from names and the compiler."""
        return self._key(_kind(graph, node, self._builder.variant), self._config(graph, node))

    def linked(self, key: str, build: Callable[[], LinkedCode]) -> LinkedCode:
        """The linked program for `key`: whatever it depends on, besides the compiler.

        Raises what `build` raises, which makes it where the store has none.
        """
        return build() if self._store is None else self._store.linked(key, build)

    def _general(self, node: Node) -> tuple[Node, Patches]:
        """The node as it is built, and the values of its placeholders."""
        return with_placeholders(node) if self._for_reuse else (node, {})

    def _key(self, kind: object, config: Config | None) -> str:
        builder = self._builder
        return repr((builder.variant.fingerprint, MemoryCost.of(builder.memory), config, kind))

    def _config(self, graph: Graph, node: Node) -> Config | None:
        """The configuration that `node` was given."""
        configs = self._builder.configs
        return configs.get(workload_of(graph, node).key) if configs else None

    def _built(self, graph: Graph, node: Node, kind: object, config: Config | None) -> _Code:
        """`_code`, once for a kind and a configuration."""
        if (kind, config) not in self._known:
            self._known[kind, config] = self._code(graph, node, kind, config)
        return self._known[kind, config]

    def _own_tile(
        self, graph: Graph, node: Node, kind: object, before: Sequence[Segment]
    ) -> Config | None:
        """The tile of `node` that goes with the layers `before`, or else with the memory; None: its
        usual one."""
        variant, memory = self._builder.variant, self._builder.memory
        if not before:
            return (
                self._chained_tile(graph, node)
                or sparing_tile(graph, node, variant, memory)
                or self._tile_with_memory(graph, node, kind)
            )
        return (
            matching_tile(graph, node, before[-1], variant)
            or leading_tile(graph, node, before[-1], variant, memory)
            or self._paired_tile(graph, node, kind)
            or self._divided_tile(graph, node, kind)
            or interleaved_tile(graph, node, before[-1], variant, memory)
            or self._early_tile(graph, node, kind, before)
            or self._chained_tile(graph, node)
            or self._sharing_tile(graph, node)
            or sparing_tile(graph, node, variant, memory)
            or self._tile_with_memory(graph, node, kind)
        )

    def _tile_with_memory(self, graph: Graph, node: Node, kind: object) -> Config | None:
        """The tile of `node` alone, once for layers of a kind; None: its usual one."""
        memory = self._builder.memory
        if not MemoryCost.of(memory).slows_words:
            return None

        def choose() -> Config | None:
            try:
                space = buildable_space_of(graph, node, self._builder.variant, memory)
                table = space.table([space.template.default, space.default])
                (usual, least) = space.cycles_with(table, memory)
                words = space.features(table)["beats"]
                gains = least < (1 - LEAST_GAIN) * usual
                gains |= least <= usual and words[1] < (1 - LEAST_WORDS) * words[0]
                return space.default if gains else None
            except ScheduleError:  # building the usual one tells why
                return None

        return _once(self._tiles, ("memory", kind), choose)

    def _early_tile(
        self, graph: Graph, node: Node, kind: object, before: Sequence[Segment]
    ) -> Config | None:
        """`early_tile`, once for layers of a kind behind the same work."""
        variant, memory = self._builder.variant, self._builder.memory
        work = work_in_front(node, before, variant, memory)
        if work is None:
            return None
        key = "early", kind, tuple(sorted(work.items()))
        return _once(self._tiles, key, lambda: early_tile(graph, node, work, variant, memory))

    def _paired_tile(self, graph: Graph, node: Node, kind: object) -> Config | None:
        """`paired_tile`, once for layers of a kind that norms read."""
        variant, memory = self._builder.variant, self._builder.memory
        key = "paired", kind, tuple(sorted(user.op for user in graph.users[node.output]))
        return _once(self._tiles, key, lambda: paired_tile(graph, node, variant, memory))

    def _divided_tile(self, graph: Graph, node: Node, kind: object) -> Config | None:
        """`divided_tile`, once for layers of a kind that norms read."""
        variant, memory = self._builder.variant, self._builder.memory
        key = "divided", kind, tuple(sorted({user.op for user in graph.users[node.output]}))
        return _once(self._tiles, key, lambda: divided_tile(graph, node, variant, memory))

    def _sharing_tile(self, graph: Graph, node: Node) -> Config | None:
        """The tile of `node` from `sharing_tiles`."""
        pair = pair_of(graph, node)
        tiles = None if pair is None else self._sharing_tiles(graph, pair)
        return None if pair is None or tiles is None else tiles.of(pair, node)

    def _chained_tile(self, graph: Graph, node: Node) -> Config | None:
        """The tile of `node` from `chained_tiles`, where both layers gain more by that than they
        would by sharing units with the layers around them."""
        pair = chain_of(graph, node, self._builder.variant)
        tiles = None if pair is None else self._chained_tiles(graph, pair)
        if pair is None or tiles is None or tiles.gain <= self._gain_of_sharing(graph, pair):
            return None
        return tiles.of(pair, node)

    def _sharing_tiles(self, graph: Graph, pair: Pair) -> PairTiles | None:
        return self._pair_tiles("sharing", sharing_tiles, graph, pair)

    def _chained_tiles(self, graph: Graph, pair: Pair) -> PairTiles | None:
        return self._pair_tiles("chained", chained_tiles, graph, pair)

    def _pair_tiles(
        self, what: str, choose: _ChoosePair, graph: Graph, pair: Pair
    ) -> PairTiles | None:
        """The tiles that `choose` finds, once for pairs with the same code. None if a layer of the
        pair has a configuration of its own."""
        variant, memory = self._builder.variant, self._builder.memory
        if any(self._config(graph, layer) for layer in pair):
            return None
        kinds = tuple(_kind(graph, self._general(layer)[0], variant) for layer in pair)
        return _once(self._pairs, (what, kinds), lambda: choose(graph, pair, variant, memory))

    def _gain_of_sharing(self, graph: Graph, chain: Pair) -> float:
        """Cycles that the layers of a chain would gain with the layers before and behind it, where
        these are not in chains of their own."""
        gain = 0.0
        for node in chain:
            pair = pair_of(graph, node)
            if pair is None:
                continue
            (other,) = (layer for layer in pair if layer.output != node.output)
            others = chain_of(graph, other, self._builder.variant)
            if others is None or self._chained_tiles(graph, others) is None:
                tiles = self._sharing_tiles(graph, pair)
                gain += 0.0 if tiles is None else tiles.gain
        return gain

    def _code(self, graph: Graph, node: Node, kind: object, config: Config | None) -> _Code:
        builder = self._builder
        functions: list[ScheduledFunction] = []

        def build() -> Segment:
            try:
                functions.extend(lower_node(graph, node, builder.variant, config))
                segment = builder.segment(functions, node.output)
                return by_need(segment) if self._for_reuse else segment
            except ScheduleError as error:
                if config is None:
                    raise
                # Not the layer is to blame, so it does not fall back to the host.
                raise TuningError(
                    f"a configuration must build its layer, and {config} of {node.output!r} does "
                    f"not: {error}; leave it out, or tune again if it is a record"
                ) from error

        if self._store is None:
            return _Code(node, functions, build())
        names = (*node.inputs, node.output)
        # Names are positions; where an operand is given twice, the first one counts.
        places = {name: str(names.index(name)) for name in names}
        key = self._key(kind, config)
        kept = self._store.get(key, lambda: relabeled(build(), "layer", places))
        back = {place: name for name, place in places.items()}
        return _Code(node, functions, relabeled(kept, node.output, back))


def _once(known: dict[object, _T], key: object, make: Callable[[], _T]) -> _T:
    """What `known` has for `key`; `make` makes it where it is missing."""
    if key not in known:
        known[key] = make()
    return known[key]


def _kind(graph: Graph, node: Node, variant: Variant) -> object:
    """A key that is equal for nodes with the same code."""
    return (
        node.op,
        tuple(sorted(node.attrs.items())),
        tuple(graph.types[name] for name in (*node.inputs, node.output)),
        tuple(row_pitch(graph, name) for name in (*node.inputs, node.output)),
        tuple(node.inputs.index(name) for name in node.inputs),
        keeps_values(graph, node),
        narrow_weights(graph, node, variant),
    )
