"""`Variant`: the single description of an accelerator, shared by hardware, simulators and compiler.

Input: a TOML file (`variants/*.toml`) or the dataclasses themselves. Output: a checked, immutable
`Variant` with a content hash. Derived values (rows, widths, instruction fields) are computed in
`scratchpad.py` and `table.py`, never stored.
"""

import copy
import dataclasses
import enum
import hashlib
import json
import tomllib
import types
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from daedal.common.errors import VariantError, first_line
from daedal.common.inputs import read_input
from daedal.isa.variant_section import made, read_section, shown

__all__ = [
    "ArrayConfig",
    "BusConfig",
    "MemoryConfig",
    "MultiplierStyle",
    "UnitsConfig",
    "Variant",
    "load_variant",
    "shipped_variants",
]

MAX_SCRATCHPAD_BYTES = 1 << 26
"""Limit far above the 1 MiB of the largest scratchpad of a shipped variant; the largest FPGAs have
about 100 MB on chip in total. Simulators and the verifier allocate memory for every scratchpad row.
"""

_COUNTS = frozenset({"acc_banks", "tables"})
"""Fields of `MemoryConfig` that are no capacities."""

_OPTIONS = frozenset(
    {"tables", "lane_reductions", "wide_requantize", "gemm_reads_out", "narrow_weights"}
)
"""Parameters of parts that a machine has only if they are not 0 or false."""

MAX_TOML_BYTES = 64 * 1024


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise VariantError(message)


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


class MultiplierStyle(enum.Enum):
    """How the array's multipliers are implemented; results are the same.

    DSP: a hardware multiplier for each. PACKED: a hardware multiplier for two weights that share
    an activation. LUT: logic.
    """

    DSP = "dsp"
    PACKED = "packed"
    LUT = "lut"


@dataclass(frozen=True)
class ArrayConfig:
    """The multiplier array: one (batch x block_in) by (block_in x block_out) product per cycle.

    `depthwise_taps` is the largest number of taps per channel that a depthwise product adds in one
    cycle; 0 omits the mode. `multiplier_style` is the value of a `MultiplierStyle`.
    """

    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    input_bits: int = 8
    weight_bits: int = 8
    accumulator_bits: int = 32
    output_bits: int = 8
    depthwise_taps: int = 1
    multiplier_style: str = "dsp"

    @property
    def style(self) -> MultiplierStyle:
        """`multiplier_style` as the enumeration's member."""
        return MultiplierStyle(self.multiplier_style)

    @property
    def outputs_per_activation(self) -> int:
        """Number of neighbouring outputs whose multipliers share one activation element."""
        return 2 if self.style is MultiplierStyle.PACKED else 1

    def check(self) -> None:
        """Raise VariantError for an array that cannot be built."""
        for name in ("batch", "block_in", "block_out"):
            value = getattr(self, name)
            _require(
                _is_power_of_two(value) and value <= 64,
                f"array.{name} must be a power of two up to 64, not {value}",
            )
        for name in ("input_bits", "weight_bits"):
            value = getattr(self, name)
            _require(value in (4, 8, 16), f"array.{name} must be 4, 8 or 16, not {value}")
        _require(
            self.output_bits == self.input_bits,
            "array.output_bits must equal array.input_bits (one layer's output is the next one's "
            f"input), not {self.output_bits} against {self.input_bits}",
        )
        _require(
            self.accumulator_bits in (32, 48),
            f"array.accumulator_bits must be 32 or 48, not {self.accumulator_bits}",
        )
        _require(
            self.batch == 1 or self.block_in == self.block_out,
            "array.batch above 1 needs block_in equal to block_out, because a row of results is "
            f"then a row of inputs, not {self.block_in} and {self.block_out}; set batch = 1",
        )
        product_bits = self.input_bits + self.weight_bits + self.block_in.bit_length() - 1
        _require(
            product_bits <= self.accumulator_bits,
            f"array.accumulator_bits must hold one product of {product_bits} bits, "
            f"not {self.accumulator_bits}",
        )
        _require(
            self.depthwise_taps in (0, 1, 3),
            f"array.depthwise_taps must be 0, 1 or 3, not {self.depthwise_taps}",
        )
        _require(
            self.depthwise_taps == 0 or self.block_in == self.block_out,
            "array.depthwise_taps needs block_in equal to block_out, not "
            f"{self.block_in} and {self.block_out}; set depthwise_taps = 0",
        )
        styles = [style.value for style in MultiplierStyle]
        _require(
            self.multiplier_style in styles,
            f"array.multiplier_style must be one of {', '.join(styles)}, "
            f"not {self.multiplier_style!r}",
        )
        if self.style is MultiplierStyle.PACKED:
            _require(
                self.input_bits <= 8 and self.weight_bits <= 8,
                'array.multiplier_style "packed" needs inputs and weights of at most 8 bits, so '
                "that two products fit one hardware multiplier, not "
                f'{self.input_bits} and {self.weight_bits}; choose "dsp" or "lut"',
            )
            _require(
                self.block_out >= 2,
                'array.multiplier_style "packed" needs block_out of at least 2, as pairs of '
                f'outputs share a multiplier, not {self.block_out}; choose "dsp" or "lut"',
            )
        if self.depthwise_taps > 1:
            least = self.depthwise_taps * self.outputs_per_activation
            _require(
                self.block_in >= least,
                f"array.depthwise_taps of {self.depthwise_taps} needs block_in of at least {least} "
                f'with multiplier_style "{self.multiplier_style}", so that every tap finds an '
                f"activation of its own, not {self.block_in}; set depthwise_taps = 1",
            )


