"""Parts, joins, pads and enlargements of maps, each with a change of scale."""

from daedal.compiler import te
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.ops.graph.maps import LANES
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.requantize import Requantization, by_number
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]

MAX_JOINED = 8
"""Maps among which a formula chooses for each element."""


def _lower_slice(operation: GraphOperation) -> te.Tensor:
    x, finish = operation.map(0).tensor, Requantization(operation, operation.constant(1), 128)
    begins, steps = operation.ints("begins"), operation.ints("steps")
    layout = operation.layout
    whole = layout.is_blocked and begins[1] % LANES == 0 and steps[1] == 1

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        places = [begins[2] + h * steps[2], begins[3] + w * steps[3]]
        if whole:
            return finish(
                x[n, *places, block + begins[1] // LANES, lane].astype("int32"), by_number
            )
        channel = begins[1] + layout.channel(block, lane) * steps[1]
        element = x.padded(0)[n, *places, *layout.place(channel)]
        return finish(element.astype("int32"), by_number)

    return operation.compute(operation.shape, formula)


def _lower_pad(operation: GraphOperation) -> te.Tensor:
    x = operation.map(0).tensor.padded(operation.whole("pad_value"))
    finish = Requantization(operation, operation.constant(1), 128)
    _, _, top, left, *_ = operation.ints("pads")

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        return finish(x[n, h - top, w - left, block, lane].astype("int32"), by_number)

    return operation.compute(operation.shape, formula)


def _pad_lacks(graph: Graph, node: Node) -> str:
    pads = node.attrs["pads"]
    assert isinstance(pads, tuple)
    count = len(pads) // 2
    moves = [pads[axis] for axis in (0, 1, count, count + 1)]
    return "pads must lie around height and width" if any(moves) else ""


def _lower_resize(operation: GraphOperation) -> te.Tensor:
    x, finish = operation.map(0).tensor, Requantization(operation, operation.constant(1), 128)
    _, _, rows, columns = operation.ints("factors")

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        return finish(x[n, h // rows, w // columns, block, lane].astype("int32"), by_number)

    return operation.compute(operation.shape, formula)


def _lower_concat(operation: GraphOperation) -> te.Tensor:
    rows, taken = operation.constant(-1), operation.ints("channels")
    layout = operation.layout
    parts = [
        (operation.map(number).tensor, Requantization(operation, rows[number : number + 1], 128))
        for number in range(len(taken))
    ]
    if all(channels % LANES == 0 for channels in taken[:-1]):
        changed = [_changed(operation, *part) for part in parts]
        return operation.tensors.joined(changed, layout.channel_axis)
    begins = [sum(taken[:number]) for number in range(len(taken))]

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        def element(x: te.Tensor, finish: Requantization, begin: int) -> Expr:
            channel = layout.channel(block, lane) - begin
            read = x.padded(0)[n, h, w, *layout.place(channel)]
            return finish(read.astype("int32"), by_number)

        value = element(*parts[0], 0)
        for part, begin in zip(parts[1:], begins[1:], strict=True):
            value = te.select(layout.channel(block, lane) >= begin, element(*part, begin), value)
        return value

    return operation.compute(operation.shape, formula)


def _changed(operation: GraphOperation, x: te.Tensor, finish: Requantization) -> te.Tensor:
    """The elements of a map, requantized."""
    if finish.changes_nothing:
        return x
    return operation.compute(x.shape, lambda *i: finish(x[i].astype("int32"), by_number))


def _concat_lacks(graph: Graph, node: Node) -> str:
    count = len(node.inputs) - 1
    return "" if count <= MAX_JOINED else f"a join must have at most {MAX_JOINED} maps, not {count}"


def _lower_columns(operation: GraphOperation) -> te.Tensor:
    parts = [operation.map(index).tensor for index in range(len(operation.node.inputs))]
    return operation.tensors.joined(parts, axis=2)


LOWERINGS = {
    "columns_view": GraphLowering(_lower_columns),
    "q_concat": GraphLowering(_lower_concat, _concat_lacks),
    "q_pad": GraphLowering(_lower_pad, _pad_lacks),
    "q_resize": GraphLowering(_lower_resize),
    "q_slice": GraphLowering(_lower_slice),
}
"""By operator."""
