"""Decides which activations of a network are quantized, and which of them share a scale."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from daedal.common.errors import ModelError
from daedal.compiler.graph.dataflow import first_behind, is_read_once, producer_of
from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.quantization.attentions import Attention, find_attentions
from daedal.compiler.quantization.functions import find_functions
from daedal.compiler.quantization.given import given_tensors
from daedal.compiler.quantization.operators import (
    BOUNDS,
    NORMS,
    SUMS,
    light_operands,
    move_operands,
    norm_operand,
    product_operands,
)
from daedal.compiler.quantization.rewrites.patterns import both_orders, constant_of
from daedal.compiler.quantization.widths import wide_groups

__all__ = ["MaskedScores", "Plan", "make_plan"]


@dataclass(frozen=True)
class MaskedScores:
    """A sum before a softmax: `result` of `scores`, which a product gives, and `mask`.

    The mask has large negative numbers where a score does not count, and may be a constant.
    """

    result: str
    scores: str
    mask: str


@dataclass(frozen=True)
class Plan:
    """The activations and nodes to quantize.

    Parameters
    ----------
    groups : the representative of every quantized activation, in the graph's order. Activations
        with the same representative share scale and zero point.
    computed : results of the nodes that are computed on integers.
    functions : those of them that are part of a function, which a table computes.
    wide : representatives of the activations that have 16 bits; the others have 8.
    masked : sums of scores and masks, where scores are quantized.
    attentions : those whose scores are not.
    symmetric : representatives of the activations of 8 bits that have no zero point.
    """

    groups: Mapping[str, str]
    computed: frozenset[str]
    functions: frozenset[str] = frozenset()
    wide: frozenset[str] = frozenset()
    masked: tuple[MaskedScores, ...] = ()
    attentions: tuple[Attention, ...] = ()
    symmetric: frozenset[str] = frozenset()

    @property
    def unquantized(self) -> frozenset[str]:
        """Of `computed`, those whose operands that are no activations stay as they are."""
        return frozenset(name for item in self.attentions for name in item.inner)

    def is_wide(self, name: str) -> bool:
        """Whether a quantized activation has 16 bits."""
        return self.groups[name] in self.wide


def make_plan(
    graph: Graph,
    *,
    wide: bool = False,
    fuses: bool = True,
    excluded: Set[str] = frozenset(),
) -> Plan:
    """Choose the activations around all products and around the operators between them.

    A light operator is computed on integers if its operands are integers anyway. So is a move, and
    also a move whose result must be quantized; its operands are then quantized, too. Operands and
    results of a move share one scale, so that moving costs nothing. A ReLU or Clip after another
    operator is treated as part of it. Of a function of one activation (`functions`), only operand
    and result are quantized.

    Where no product follows, results of several kinds meet, as boxes and scores of a detector do,
    and are brought to units of their own. One scale would leave the smaller ones no steps. So a
    Concat there stays in float, and so do sums and products with constants of several numbers.

    With `wide`, softmax and norms are computed on integers, too, if products read their results,
    and what they read has 16 bits (`widths`). So have sums of scores and masks. With `fuses`,
    nothing between the two products of an attention is quantized (`attentions`). Its queries have
    no zero point, which would cost an addition for each score.

    Nodes whose results are `excluded` stay in float, and so do attentions and functions with one of
    them.

    Raises
    ------
    ModelError
        For a graph without a product that can be quantized.
    """
    planner = _Planner(graph, wide=wide, fuses=wide and fuses, excluded=excluded)
    planner.want_products()
    if not planner.groups and any(product_operands(graph, node) for node in graph.nodes):
        raise ModelError(
            f"a model must have something to quantize, and of {graph.name!r} all that could be are "
            "excluded; exclude fewer nodes"
        )
    if not planner.groups:
        raise ModelError(
            "a model must have a one- or two-dimensional Conv or ConvTranspose, a Gemm or a MatMul "
            f"over float32 to be quantized, and {graph.name!r} has none; run it as it is"
        )
    to_fixpoint("plan", planner, _Planner.spread, _Planner.num_open)
    return planner.plan()


class _Planner:
    """The tensors to quantize so far, as a union-find forest of those that share a scale."""

    def __init__(self, graph: Graph, *, wide: bool, fuses: bool, excluded: Set[str]) -> None:
        self._graph = graph
        self._wide = wide
        self._excluded = excluded
        attentions = find_attentions(graph) if fuses else ()
        self._attentions = tuple(x for x in attentions if excluded.isdisjoint(x.inner))
        self._functions = {
            name: function
            for name, function in find_functions(graph).items()
            if excluded.isdisjoint(function.nodes)
        }
        self._given = given_tensors(graph) if wide else frozenset[str]()
        self._before_products = self._find_before_products()
        self._computed: set[str] = set()
        self._masked: dict[str, MaskedScores] = {}
        self.groups: dict[str, str] = {}

    def want_products(self) -> None:
        """Add all operands and results of products; of attention, those that are not inner."""
        inner = {name for item in self._attentions for name in item.inner}
        for item in self._attentions:
            self._want(item.queries, item.keys, item.values, item.result)
            if item.mask is not None and item.mask not in self._graph.constants:
                self._want(item.mask)
            self._computed.update(item.inner)
        for node in self._graph.nodes:
            if node.output in inner:
                continue
            operands = self._products(node)
            if operands:
                self._want(*operands, self._result(node))
                self._computed.add(node.output)

    def num_open(self) -> int:
        """How many results of nodes are not computed on integers."""
        return len(self._graph.nodes) - len(self._computed)

    def spread(self) -> "_Planner | None":
        """One forward pass over light operators and moves, then a backward pass over moves.

        Returns None if nothing was added.
        """
        before = len(self._computed)
        for node in self._graph.nodes:
            self._spread_forward(node)
        for node in reversed(self._graph.nodes):
            if self._wide and node.op in NORMS:
                self._spread_sum(node.inputs[0])
            if node.output not in self.groups or node.output in self._computed:
                continue
            moved = self._moved(node)
            if moved:
                self._move(node, moved)
            elif self._wide:
                self._spread_norm(node)
                self._spread_mean(node)
                self._spread_rotation(node)
        return self if len(self._computed) > before else None

    def plan(self) -> Plan:
        """The plan, in the graph's order."""
        names = [*self._graph.inputs, *(node.output for node in self._graph.nodes)]
        groups = {name: self._find(name) for name in names if name in self.groups}
        computed = frozenset(self._computed)
        if not self._wide:
            return Plan(groups, computed)
        functions = computed & self._functions.keys()
        wide = wide_groups(self._graph, groups, computed, functions)
        without_zero = (name for x in self._attentions for name in (x.queries, x.mask))
        return Plan(
            groups,
            computed,
            functions,
            wide,
            tuple(self._masked.values()),
            self._attentions,
            frozenset(groups[name] for name in without_zero if name in groups),
        )

    def _spread_norm(self, node: Node) -> None:
        """Add a softmax or norm whose result is quantized."""
        x = self._normalized(node)
        if x is None:
            return
        self._want(x)
        self._computed.add(node.output)
        masked = self._masked_scores(x) if node.op == "softmax" else None
        if masked is not None:
            self._masked[x] = masked
            self._computed.add(x)
            if masked.mask not in self._graph.constants:
                self._want(masked.mask)

    def _spread_mean(self, node: Node) -> None:
        """Add a mean of a norm's tokens whose result is quantized."""
        if node.op != "avg_pool":
            return
        light = self._light(node)
        behind = first_behind(self._graph, node.inputs[0], ("reshape", "transpose"))
        if light and producer_of(self._graph, behind, NORMS) is not None:
            self._want(*light)
            self._computed.add(node.output)

    def _spread_rotation(self, node: Node) -> None:
        """Add a sum or product of norms whose result is quantized: a rotary embedding of heads that
        are normalized."""
        light = self._light(node)
        of_norms = bool(light) and all(self._is_of_norms(name) for name in light)
        if node.op in ("add", "mul") and of_norms:
            self._want(*light)
            self._computed.add(node.output)

    def _is_of_norms(self, name: str) -> bool:
        """Whether a tensor is quantized, or a sum or product of norms, or such a one moved."""
        node = self._graph.producers.get(name)
        if name in self.groups or node is None:
            return name in self.groups
        if self._normalized(node) is not None:
            return node.op in NORMS
        operands = self._moved(node)
        if node.op in ("add", "mul"):
            operands = self._light(node)
        return bool(operands) and all(self._is_of_norms(operand) for operand in operands)

    def _spread_sum(self, name: str) -> None:
        """Add the sum of activations that a norm reads, one of which is quantized: a residual
        stream."""
        node = self._graph.producers.get(name)
        if node is None or node.op not in SUMS or name in self._computed:
            return
        light = self._light(node)
        if any(operand in self.groups for operand in light) and name not in self._functions:
            self._want(name, *light)
            self._computed.add(name)

    def _masked_scores(self, name: str) -> MaskedScores | None:
        """The sum of scores and a mask that only a softmax reads."""
        node = self._graph.producers.get(name)
        if node is None or node.op != "add" or not is_read_once(self._graph, name):
            return None
        for scores, mask in both_orders(node):
            product = self._graph.producers.get(scores)
            if scores in self.groups and product is not None and product.op == "matmul":
                return MaskedScores(name, scores, mask)
        return None

    def _spread_forward(self, node: Node) -> None:
        if node.output in self._computed:
            return
        function = self._functions.get(node.output)
        if function is not None:
            if function.source in self.groups:
                self._want(function.result)
                self._computed.update(function.nodes)
            return
        if self._is_conversion(node):
            return
        light = self._light(node)
        if light and self._are_wanted(light, self._given):
            self._want(*light, self._result(node))
            self._computed.add(node.output)
            return
        moved = self._moved(node)
        if moved and self._are_wanted(moved):
            self._move(node, moved)

    def _find_before_products(self) -> frozenset[str]:
        """Tensors that a product reads, itself or behind operators that integers compute."""
        graph = self._graph
        found = {item.mask for item in self._attentions if item.mask is not None}
        for node in reversed(graph.nodes):
            products = self._products(node)
            found.update(products)
            if products or node.output not in found:
                continue
            function = self._functions.get(node.output)
            norm = self._normalized(node) if self._wide else None
            found.update(() if function is None else (function.source,))
            found.update(() if norm is None else (norm,))
            found.update(self._light(node), self._moved(node))
        return frozenset(found)

    def _is_conversion(self, node: Node) -> bool:
        """Whether a node joins results of the network, or brings them to other units."""
        if node.output in self._before_products:
            return False
        if node.op in (*SUMS, "mul"):
            values = (constant_of(self._graph, name) for name in node.inputs)
            return any(value is not None and value.size > 1 for value in values)
        return node.op == "concat"

    def _move(self, node: Node, operands: Iterable[str]) -> None:
        self._want(*operands, node.output)
        for name in operands:
            self.groups[self._find(name)] = self._find(node.output)
        self._computed.add(node.output)

    def _are_wanted(self, names: Iterable[str], given: Set[str] = frozenset()) -> bool:
        """Whether all are quantized; those `given` need only be if the others are not."""
        computed = [name for name in names if name in self.groups or name not in given]
        return bool(computed) and all(name in self.groups for name in computed)

    def _products(self, node: Node) -> tuple[str, ...]:
        """As `product_operands`, none of an excluded node; so are the next three."""
        return () if node.output in self._excluded else product_operands(self._graph, node)

    def _light(self, node: Node) -> tuple[str, ...]:
        return () if node.output in self._excluded else light_operands(self._graph, node)

    def _moved(self, node: Node) -> tuple[str, ...]:
        return () if node.output in self._excluded else move_operands(self._graph, node)

    def _normalized(self, node: Node) -> str | None:
        return None if node.output in self._excluded else norm_operand(self._graph, node)

    def _want(self, *names: str) -> None:
        for name in names:
            self.groups.setdefault(name, name)

    def _find(self, name: str) -> str:
        while self.groups[name] != name:
            self.groups[name] = self.groups[self.groups[name]]  # path halving
            name = self.groups[name]
        return name

    def _result(self, node: Node) -> str:
        """The result of `node`, including the bounds after it."""
        name = node.output
        while is_read_once(self._graph, name):
            (user,) = self._graph.users[name]
            if user.op not in BOUNDS or user.output in self._excluded:
                break
            self._computed.add(user.output)
            name = user.output
        return name