@dataclass(frozen=True)
class MemoryConfig:
    """Capacities of the scratchpads in bytes, and the numbers of accumulator banks and of tables.

    A micro-op takes 8 bytes in memory; `gemm_uop_bytes` and `alu_uop_bytes` count those. `tables`
    is the number of tables that LOOKUP selects from; 0 omits LOOKUP and its scratchpad.
    """

    inp_bytes: int = 32 * 1024
    wgt_bytes: int = 256 * 1024
    acc_bytes: int = 128 * 1024
    out_bytes: int = 32 * 1024
    par_bytes: int = 8 * 1024
    gemm_uop_bytes: int = 16 * 1024
    alu_uop_bytes: int = 16 * 1024
    acc_banks: int = 4
    tables: int = 0

    def check(self) -> None:
        """Raise VariantError for capacities that are not powers of two, or exceed any chip."""
        for spec in dataclasses.fields(self):
            if spec.name in _COUNTS:
                continue
            value = getattr(self, spec.name)
            _require(
                _is_power_of_two(value) and value <= MAX_SCRATCHPAD_BYTES,
                f"memory.{spec.name} must be a power of two up to {MAX_SCRATCHPAD_BYTES}, "
                f"not {value}",
            )
        _require(
            self.acc_banks in (2, 4, 8), f"memory.acc_banks must be 2, 4 or 8, not {self.acc_banks}"
        )
        _require(
            self.tables in (0, 1, 2, 4, 8),
            f"memory.tables must be 0, 1, 2, 4 or 8, not {self.tables}",
        )


@dataclass(frozen=True)
class BusConfig:
    """The AXI4 master: widths, and bursts in flight in each direction."""

    data_bits: int = 64
    address_bits: int = 32
    read_bursts: int = 16
    write_bursts: int = 16

    def check(self) -> None:
        """Raise VariantError for a bus that AXI4 or the machine does not allow."""
        _require(
            self.data_bits in (64, 128, 256, 512),
            f"bus.data_bits must be 64, 128, 256 or 512, not {self.data_bits}",
        )
        _require(
            32 <= self.address_bits <= 64,
            f"bus.address_bits must be 32 to 64, not {self.address_bits}",
        )
        for name in ("read_bursts", "write_bursts"):
            value = getattr(self, name)
            _require(
                _is_power_of_two(value) and 2 <= value <= 64,
                f"bus.{name} must be a power of two from 2 to 64, not {value}",
            )


