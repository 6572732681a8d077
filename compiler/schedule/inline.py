"""Computing a block's formula where its result is read."""

from daedal.compiler.schedule.compute_at import readers, writers
from daedal.compiler.schedule.edit import edit_block, find_site, remove_block, replace_site
from daedal.compiler.tir.expr import Axis, Expr, Load, Var
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, PrimFunc, Stmt
from daedal.compiler.tir.visit import substitute
from daedal.isa.errors import ScheduleError

__all__ = ["compute_inline"]


def compute_inline(func: PrimFunc, body: Stmt, name: str) -> Stmt:
    """Replace reads by the formula; see `Schedule.compute_inline`."""
    block = find_site(func, name).block
    store = block.body
    plain = isinstance(store, BufferStore) and all(isinstance(i, Axis) for i in store.indices)
    if not plain or block.reduce_vars or block.init is not None:
        raise ScheduleError(
            f"compute_inline needs a block without reduction that stores at its own variables; "
            f"{name!r} is none"
        )
    assert isinstance(store, BufferStore)
    if store.buffer in func.outputs:
        raise ScheduleError(
            f"compute_inline cannot remove an output; {name!r} writes {store.buffer.name!r}"
        )
    sites, _ = collect(body)
    if len(writers(sites, store.buffer)) > 1:
        raise ScheduleError(f"compute_inline needs the only writer of {store.buffer.name!r}")

    def formula(load: Load) -> Expr | None:
        if load.buffer is not store.buffer:
            return None
        if load.pad_value is not None:
            raise ScheduleError(
                f"compute_inline cannot pad a formula; {store.buffer.name!r} is read through padded"
            )
        values: dict[Var, Expr] = {}
        for axis, index in zip(store.indices, load.indices, strict=True):
            assert isinstance(axis, Axis)
            values[axis] = index
        return substitute(store.value, values)

    for reader in readers(sites, store.buffer):
        changed = edit_block(reader.block, formula)
        realize = BlockRealize(reader.realize.values, changed, reader.realize.predicate)
        body = replace_site(body, reader.block.name, realize)
    rest = remove_block(body, name)
    assert rest is not None
    return rest
