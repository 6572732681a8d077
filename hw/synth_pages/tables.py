"""The tables of docs/hardware.md about synthesis, as heads and rows of text.

Input: records of docs/synthesis.json and docs/published.json. Output: a `Table` for each.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from daedal.hw.synth.families import DEVICES, RESOURCES, CellReport, Family
from daedal.hw.synth_pages.figures import frames_per_second, gops_per_klut, peak_gops
from daedal.hw.synth_pages.stale import marked
from daedal.isa.variant import Variant, load_variant

__all__ = [
    "Table",
    "alternatives_table",
    "area_table",
    "best_record",
    "board_sentence",
    "form_of",
    "options_table",
    "published_table",
    "refusals",
    "report_of",
    "routed_sentence",
    "routed_table",
]

_HEADS = {name: RESOURCES[name] for name in ("lut", "ff", "dsp", "block_ram")}
_OPEN = "–"
"""Cell text for an unknown value."""

Record = Mapping[str, Any]
Table = tuple[list[str], list[list[str]]]
"""Head and rows."""


def form_of(record: Record) -> Variant:
    """The variant of a record, with the multipliers that it was measured with."""
    return load_variant(record["variant"]).replace(None, multiplier_style=record["multipliers"])


def report_of(record: Record) -> CellReport:
    """The resources of a record's cells as they were mapped, counted again."""
    return CellReport.of(Family(record["family"]), record["cells"])


def best_record(records: Sequence[Record]) -> Record:
    """The fastest form of one variant on one device; the first if none is routed."""
    return max(records, key=lambda record: record.get("fmax_mhz", 0.0))


def routed_table(records: Sequence[Record], target: str) -> Table:
    """A row per variant on a device on which they are routed: area, Fmax, and what follows."""
    head = [
        "variant", "MACs/cycle", "multipliers", *_HEADS.values(), "Fmax, MHz", "peak GOPS",
        "GOPS per kLUT", "ResNet-18, cycles", "frames/s",
    ]  # fmt: skip
    rows = []
    for record in _best(records, target):
        macs = form_of(record).macs_per_cycle
        fmax_mhz, cycles = record.get("fmax_mhz"), record["resnet18"].get("cycles")
        gops = peak_gops(macs, fmax_mhz)
        rows.append(
            [
                marked(record["variant"], record),
                f"{macs:,}",
                record["multipliers"],
                *_resources(record),
                _fmax(record),
                _number(gops, 1),
                _number(gops_per_klut(gops, record["used"]["lut"]), 2),
                _number(cycles),
                _number(frames_per_second(cycles, fmax_mhz), 1),
            ]
        )
    return head, rows


def routed_sentence(records: Sequence[Record], target: str) -> str:
    """How the figures of `routed_table` were made, and which command makes them again."""
    shown = [record for record in _best(records, target) if "fmax_mhz" in record]
    tried = {len(record["seeds"]) + len(record["given_up"]) for record in shown}
    seeds = max(tried, default=1)
    command = f"daedal synth VARIANT --fpga {target} --multipliers STYLE --seeds {seeds}"
    return (
        f"A row is what `{command}` reports, where STYLE is the row's column *multipliers*: the "
        f"best of {seeds} seeds. Without these options the command uses the variant's own "
        "multipliers and one seed, so it reports another machine and another clock."
    )


def area_table(records: Sequence[Record], target: str) -> Table:
    """A row per variant on a device on which they are only estimated."""
    head = ["variant", "multipliers", *_HEADS.values(), "fits", "ResNet-18, cycles"]
    rows = []
    for record in _best(records, target):
        cycles = _number(record["resnet18"].get("cycles"))
        fits = _too_much(record) or "yes"
        name = marked(record["variant"], record)
        rows.append([name, record["multipliers"], *_resources(record), fits, cycles])
    return head, rows


def refusals(records: Sequence[Record]) -> Iterator[str]:
    """A sentence per reason why variants do not run the network."""
    names: dict[str, list[str]] = {}
    for record in records:
        reason = record["resnet18"].get("refused")
        if reason is not None:
            names.setdefault(reason.partition(", not ")[0], []).append(f"`{record['variant']}`")
    for reason, variants in names.items():
        yield f"{' and '.join(dict.fromkeys(variants))} do not run ResNet-18: {reason}."


