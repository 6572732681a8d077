"""Rewrites what chooses and adds tokens in the form that integers compute, exactly."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import onnx
from onnx import helper

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.rewrites.edges import Edges

__all__ = ["normalize_tokens"]


def normalize_tokens(network: Network) -> None:
    """Rewrite operators over tokens (1, tokens, channels), and the choice of one part of a tensor.

    Before -> after::

        Gather(x, 0, axis=k)                ->  Reshape(Slice(x))
        Add(Concat(token, x), positions)    ->  Add(Pad(x), positions + token)
    """
    for rule in (_sliced_part, _padded_token):
        edges = Edges.of(network)
        network.rewrite(partial(rule, edges))
        network.drop_unread()


def _sliced_part(edges: Edges, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """The choice of one index of an axis as a slice: of one token (batch, tokens, channels), or of
    queries, keys or values."""
    shape = edges.shapes.get(node.input[0], ()) if node.input else ()
    index = edges.network.constants.get(node.input[1]) if node.op_type == "Gather" else None
    if index is None or index.ndim or not shape or node.input[0] in edges.network.constants:
        return None
    axis = attribute(node, "axis", 0) % len(shape)
    first, output = int(index) % shape[axis], node.output[0]
    bounds = [
        edges.network.add_constant(f"{output}_{role}", np.array([value], dtype=np.int64))
        for role, value in (("begin", first), ("end", first + 1), ("axis", axis))
    ]
    part = edges.network.fresh(f"{output}_part")
    return [
        helper.make_node("Slice", [node.input[0], *bounds], [part], name=part),
        edges.network.reshape(part, np.delete(shape, axis).tolist(), output, node.name),
    ]


def _padded_token(edges: Edges, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Constant tokens before or after others, and a constant sum, as padding and a constant sum."""
    joined, constants = _joined(edges, node), edges.network.constants
    if joined is None:
        return None
    join, place = joined
    x, output = join.input[place], node.output[0]
    (positions,) = (name for name in node.input if name in constants)
    before, after = (_tokens(edges, part) for part in (join.input[:place], join.input[place + 1 :]))
    shape = edges.shapes[x]
    added = np.broadcast_to(constants[positions], edges.shapes[output]).copy()
    added[:, : len(before)] += before
    added[:, len(before) + shape[1] :] += after
    pads = np.array([0, len(before), 0, 0, len(after), 0], dtype=np.int64)
    padded = edges.network.fresh(f"{output}_padded")
    operands = [x, edges.network.add_constant(f"{output}_pads", pads)]
    sums = [padded, edges.network.add_constant(f"{output}_added", added)]
    return [
        helper.make_node("Pad", operands, [padded], name=padded),
        helper.make_node("Add", sums, [output], name=node.name),
    ]


def _joined(edges: Edges, node: onnx.NodeProto) -> tuple[onnx.NodeProto, int] | None:
    """The Concat along the tokens to which a sum adds a constant, and the place of its only operand
    that is computed."""
    if node.op_type != "Add" or len(edges.shapes.get(node.output[0], ())) != 3:
        return None
    for name, other in (tuple(node.input), tuple(reversed(node.input))):
        join = edges.producer(name, "Concat")
        if join is None or other not in edges.network.constants:
            continue
        places = [i for i, part in enumerate(join.input) if part not in edges.network.constants]
        single = edges.network.has_one_user(name, edges.users)
        if single and len(places) == 1 and len(join.input) > 1 and attribute(join, "axis", 0) == 1:
            batch = edges.shapes[node.output[0]][0]
            return (join, places[0]) if batch == 1 else None
    return None


def _tokens(edges: Edges, names: Sequence[str]) -> Array:
    """Constant tokens side by side, (tokens, channels)."""
    parts = [edges.network.constants[name][0] for name in names]
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)
