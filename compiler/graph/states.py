"""States: inputs of a model that stay in the device's memory between launches.

A decoder reads the keys and values of earlier tokens from caches, and gives the rows of the new
token, which its caller writes into the caches before the next run. As a state, a cache is no input:
the program stores the new rows behind the cached ones, in the same memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.passes.simplify.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.types import TensorType

__all__ = ["BoundState", "bind_states", "match_states"]


@dataclass(frozen=True)
class BoundState:
    """An input of the model that became a state.

    Attributes
    ----------
    name : the input.
    new : the model's output that has its new rows.
    tensor : the graph's input that holds it, with the new rows behind the others.
    rows : how many the model's input has.
    """

    name: str
    new: str
    tensor: str
    rows: int


def match_states(
    patterns: Mapping[str, str], inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, str]:
    """The outputs with new rows by the inputs that are states.

    A ``*`` in an input's pattern stands for any text, which replaces the ``*`` of the output's.

    Raises ModelError for a pattern that matches no input, and for an output that does not exist.
    """
    found: dict[str, str] = {}
    for pattern, new in patterns.items():
        if max(pattern.count("*"), new.count("*")) > 1 or pattern.count("*") != new.count("*"):
            raise ModelError(
                f"a state must be INPUT=OUTPUT, both with one * or none, not {pattern}={new}"
            )
        names = [name for name in inputs if _matches(name, pattern)]
        if not names:
            raise ModelError(
                f"a state must be an input of the model, and none is {pattern!r}; it has "
                f"{', '.join(inputs)}"
            )
        for name in names:
            start, _, end = pattern.partition("*")
            output = new.replace("*", name[len(start) : len(name) - len(end)])
            if output not in outputs:
                raise ModelError(
                    f"the new rows of a state must be an output of the model, and {output!r} is "
                    f"none (state {name!r}); it has {', '.join(outputs)}"
                )
            found[name] = output
    return found


def bind_states(graph: Graph, states: Mapping[str, str]) -> tuple[Graph, tuple[BoundState, ...]]:
    """Make inputs of `graph`, as imported, states; `states` has the outputs with their new rows.

    Before::

        c_q = quantize(c, s, z)                     # float32[1,4,255,8]
        all = concat(pad(dequantize(c_q)), pad(dequantize(new_q)))  # quantized after each
        all_q = quantize(all, s, z)                 # int8[1,4,272,8]
        new = dequantize(new_q, s, z)               # float32[1,4,1,8], an output

    After::

        all_q = append(c.state, new_q) axis=2 begin=256     # c.state: int8[1,4,272,8], an input

    Raises ModelError for an input or output that is in no such place.
    """
    found = {name: _Joined.of(graph, name, new) for name, new in states.items()}
    builder = GraphBuilder(graph.name, graph)
    bound = []
    for name in graph.inputs:
        if name not in found:
            builder.input(name, graph.types[name])
            continue
        tensor = builder.fresh_name(f"{name}.state")
        builder.input(tensor, found[name].type)
        rows = graph.types[name].shape[found[name].axis]
        bound.append(BoundState(name, states[name], tensor, rows))
    appended = {found[item.name].output: item for item in bound}
    gone = {output for item in found.values() for output in item.gone}
    for node in graph.nodes:
        if node.output in appended:
            item = appended[node.output]
            joined = found[item.name]
            attrs = {"axis": joined.axis, "begin": joined.begin}
            operands = [item.tensor, joined.new]
            builder.add("append", operands, attrs, output=node.output, name=node.name)
        elif node.output not in gone:
            builder.copy_node(node)
    outputs = [name for name in graph.outputs if name not in states.values()]
    if not outputs:
        raise ModelError("a model with states must have another output, such as the logits")
    return eliminate_dead_code(builder.finish(outputs)), tuple(bound)


def _matches(name: str, pattern: str) -> bool:
    # Of the special characters, only * is one here.
    return fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]"))


@dataclass(frozen=True)
class _Joined:
    """The quantized concat of a cache and its new rows.

    Attributes
    ----------
    new : the new rows, quantized.
    output : both together, quantized.
    gone : the tensors from the cache to the concat.
    """

    new: str
    output: str
    type: TensorType
    axis: int
    begin: int
    gone: tuple[str, ...]

    @classmethod
    def of(cls, graph: Graph, name: str, new: str) -> "_Joined":
        chain = _forward(graph, name)
        concat = chain[-1] if chain else None
        read = graph.producers.get(new)
        quantized = _only_user(graph, concat.output) if concat is not None else None
        if concat is None or quantized is None or quantized.op != "quantize":
            raise ModelError(
                "a state must be quantized and then only be read by a Concat whose result is "
                f"quantized, and {name!r} is not; `daedal quantize` makes such a model of a decoder"
            )
        if read is None or read.op != "dequantize":
            raise ModelError(
                f"the new rows of a state must be quantized, and {new!r} is not (state {name!r}); "
                "quantize the model with `daedal quantize`"
            )
        others = _backward(graph, concat)
        if concat.inputs[0] != chain[-2].output or others[-1].inputs[0] != read.inputs[0]:
            raise ModelError(
                f"a state must be concatenated with its new rows, which follow it, and {name!r} "
                f"is not with {new!r}; give the output that is"
            )
        scaled = [item for item in (*chain, *others, quantized, read) if _has_scale(item)]
        if not all(_same_scale(graph, one, other) for one, other in pairwise(scaled)):
            raise ModelError(
                f"a state and its new rows must share scale and zero point, and {name!r} and "
                f"{new!r} do not; quantize the model with `daedal quantize`"
            )
        result = graph.types[quantized.output]
        if result.dtype != "int8":
            raise ModelError(
                f"a state must be quantized to int8, and {name!r} is to {result.dtype}; quantize "
                "the model with `daedal quantize`"
            )
        axis = whole(concat.attrs, "axis")
        count = graph.types[new].shape[axis]
        if count != 1:
            raise ModelError(
                f"a state must get one new row a run, and {new!r} has {count} (state {name!r}); "
                "export the model for a single token"
            )
        begin = graph.types[concat.inputs[0]].shape[axis]
        return cls(
            read.inputs[0],
            quantized.output,
            result,
            axis,
            begin,
            tuple(node.output for node in chain),
        )


def _forward(graph: Graph, name: str) -> list[Node]:
    """The nodes from an input to the concat that reads it, or none."""
    chain: list[Node] = []
    while (user := _only_user(graph, name)) is not None and name not in graph.outputs:
        chain.append(user)
        name = user.output
        if user.op == "concat":
            return chain if len(user.inputs) == 2 and len(chain) > 1 else []
        if user.op not in ("dequantize", "pad", "quantize"):
            break
    return []


def _backward(graph: Graph, concat: Node) -> list[Node]:
    """The nodes from a concat's second operand to the first dequantize without a pad before it."""
    chain = [graph.producers[concat.inputs[1]]] if concat.inputs[1] in graph.producers else []
    while chain and chain[-1].op in ("dequantize", "pad", "quantize"):
        source = graph.producers.get(chain[-1].inputs[0])
        is_padded = source is not None and source.op == "quantize" and _pads(graph, source)
        if source is None or (chain[-1].op == "dequantize" and not is_padded):
            return chain
        chain.append(source)
    return chain or [concat]


def _pads(graph: Graph, quantized: Node) -> bool:
    producer = graph.producers.get(quantized.inputs[0])
    return producer is not None and producer.op == "pad"


def _only_user(graph: Graph, name: str) -> Node | None:
    users = graph.users.get(name, ())
    return users[0] if len(users) == 1 else None


def _has_scale(node: Node) -> bool:
    return node.op in ("dequantize", "quantize")


def _same_scale(graph: Graph, one: Node, other: Node) -> bool:
    pairs = zip(one.inputs[1:], other.inputs[1:], strict=True)
    return all(np.array_equal(graph.constant(a), graph.constant(b)) for a, b in pairs)
