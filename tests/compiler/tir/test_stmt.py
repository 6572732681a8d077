"""Statements: what a block says of its iteration variables."""

from daedal.compiler import te
from daedal.compiler.tir.sites import collect


def test_iteration_variables_are_independent_or_accumulate():
    a, b = te.placeholder((4, 6), "int8", "a"), te.placeholder((6, 5), "int8", "b")
    k = te.reduce_axis(6, "k")
    y = te.compute((4, 5), lambda i, j: te.sum(a[i, k] * b[k, j], k), "y")
    (site,), _ = collect(te.create_prim_func([a, b], [y]).body)
    assert [axis.extent for axis in site.block.spatial_vars] == [4, 5]
    assert [axis.extent for axis in site.block.reduce_vars] == [6]
