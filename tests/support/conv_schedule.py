"""The schedule of a convolution that the tests of schedules and of lowerings share."""

from collections.abc import Callable

from daedal.compiler.schedule import BlockRef, Schedule

__all__ = ["schedule_conv2d"]


def schedule_conv2d(
    schedule: Schedule,
    check: Callable[[], None],
    *,
    tile_rows: int = 4,
    tile_columns: int = 4,
    tile_out: int = 1,
    tile_in: int = 1,
    threads: int = 1,
) -> None:
    """Tile, cache and tensorize `conv2d`; `check` runs after every primitive."""

    def done() -> None:
        check()

    acc, y = schedule.get_block("acc"), schedule.get_block("y")
    loads_in = {}
    for block, name, scope in ((acc, "x", "inp"), (acc, "w", "wgt"), (y, "par", "par")):
        loads_in[name] = schedule.cache_read(block, name, scope)
        done()
    schedule.set_scope(acc, 0, "acc")
    done()
    store = schedule.cache_write(y, 0, "out")
    done()

    _, oc, oh, ow, _, _ = schedule.get_loops(y)
    oc_0, oc_1 = schedule.split(oc, [None, tile_out])
    done()
    oh_0, oh_1 = schedule.split(oh, [None, tile_rows])
    done()
    ow_0, ow_1 = schedule.split(ow, [None, tile_columns])
    done()
    schedule.reorder(oc_0, oh_0, ow_0, oc_1, oh_1, ow_1)
    done()
    tile = ow_0
    if threads > 1:
        tile, thread = schedule.split(ow_0, [None, threads])
        done()
        schedule.virtual_thread(thread)
        done()
        tile = thread
    schedule.compute_at(acc, tile)
    done()
    schedule.reverse_compute_at(store, tile)
    done()
    schedule.compute_at(loads_in["par"], tile)
    done()

    n, oc, oh, ow, b, co, ic, kh, kw, ci = schedule.get_loops(acc)[-10:]
    ic_0, ic_1 = schedule.split(ic, [None, tile_in])
    done()
    schedule.reorder(ic_0, n, oc, ic_1, kh, kw, oh, ow, b, co, ci)
    done()
    for name in ("x", "w"):
        schedule.compute_at(loads_in[name], ic_0)
        done()
    schedule.double_buffer(loads_in["x"])
    done()
    schedule.tensorize(b, "gemm")
    done()
    schedule.tensorize(schedule.get_loops(y)[-2], "requantize")
    done()
    dims: list[tuple[BlockRef, int, str]] = [
        (loads_in["x"], 6, "load"),
        (loads_in["w"], 6, "load"),
        (loads_in["par"], 3, "load"),
        (store, 6, "store"),
    ]
    for block, count, intrin in dims:
        schedule.tensorize(schedule.get_loops(block)[-count], intrin)
        done()