def board_sentence(record: Record) -> str:
    """A sentence: what a board's whole design reaches in context, compared with its target."""
    if "failed" in record:
        return f"`{record['variant']}` could not be built for {record['board']}: {record['failed']}"
    bar = record["bar"]
    asked = f"required: {bar['macs_per_cycle']} MACs/cycle at {bar['mhz']:g} MHz"
    what = f"The whole design for {record['board']} with `{record['variant']}`, in context"
    what = marked(what, record)
    if record["shortfalls"]:
        return f"{what}, does not fit: {_too_much(record)}; {asked}."
    size = record["bitstream_bytes"]
    bitstream = "no bitstream" if size is None else f"a bitstream of {size:,} bytes"
    seeds = list(record["seeds"])
    tried = f"the best of {len(seeds)} seeds" if len(seeds) > 1 else f"with seed {seeds[0]}"
    return (
        f"{what} (pins, {record['memory_bytes'] // 1024} KiB of memory and a serial bridge around "
        f"the machine), reaches {record['fmax_mhz']:.1f} MHz with {record['macs_per_cycle']} "
        f"MACs/cycle, {tried}; {bitstream} for "
        f"{record['clock_mhz']:g} MHz; {asked}."
    )


def alternatives_table(records: Sequence[Record]) -> Table:
    """A row per alternative: resources, and cycles of each workload compared with the first row."""
    first = records[0]["cycles"]
    head = ["alternative", *_HEADS.values(), "fits", *first]
    rows = []
    for record in records:
        cycles = [_change(record["cycles"].get(work), first[work]) for work in first]
        label = marked(record["label"], record)
        rows.append([label, *_resources(record), _too_much(record) or "yes", *cycles])
    return head, rows


def options_table(records: Sequence[Record], network: str) -> Table:
    """A row per machine without some options: resources, and how it runs a network: launches, the
    share of the multiplications that they do, and their cycles."""
    runs = ["launches", "MACs on the machine", "their cycles"]
    head = ["machine", *_HEADS.values(), "fits", *runs]
    rows = []
    for record in records:
        run = record.get(network)
        cells = [_OPEN] * len(runs)
        if run is not None:
            cells = [str(run["launches"]), f"{run['macs']:.0%}", _number(run["cycles"])]
        label = marked(record["label"], record)
        rows.append([label, *_resources(record), _too_much(record) or "yes", *cells])
    return head, rows


def published_table(accelerators: Sequence[Record]) -> Table:
    """A row per accelerator of others; sources and conditions stand below by number."""
    head = [
        "", "accelerator", "device", "bits", "MACs/cycle", "clock, MHz", "peak GOPS",
        *_HEADS.values(), "GOPS per kLUT", "network", "frames/s",
    ]  # fmt: skip
    rows = []
    for number, row in enumerate(accelerators, start=1):
        gops = peak_gops(row["macs_per_cycle"], row["clock_mhz"])
        rows.append(
            [
                str(number),
                row["name"],
                row["device"],
                _number(row["bits"]),
                _number(row["macs_per_cycle"]),
                _number(row["clock_mhz"]),
                _number(gops, 1),
                *(_number(row[name]) for name in _HEADS),
                _number(gops_per_klut(gops, row["lut"]), 2),
                row["network"] or _OPEN,
                _number(row["frames_per_second"], 1),
            ]
        )
    return head, rows


def _best(records: Sequence[Record], target: str) -> Iterator[Record]:
    """The record that counts of each variant on a device, in the order of the file."""
    mine = [record for record in records if record["target"] == target]
    for name in dict.fromkeys(record["variant"] for record in mine):
        yield best_record([record for record in mine if record["variant"] == name])


def _resources(record: Record) -> list[str]:
    """What is used of each, and the share of the device's."""
    device, used = DEVICES[Family(record["family"])], record["used"]
    return [f"{used[name]:,.10g} ({used[name] / getattr(device, name):.0%})" for name in _HEADS]


def _fmax(record: Record) -> str:
    too_much, fmax_mhz = _too_much(record), record.get("fmax_mhz")
    if too_much:
        return f"does not fit: {too_much}"
    return "not routed" if fmax_mhz is None else f"{fmax_mhz:.1f}"


def _too_much(record: Record) -> str:
    """``160 DSP for 156``: what is needed of what may be taken; nothing where it fits."""
    return ", ".join(
        f"{item['needed']:,.10g} {RESOURCES[item['resource']]} for {item['usable']:,}"
        for item in record["shortfalls"]
    )


def _number(value: float | None, digits: int | None = None) -> str:
    if value is None:
        return _OPEN
    return f"{value:,.10g}" if digits is None else f"{value:,.{digits}f}"


def _change(cycles: int | None, first: int) -> str:
    if cycles is None:
        return "not measured"
    change = f" ({cycles / first - 1:+.1%})" if cycles != first and first else ""
    return f"{cycles:,}{change}"
