"""Attention as one kernel: means of values, weighted by a softmax of products, whose scores are
never in the GPU's memory.

A block of threads has the queries of `rows` results. It goes through the keys, `columns` at a time,
and keeps the largest score so far of each query, the sum of its weights relative to it, and the
weighted sums of values; where the largest score grows, both sums are scaled::

    t = max(m, max(s[j], j))    w[j] = exp(s[j] - t)    c = exp(m - t)
    l = l * c + sum(w[j], j)    a = a * c + sum(w[j] * v[j], j)    m = t

The result is ``a / l``. Threads multiply float32 (`attention_threads`), and tensor cores float16
(`attention_cores`). Of fewer than four queries, each has a block of its own (`attention_single`).
Source: Dao et al., "FlashAttention", 2022, algorithm 1; Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018.
"""

from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.attention_cores import CoreAttention
from daedal.compiler.ops.gpu.attention_form import attention_form
from daedal.compiler.ops.gpu.attention_single import SingleAttention
from daedal.compiler.ops.gpu.attention_threads import ThreadAttention
from daedal.compiler.ops.gpu.attention_tiles import AttentionTiles
from daedal.compiler.tir.stmt import PrimFunc

__all__ = ["attention_function"]


def attention_function(
    kernel: Kernel, tiles: AttentionTiles, *, has_vectors: bool = True
) -> PrimFunc:
    """A kernel of attention as plain loops, bound to the axes of the grid; with `has_vectors`,
    several elements of float32 are copied at a time."""
    form = attention_form(kernel)
    assert form is not None
    if tiles.rows == 1:
        return SingleAttention(kernel, form, tiles, has_vectors).function()
    if form.is_half:
        return CoreAttention(kernel, form, tiles).function()
    return ThreadAttention(kernel, form, tiles, has_vectors).function()
