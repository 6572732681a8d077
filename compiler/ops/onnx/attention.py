"""Attention, and what transformers need around it.

Attention is the scores (a sum of products), their scale, cap and mask (elementwise), a softmax, and
a second sum of products.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.attended import Attended
from daedal.compiler.ops.onnx.accumulate import wide
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.over_axes import number, over_axes, power
from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.expr import Expr, ExprLike, IntImm

__all__ = ["LOWERINGS"]


@dataclass(frozen=True)
class _Heads:
    """An operand (batch, heads, length, size), or (batch, length, heads * size)."""

    operand: Operand
    heads: int
    length: int
    size: int

    def __getitem__(self, index: tuple[Expr, Expr, Expr, Expr]) -> Expr:
        batch, head, at, element = index
        if self.operand.rank == 4:
            return self.operand[index]
        return self.operand[batch, at, head * self.size + element]


def _heads(operation: Operation, x: Operand, heads: int | None) -> _Heads:
    """`x` by heads; `heads` is None where the attribute that says how many is absent."""
    if x.rank == 4:
        return _Heads(x, x.shape[1], x.shape[2], x.shape[3])
    if x.rank != 3 or not heads or x.shape[2] % heads:
        raise operation.node.damaged(
            "an operand must have four dimensions, or three with a number of heads that fits"
        )
    return _Heads(x, heads, x.shape[1], x.shape[2] // heads)


def _attention(operation: Operation) -> list[te.Tensor]:
    """Attention-23, -24, -25.

    The softmax has the precision of the operands, at least float32; a larger one is kept, a smaller
    one makes no difference.
    """
    node = operation.node
    q_heads, kv_heads = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    query = _heads(operation, operation.operand(0), q_heads)
    key = _with_past(operation, _heads(operation, operation.operand(1), kv_heads), 4)
    value = _with_past(operation, _heads(operation, operation.operand(2), kv_heads), 5)
    if query.heads % key.heads or query.size != key.size:
        raise node.damaged("heads of the query must be a multiple of those of the keys")
    raw = _scores(operation, query, key)
    dtype = "float64" if node.integer("softmax_precision", 0) == 11 else raw.dtype
    scale = node.real("scale", 0.0) or 1.0 / math.sqrt(query.size)
    cap = node.real("softcap", 0.0)
    mode = node.integer("qk_matmul_output_mode", 0)
    mask = _Mask.of(operation, query.length, key.length)

    def capped(i: tuple[Expr, ...]) -> Expr:
        scaled = raw[i] * scale
        return te.tanh(scaled / cap) * cap if cap > 0 else scaled

    def masked(*i: Expr) -> Expr:
        return mask.applied(capped(i), i).astype(dtype)

    scores = Operand(operation.compute(raw.shape, masked, "scores"), raw.shape)
    weights = _guarded_softmax(operation, scores)
    total = _means(operation, weights, value)
    operation.attends(Attended(raw, scores.tensor, weights.tensor, total, is_guarded=True))
    results = [
        _output(operation, total, value.size),
        _present(operation, key, 1),
        _present(operation, value, 2),
    ]
    if len(operation.results) > 3 and operation.results[3] is not None:
        kept = operation.results[3].dtype

        def shown(*i: Expr) -> Expr:
            """The scores as `qk_matmul_output_mode` wants them."""
            if mode == 0:
                return (raw[i] * scale).astype(kept)
            return (capped(i) if mode == 1 else (scores if mode == 2 else weights)[i]).astype(kept)

        results.append(operation.compute(raw.shape, shown, "shown"))
    return results


def _with_past(operation: Operation, x: _Heads, index: int) -> _Heads:
    """`x` behind operand number `index`, along the length."""
    past = operation.optional(index)
    if past is None:
        return x
    before = past.shape[2]
    shape = (past.shape[0], x.heads, before + x.length, x.size)

    def formula(b: Expr, h: Expr, s: Expr, e: Expr) -> Expr:
        old = past[b, h, te.minimum(s, before - 1), e]
        return te.select(s < before, old, x[b, h, te.maximum(s - before, 0), e])

    present = Operand(operation.compute(shape, formula, "present"), shape)
    return _Heads(present, x.heads, shape[2], x.size)


def _present(operation: Operation, x: _Heads, result: int) -> te.Tensor:
    """Keys or values as a result (batch, heads, length, size)."""
    wanted = len(operation.results) > result and operation.results[result] is not None
    if not wanted or (x.operand.rank == 4 and x.operand.tensor.value is not None):
        return x.operand.tensor
    shape = (x.operand.shape[0], x.heads, x.length, x.size)
    return operation.compute(shape, lambda b, h, s, e: x[b, h, s, e], "present")


def _scores(operation: Operation, query: _Heads, key: _Heads) -> te.Tensor:
    """Products of every query and every key, (batch, heads, queries, keys)."""
    batch, dtype = query.operand.shape[0], wide(query.operand.dtype)
    repeats, k = query.heads // key.heads, te.reduce_axis(query.size, "k")
    return operation.compute(
        (batch, query.heads, query.length, key.length),
        lambda b, h, i, j: te.sum(
            query[b, h, i, k].astype(dtype) * key[b, h // repeats, j, k].astype(dtype), k
        ),
        "products",
    )


def _means(operation: Operation, weights: Operand, value: _Heads) -> te.Tensor:
    """Values by the softmax (batch, heads, queries, keys)."""
    batch, heads, queries, keys = weights.shape
    repeats, k, dtype = heads // value.heads, te.reduce_axis(keys, "k"), weights.dtype
    return operation.compute(
        (batch, heads, queries, value.size),
        lambda b, h, i, e: te.sum(
            weights[b, h, i, k] * value[b, h // repeats, k, e].astype(dtype), k
        ),
        "sums",
    )


def _output(operation: Operation, total: te.Tensor, size: int) -> te.Tensor:
    """Y from its sums (batch, heads, queries, size)."""
    batch, heads, queries, _ = total.shape
    dtype, kept = total.dtype, operation.result.dtype
    if operation.operand(0).rank == 4:
        if dtype == kept:
            return total
        return operation.compute(total.shape, lambda *i: total[i].astype(kept))
    return operation.compute(
        (batch, queries, heads * size),
        lambda b, i, c: total[b, c // size, i, c % size].astype(kept),
    )


def _guarded_softmax(operation: Operation, scores: Operand) -> Operand:
    """The softmax over the keys; where all are masked, all weights are 0."""
    axes, lowest = (3,), float("-inf")
    highest = over_axes(operation, scores, axes, te.max, lambda i: number(scores[i]), name="max")

    def formula(*i: Expr) -> Expr:
        top = highest.broadcast(i)
        above = scores[i] - te.select(te.eq(top, lowest), 0.0, top)
        return power(above, terms=max(1, scores.shape[-1]))

    powers = Operand(operation.compute(scores.shape, formula, "exp"), scores.shape)
    total = over_axes(operation, powers, axes, te.sum, lambda i: powers[i], name="sum")

    def inverse(*i: Expr) -> Expr:
        return 1 / te.select(te.eq(total[i], 0.0), 1.0, total[i])

    share = Operand(operation.compute(total.shape, inverse, "share"), total.shape)
    weights = operation.compute(scores.shape, lambda *i: powers[i] * share.broadcast(i), "weights")
    return Operand(weights, scores.shape)


@dataclass(frozen=True)
class _Mask:
    """What is added to scores (batch, heads, queries, keys), and which keys a query may see.

    Attributes
    ----------
    given : attn_mask; keys behind its end are hidden.
    lengths : how many keys of each item are no pads.
    offset : keys before the first query; None where that is ``lengths - queries``.
    left, right : how far from its own place a query sees; -1 for any distance.
    """

    given: Operand | None
    lengths: Operand | None
    offset: int | None
    causal: bool
    left: int
    right: int
    queries: int
    keys: int

    @classmethod
    def of(cls, operation: Operation, queries: int, keys: int) -> "_Mask":
        """The mask that a node describes."""
        node, past, lengths = operation.node, operation.optional(4), operation.optional(6)
        given = operation.optional(3)
        if given is not None and (not given.rank or given.shape[-1] > keys):
            raise node.damaged("attn_mask must have at most as many columns as there are keys")
        offset = None if lengths is not None and past is None else past.shape[2] if past else 0
        return cls(
            given,
            lengths,
            offset,
            bool(node.integer("is_causal", 0)),
            node.integer("left_window_size", -1),
            node.integer("right_window_size", -1),
            queries,
            keys,
        )

    def applied(self, score: Expr, i: tuple[Expr, ...]) -> Expr:
        """`score` with the mask at `i`."""
        batch, _, query, key = i
        seen = []
        if self.lengths is not None:
            seen.append(key < self.lengths[batch].astype("int32"))
        place = self._place(batch, query)
        if self.causal:
            seen.append(key <= place)
        if self.left >= 0:
            seen.append(place - key <= self.left)
        if self.right >= 0:
            seen.append(key - place <= self.right)
        if self.given is not None:
            read = self._read(self.given, i)
            if self.given.dtype == "bool":
                seen.append(read)
            else:
                score = score + read.astype(score.dtype)
        visible = all_of(seen)
        return score if visible is None else te.select(visible, score, float("-inf"))

    def _place(self, batch: Expr, query: Expr) -> Expr:
        """Where a query is among the keys."""
        if self.offset is not None:
            return query + self.offset
        assert self.lengths is not None
        return query + self.lengths[batch].astype("int32") - self.queries

    def _read(self, given: Operand, i: tuple[Expr, ...]) -> Expr:
        """The mask at `i`, broadcast; hidden behind its last column."""
        own = i[4 - given.rank :]
        index: list[ExprLike] = [
            IntImm(0) if extent == 1 else at
            for at, extent in zip(own[:-1], given.shape[:-1], strict=True)
        ]
        index.append(own[-1])
        if given.shape[-1] == self.keys:
            return given[tuple(index)]
        hidden: int | float = 0 if given.dtype == "bool" else float("-inf")
        return given.tensor.padded(hidden)[tuple(index)]


def _rotary(operation: Operation) -> list[te.Tensor]:
    """RotaryEmbedding-23: pairs of elements of each head turn by the angles of their position."""
    node, x = operation.node, operation.operand(0)
    heads = _heads(operation, x, node.integer("num_heads", 0))
    turned = node.integer("rotary_embedding_dim", 0) or heads.size
    if turned % 2 or turned > heads.size:
        raise node.damaged("rotary_embedding_dim must be even, and at most the size of a head")
    interleaved = bool(node.integer("interleaved", 0))
    dtype, half = wide(x.dtype), turned // 2

    def angle(index: int, b: Expr, s: Expr, pair: Expr) -> Expr:
        cache, positions = operation.operand(index), operation.optional(3)
        row = (b, s) if positions is None else (positions[b, s],)
        return cache[(*row, pair)].astype(dtype)

    def formula(*i: Expr) -> Expr:
        if x.rank == 4:
            b, h, s, e = i
        else:
            b, s, h, e = i[0], i[1], i[2] // heads.size, i[2] % heads.size
        at = e if turned == heads.size else te.minimum(e, turned - 1)
        if interleaved:
            pair, other, first = at // 2, at // 2 * 2 + (1 - at % 2), te.eq(at % 2, 0)
        else:
            pair, other, first = at % half, (at + half) % turned, at < half
        sine = angle(2, b, s, pair) * heads[b, h, s, other].astype(dtype)
        own = heads[b, h, s, e].astype(dtype)
        cosine = angle(1, b, s, pair) * own
        value = te.select(first, cosine - sine, cosine + sine)
        if turned < heads.size:
            value = te.select(e < turned, value, own)
        return value.astype(x.dtype)

    return [operation.compute(x.shape, formula)]


LOWERINGS: Mapping[str, Lowering] = {"Attention": _attention, "RotaryEmbedding": _rotary}
"""By operator."""