@dataclass(frozen=True)
class UnitsConfig:
    """Queues and lanes: throughput of the units around the array.

    `requantize_lanes` elements are requantized per cycle, with multipliers of `multiplier_bits`
    unsigned bits; other ALU operations handle `alu_lanes` elements per cycle. `counters` builds
    the performance counters and the marks that a profile needs. `lane_reductions` builds SUM_LANES
    and MAX_LANES, `wide_requantize` results of REQUANTIZE that have 16 bits, `gemm_reads_out` a
    second read port of OUT, so that GEMM multiplies results where they are (mode DENSE_OUT),
    `narrow_weights` LOADs of 4-bit weights, which become weights of 8 bits on chip (WGT_NARROW).
    """

    queue_depth: int = 16
    token_bits: int = 8
    alu_lanes: int = 16
    requantize_lanes: int = 8
    multiplier_bits: int = 17
    counters: bool = True
    lane_reductions: bool = False
    wide_requantize: bool = False
    gemm_reads_out: bool = False
    narrow_weights: bool = False

    def check(self) -> None:
        """Raise VariantError for queues or lanes that cannot be built."""
        _require(
            _is_power_of_two(self.queue_depth) and 2 <= self.queue_depth <= 256,
            f"units.queue_depth must be a power of two from 2 to 256, not {self.queue_depth}",
        )
        _require(
            2 <= self.token_bits <= 16, f"units.token_bits must be 2 to 16, not {self.token_bits}"
        )
        _require(
            8 <= self.multiplier_bits <= 26,
            f"units.multiplier_bits must be 8 to 26, not {self.multiplier_bits}",
        )


