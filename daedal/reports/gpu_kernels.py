"""The kernels of an artifact for GPUs: a table, and plain data."""

from collections.abc import Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from daedal.artifact.gpu_code import Extents
from daedal.profiling.gpu import KernelProfile
from daedal.reports.tables import plain_table, shown_names

__all__ = ["kernels_json", "kernels_note", "kernels_table"]


def kernels_json(kernels: Sequence[KernelProfile]) -> list[dict[str, Any]]:
    """Everything that is known of each kernel."""
    return [
        {
            "part": item.part,
            "symbol": item.kernel.symbol,
            "names": list(item.names),
            "operators": list(item.operators),
            "launches": item.launches,
            "grid": list(item.kernel.grid),
            "block": list(item.kernel.block),
            "shared_bytes": item.kernel.shared_bytes,
            "local_bytes": item.kernel.local_bytes,
            "bytes_moved": item.bytes_moved,
            "products": item.products,
            "tensor_cores": item.kernel.cores or None,
            "seconds": item.seconds,
            "share_of_roof": item.share_of_roof,
        }
        for item in kernels
    ]


def kernels_table(kernels: Sequence[KernelProfile]) -> Table:
    """A row for each kernel; bytes, products and times are those of one launch."""
    heads = ("part", "computes", "operators", "launches", "grid", "block", "shared", "registers")
    titles = (*heads, "moved", "MACs", "time", "of the roof")
    table = plain_table("Kernels, by their first launches", titles, 3)
    for item in kernels:
        kernel, share = item.kernel, item.share_of_roof
        cores = f" ({kernel.cores} cores)" if kernel.cores else ""
        table.add_row(
            f"{item.part}",
            escape(shown_names(item.names)),
            ", ".join(item.operators),
            f"{item.launches}",
            _extents(kernel.grid),
            _extents(kernel.block),
            f"{kernel.shared_bytes:,} B",
            f"{kernel.local_bytes:,} B",
            f"{item.bytes_moved:,} B",
            f"{item.products:,}{cores}" if item.products else "",
            "" if item.seconds is None else f"{1e6 * item.seconds:,.1f} us",
            "" if share is None else f"{100 * share:.1f} %",
        )
    return table


def kernels_note(kernels: Sequence[KernelProfile]) -> str:
    """What the columns mean, and where times come from."""
    note = "registers: arrays of a thread; moved: operands and result, once each"
    timed = [item for item in kernels if item.seconds is not None]
    if not timed:
        return f"{note}; no time is known: the emulator has no clock, and no GPU was asked"
    peaks = timed[0].peaks
    roof = "not known for this GPU" if peaks is None else f"of {peaks.title}, by its data sheet"
    return f"{note}; time: by events of the GPU; the roof: {roof}"


def _extents(extents: Extents) -> str:
    """Without those that are 1 at the end."""
    x, y, z = extents
    if z > 1:
        return f"{x:,} x {y:,} x {z:,}"
    return f"{x:,} x {y:,}" if y > 1 else f"{x:,}"
