"""Activations by a table with an entry for every value.

Sigmoid, tanh, GELU and the like of 8-bit values. They run on the host of variants without
tables (`daedal.compiler.graph.ops.lookup`).
"""

from daedal.compiler import te

__all__ = ["lookup"]


def lookup(x: te.Tensor, table: te.Tensor) -> te.Tensor:
    """``table[x - lowest]``.

    Parameters
    ----------
    x : any shape of seven dimensions, int8.
    table : (256,), the results of -128, ..., 127.

    Returns
    -------
    The shape of `x`, in the dtype of `table`.
    """
    lowest = -(table.shape[0] // 2)
    return te.compute(
        x.shape,
        lambda n, c, h, w, u, b, o: table[x[n, c, h, w, u, b, o].astype("int32") - lowest],
        "y",
    )