@dataclass(frozen=True)
class Variant:
    """One accelerator. Immutable; `fingerprint` identifies it everywhere.

    Raises VariantError, with the rule that is broken, when it cannot be built.
    """

    name: str
    array: ArrayConfig = field(default_factory=ArrayConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    bus: BusConfig = field(default_factory=BusConfig)
    units: UnitsConfig = field(default_factory=UnitsConfig)

    def __post_init__(self) -> None:
        self._check_name()
        for section in (self.array, self.memory, self.bus, self.units):
            section.check()
        vector = self.array.batch * self.array.block_out
        for name in ("alu_lanes", "requantize_lanes"):
            lanes = getattr(self.units, name)
            _require(
                _is_power_of_two(lanes) and lanes <= vector,
                f"units.{name} must be a power of two up to batch x block_out = {vector}, "
                f"not {lanes}",
            )
        _require(
            self.memory.tables == 0 or self.array.output_bits == 8,
            "memory.tables needs array.output_bits of 8, because a table has an entry for each "
            f"8-bit result, not {self.array.output_bits}; set tables = 0",
        )
        _require(
            not self.units.wide_requantize or self.array.output_bits == 8,
            "units.wide_requantize needs array.output_bits of 8, because wide results have 16 "
            f"bits, not {self.array.output_bits}; set wide_requantize = false",
        )
        _require(
            not self.units.gemm_reads_out or self.array.block_in == self.array.block_out,
            "units.gemm_reads_out needs block_in equal to block_out, because a row of results is "
            f"then a row of inputs, not {self.array.block_in} and {self.array.block_out}; "
            "set gemm_reads_out = false",
        )
        _require(
            not self.units.narrow_weights or self.array.weight_bits == 8,
            "units.narrow_weights needs array.weight_bits of 8, because weights of 4 bits in "
            f"memory become those on chip, not {self.array.weight_bits}; set narrow_weights = "
            "false",
        )
        # Imported here: both modules import Variant, and an impossible variant must not exist.
        from daedal.isa.scratchpad import check_scratchpads
        from daedal.isa.table import check_instructions

        check_scratchpads(self)
        check_instructions(self)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept, as tables by variant are read in every loop of the compiler."""
        return hash((self.name, self.array, self.memory, self.bus, self.units))

    def __getstate__(self) -> dict[str, Any]:
        # Strings have other hashes in another process.
        return {key: value for key, value in self.__dict__.items() if key != "_hash"}

    @property
    def fingerprint(self) -> str:
        """First 16 hexadecimal digits of the SHA-256 over all parameters except the name, and over
        the table of instructions (`isa.instruction_set`).

        Parameters of a part that the machine does not have are not hashed (`_OPTIONS`), so that an
        option that is added later leaves the fingerprints of earlier machines as they are.
        """
        lines = [
            f"{section}.{spec.name}={getattr(getattr(self, section), spec.name)!r}"
            for section in ("array", "memory", "bus", "units")
            for spec in dataclasses.fields(getattr(self, section))
            if spec.name not in _OPTIONS or getattr(getattr(self, section), spec.name)
        ]
        from daedal.isa.instruction_set import instruction_set  # imports Variant

        if table := instruction_set():
            lines.append(f"instructions={table}")
        text = "\n".join(["daedal machine 1", *lines])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def block(self) -> int:
        """Channels of one block in the memory layout NCHW[n]c."""
        return max(self.array.block_in, self.array.block_out)

    @property
    def result_bits(self) -> int:
        """Bits of the widest result of REQUANTIZE."""
        return self.array.output_bits * (2 if self.units.wide_requantize else 1)

    @property
    def macs_per_cycle(self) -> int:
        """Multiplications of one product."""
        return self.array.batch * self.array.block_in * self.array.block_out

    @property
    def bus_bytes(self) -> int:
        """Bytes of one beat."""
        return self.bus.data_bits // 8

    @property
    def word_offset_bits(self) -> int:
        """Low bits of a byte address that select a byte of a bus word; the others are the word's
        address."""
        return (self.bus_bytes - 1).bit_length()

    def replace(self, name: str | None = None, **changes: int | bool | str) -> "Variant":
        """Copy with parameters changed by name, whichever section they are in."""
        sections = {s: getattr(self, s) for s in ("array", "memory", "bus", "units")}
        changed: dict[str, dict[str, Any]] = {s: {} for s in sections}
        for key, value in changes.items():
            owner = next((s for s, v in sections.items() if hasattr(v, key)), None)
            if owner is None:
                raise VariantError(f"a variant has no parameter {key!r}")
            changed[owner][key] = value
        made = {s: dataclasses.replace(v, **changed[s]) for s, v in sections.items()}
        return Variant(name=name or self.name, **made)

    def renamed(self, name: str) -> "Variant":
        """The same machine under another name. Its other parameters are not checked again."""
        made = copy.copy(self)
        object.__setattr__(made, "name", name)
        made._check_name()
        return made

    def _check_name(self) -> None:
        valid = self.name.replace("_", "").replace("-", "").isalnum() and self.name.isascii()
        _require(
            valid and len(self.name) <= 32,
            "a variant's name must be at most 32 letters, digits, '-' and '_', "
            f"not {self.name[:40]!r}",
        )

    def to_toml(self) -> str:
        """The text that `from_toml` reads."""
        lines = [f'name = "{self.name}"']
        for section in ("array", "memory", "bus", "units"):
            lines += ["", f"[{section}]"]
            values = dataclasses.asdict(getattr(self, section))
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_toml(cls, text: str, *, source: str = "variant") -> "Variant":
        """Read a variant; unknown sections, keys and wrong types are refused."""
        if len(text) > MAX_TOML_BYTES:
            raise VariantError(f"{source} must have at most {MAX_TOML_BYTES} letters, and has more")
        try:
            data = tomllib.loads(text)
        except RecursionError as error:
            raise VariantError(f"{source} must be a variant, not values within values") from error
        except ValueError as error:  # not TOML, or a number of thousands of digits
            raise VariantError(f"{source} must be valid TOML: {first_line(error)}") from error
        name = data.pop("name", None)
        if not isinstance(name, str):
            raise VariantError(
                f"{source} must give the variant's name as a string, not {shown(name)}"
            )
        sections = {"array": ArrayConfig, "memory": MemoryConfig, "bus": BusConfig}
        parts: dict[str, Any] = {
            key: read_section(kind, key, data.pop(key, {}), source)
            for key, kind in {**sections, "units": UnitsConfig}.items()
        }
        for key in data:
            raise VariantError(
                f"{source} may hold name, [array], [memory], [bus] and [units], not {shown(key)}"
            )
        return made(cls, source, name=name, **parts)


def _variants_package() -> types.ModuleType:
    import daedal.variants

    return daedal.variants


def shipped_variants() -> list[str]:
    """Names of the variants that come with Daedal."""
    folder = resources.files(_variants_package())
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_variant(name_or_path: str | Path) -> Variant:
    """Load a shipped variant by name, or any variant from the path of a TOML file."""
    text = str(name_or_path)
    if isinstance(name_or_path, str) and not text.endswith(".toml"):
        if text not in shipped_variants():
            known = ", ".join(shipped_variants())
            raise VariantError(
                f"a variant is one of {known}, or the path of a .toml file, not {text!r}"
            )
        source = resources.files(_variants_package()) / f"{text}.toml"
        return Variant.from_toml(source.read_text(encoding="utf-8"), source=f"variant {text!r}")
    data = read_input(name_or_path, "a variant file", MAX_TOML_BYTES, VariantError)
    try:
        return Variant.from_toml(data.decode("utf-8"), source=repr(Path(name_or_path).name))
    except UnicodeDecodeError as error:
        raise VariantError(f"a variant file must be UTF-8 text; {text!r} is not") from error
