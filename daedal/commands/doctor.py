"""``daedal doctor``: which external tools, levels of the processor and GPUs are there, and what the
caches hold."""

from rich.markup import escape
from rich.table import Table

from daedal.commands.options import Json
from daedal.compiler.codegen.gpu.ptxas import ptxas_version
from daedal.native.caches.report import CacheRecord, cache_records
from daedal.native.cpu import model_name
from daedal.native.levels import levels_to_run
from daedal.native.tile_trial import tile_problem
from daedal.reports.console import make_console, print_json, print_tables
from daedal.reports.tables import plain_table
from daedal.runtime.devices.cuda.names import GpuReport, gpu_report
from daedal.sim.rtl.toolchain import ToolRecord, probe

__all__ = ["doctor_command"]


def doctor_command(as_json: Json = False) -> None:
    """List external tools, the levels of the processor, the GPUs and the caches.

    Of each tool: whether it is there, what it is needed for, and how to get it."""
    tools, gpus, caches = [*probe(), _ptxas_record()], gpu_report(), cache_records()
    if as_json:
        print_json(
            {
                "tools": [_tool_json(record) for record in tools],
                "processor": _processor_json(),
                "gpus": _gpu_json(gpus),
                "caches": [_cache_json(record) for record in caches],
            }
        )
        return
    console = make_console()
    print_tables(console, _tool_table(tools))
    console.print(_processor_text(), soft_wrap=True)
    if gpus.gpus:
        print_tables(console, _gpu_table(gpus))
    else:
        console.print(_no_gpu(gpus))
    print_tables(console, _cache_table(caches))


def _ptxas_record() -> ToolRecord:
    return ToolRecord(
        "ptxas",
        ptxas_version(),
        "checking kernels for NVIDIA's GPUs; their drivers compile them without it",
        "pip install 'daedal[gpu]'",
    )


def _tool_json(record: ToolRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "version": record.version,
        "needed_for": record.needed_for,
        "how_to_get": record.how_to_get,
    }


def _processor_json() -> dict[str, object]:
    return {
        "name": model_name(),
        "levels": list(levels_to_run()),
        "tile_registers": {"used": tile_problem() is None, "problem": tile_problem()},
    }


def _processor_text() -> str:
    """What compiled code may use of this processor, the best level first."""
    levels = ", ".join(levels_to_run()) or "none that code is compiled for"
    problem = tile_problem()
    tiles = f"; {problem}" if problem else "; AMX is used, and computed the right products"
    return f"processor {escape(model_name())}: {levels}{tiles}"


def _gpu_json(report: GpuReport) -> dict[str, object]:
    return {
        "cuda": report.cuda,
        "found": [
            {
                "name": gpu.name,
                "architecture": gpu.architecture,
                "multiprocessors": gpu.multiprocessors,
                "memory_bytes": gpu.memory_bytes,
            }
            for gpu in report.gpus
        ],
        "problem": report.problem,
        "how_to_get": report.how_to_get,
    }


def _cache_json(record: CacheRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "holds": record.title,
        "folder": None if record.folder is None else str(record.folder),
        "entries": record.num_entries,
        "bytes": record.num_bytes,
        "limit_bytes": record.limit_bytes,
        "problem": record.problem,
    }


def _tool_table(records: list[ToolRecord]) -> Table:
    some_missing = any(record.version is None for record in records)
    heads = ("tool", "version", "needed for", *(("how to get it",) if some_missing else ()))
    table = plain_table("Tools", heads, len(heads))
    for column in table.columns[1:]:
        column.no_wrap = False
    for record in records:
        found = escape(record.version) if record.version else "[red]missing[/red]"
        how = "" if record.version else escape(record.how_to_get)
        table.add_row(record.name, found, record.needed_for, *([how] if some_missing else []))
    return table


def _gpu_table(report: GpuReport) -> Table:
    heads = ("GPU", "name", "architecture", "driver", "multiprocessors", "memory")
    table = plain_table("GPUs", heads, 4)
    for number, gpu in enumerate(report.gpus):
        figures = (str(gpu.multiprocessors), f"{gpu.memory_bytes / (1 << 30):.0f} GiB")
        driver = f"CUDA {report.cuda}"
        table.add_row(str(number), escape(gpu.name), gpu.architecture, driver, *figures)
    return table


def _no_gpu(report: GpuReport) -> str:
    return f"no GPU: {escape(report.problem or '')}"


def _cache_table(records: list[CacheRecord]) -> Table:
    table = plain_table("Caches", ("cache", "holds", "folder", "size", "limit"), 3)
    for record in records:
        folder = escape(str(record.folder)) if record.folder else ""
        if record.problem is not None:
            folder = f"[red]{escape(record.problem)}[/red]"
        sizes = (_megabytes(record.num_bytes), _megabytes(record.limit_bytes))
        table.add_row(record.name, record.title, folder, *sizes)
    return table


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / (1 << 20):,.1f} MiB"
