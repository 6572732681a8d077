"""Splits a graph into what the host runs first, what the accelerator runs, and the rest."""

from dataclasses import dataclass

from daedal.compiler.graph.extract import extract
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.isa.errors import ModelError

__all__ = ["Partition", "partition"]

_BORDER_OPS = ("dequantize", "pack", "quantize", "unpack")
"""What surrounds a host operator between integer layers; the error names the operator itself."""

_SHAPES = ": both operands must be quantized, and one must have the shape of the result"
_MOVES = ": only channels, rows and columns move, of tensors of up to four dimensions"
_REASONS = {
    "add": _SHAPES,
    "concat": _MOVES,
    "mul": _SHAPES,
    "pad": _MOVES,
    "q_lookup": ": the ALU of no variant has a table",
    "resize": _MOVES,
    "slice": _MOVES,
    "sub": _SHAPES,
    "transpose": ": LOAD and STORE move whole rows and cannot transpose",
}
"""Why an operator cannot run on the accelerator, where that is not plain."""


@dataclass(frozen=True)
class Partition:
    """Three graphs that run one after the other.

    Parameters
    ----------
    prologue : host; from the model's inputs to the inputs of `accelerator`.
    accelerator : integer operators only; its outputs are what the host still reads.
    epilogue : host; from the outputs of `accelerator` (and inputs of the model, where it reads
        them) to the model's outputs.
    """

    prologue: Graph
    accelerator: Graph
    epilogue: Graph


def partition(graph: Graph) -> Partition:
    """Cut a graph before the first and after the last integer operator.

    Before::

        x_q = quantize(x, s, z)
        y_q = q_conv2d(x_q, w, p) ...
        y = dequantize(y_q, t, o)

    After::

        prologue:    x_q = quantize(x, s, z)
        accelerator: y_q = q_conv2d(x_q, w, p) ...
        epilogue:    y = dequantize(y_q, t, o)

    Raises
    ------
    ModelError
        Where no operator can run on the accelerator, and where a host operator lies between two
        that do.
    """
    on_accelerator = [node for node in graph.nodes if get_op(node.op).on_accelerator]
    if not on_accelerator:
        raise ModelError(
            f"at least one layer must run on the accelerator, but {graph.name!r} has no integer "
            "operator between QuantizeLinear nodes; quantize its layers to int8 (QDQ)"
        )
    _refuse_detours(graph, on_accelerator)
    made = {node.output for node in on_accelerator}
    entry = tuple(
        dict.fromkeys(
            name
            for node in on_accelerator
            for name in node.inputs
            if name not in made and not graph.is_constant(name)
        )
    )
    exit_ = tuple(name for name in dict.fromkeys(_read_outside(graph)) if name in made)
    return Partition(
        prologue=extract(graph, graph.inputs, entry),
        accelerator=extract(graph, entry, exit_),
        epilogue=extract(graph, (*exit_, *graph.inputs), graph.outputs),
    )


def _read_outside(graph: Graph) -> list[str]:
    """Tensors that host operators read, and the graph's outputs."""
    host = (node for node in graph.nodes if not get_op(node.op).on_accelerator)
    return [*(name for node in host for name in node.inputs), *graph.outputs]


def _refuse_detours(graph: Graph, on_accelerator: list[Node]) -> None:
    """Raise where data leaves the accelerator and comes back."""
    after: set[str] = {node.output for node in on_accelerator}
    detour: dict[str, Node] = {}
    for node in graph.nodes:
        reads_back = [name for name in node.inputs if name in after]
        if get_op(node.op).on_accelerator:
            for name in reads_back:
                if name in detour:
                    offender = detour[name]
                    reason = _REASONS.get(offender.op, "")
                    raise ModelError(
                        "operators between integer layers must run on the accelerator, and this "
                        f"one does not ({offender}{reason}); quantize it (QDQ), or compile a part "
                        "of the model with --from and --to"
                    )
        elif reads_back:
            after.add(node.output)
            first = next((detour[name] for name in reads_back if name in detour), node)
            detour[node.output] = node if _names_less(first, node) else first


def _names_less(first: Node, later: Node) -> bool:
    """Whether a detour is better named by a later node of it: borders say nothing, and a reshape
    little."""
    if first.op in _BORDER_OPS:
        return True
    return first.op == "reshape" and later.op not in _BORDER_OPS
