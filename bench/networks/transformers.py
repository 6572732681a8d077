"""Modern networks on the accelerator.

    python bench/networks/transformers.py [--step S] [--json F]

Step `activations`: a network of three stages (`bench.networks.activation_network`) with SiLU and
with GELU, quantized by `daedal quantize`, on `attention` without and with its tables, compared with
the same network with ReLU. Cycles are those of the cycle model with memory preset `ddr`; the RTL
must count the same and give the same bytes. Every layer is compared twice: functional simulator
with integer reference, which must be equal, and integer reference with onnxruntime, which may
differ by one unit of the layer's result.

Step `cycles`: whole transformers in one launch, on the cycle model and on the RTL
(`bench.networks.transformer_cycles`).

Step `accuracy`: quantized transformers compared with their float models
(`bench.networks.transformer_accuracy`).

Step `decode`: a language model token by token, with its caches on the device
(`bench.networks.transformer_decode`).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import onnx
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from bench.json_file import write_json
from bench.left_out import LeftOut
from bench.networks.activation_network import activation_network, samples_for
from bench.networks.transformer_accuracy import accuracy_rows, show_accuracy
from bench.networks.transformer_cycles import cycle_rows, show_cycles
from bench.networks.transformer_decode import ATTENTION4, decode_row, show_decode
from bench.networks.transformer_models import MODELS, what_is_missing
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import OperatorDifference, compare_operators, processor_graph
from daedal.checking.layer_check import check_layers
from daedal.isa.variant import Variant, load_variant

__all__ = ["ActivationRow", "main", "measure"]

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "models"
STEPS = ("activations", "cycles", "accuracy", "decode")

VARIANT = "attention"
BASELINE = "ReLU"
ACTIVATIONS = ("SiLU", "GELU")
CALIBRATION_SEED, IMAGE_SEED = 1, 2
NUM_SAMPLES = 32

CYCLE_BAR = 0.03
"""More cycles than with ReLU, as a share of these."""


@dataclass(frozen=True)
class ActivationRow:
    """What was measured of one activation.

    Attributes
    ----------
    launches_before, launches : without and with tables.
    cycles_before, cycles : of all launches; without tables, those of the host are not among them.
    rtl_cycles : with tables, of the cycle-accurate RTL.
    rtl_differs : outputs whose bytes are not the functional simulator's.
    baseline_cycles : of the network with ReLU.
    layers : layers of the accelerator, with tables.
    layers_compared, layers_wrong : functional simulator against the integer reference.
    errors : of each operator against onnxruntime: operator, name, elements, how many differ, and
        the largest difference in units of the last place.
    """

    activation: str
    launches_before: int
    launches: int
    cycles_before: int
    cycles: int
    rtl_cycles: int
    rtl_differs: int
    baseline_cycles: int
    layers: int
    layers_compared: int
    layers_wrong: int
    errors: tuple[OperatorDifference, ...]

    @property
    def more_cycles(self) -> float:
        """Cycles that the activation costs, as a share of those with ReLU."""
        return self.cycles / self.baseline_cycles - 1

    @property
    def largest_error(self) -> int:
        """Of all operators, in units of the last place."""
        return max(item.largest for item in self.errors)

    @property
    def passed(self) -> bool:
        """One launch, in the cycles allowed, equal to the reference, on the RTL, too, and near
        onnxruntime."""
        equal = self.layers_compared > 0 and self.layers_wrong == 0
        equal = equal and self.rtl_cycles == self.cycles and self.rtl_differs == 0
        near = len(self.errors) > 0 and self.largest_error <= 1
        return self.launches == 1 and self.more_cycles <= CYCLE_BAR and equal and near


def measure(activation: str, plain: Variant, tables: Variant, baseline: int) -> ActivationRow:
    """The row of one activation; `baseline` are the cycles of the network with ReLU."""
    model = _quantized(activation)
    before, after = (daedal.compile(model, variant) for variant in (plain, tables))
    inputs = {"x": samples_for(IMAGE_SEED, 1)}
    check = check_layers(after, model, inputs)
    found, expected = (
        daedal.simulate(after, inputs, device=name) for name in ("rtl", "functional")
    )
    graph = processor_graph(model, tables)
    return ActivationRow(
        activation=activation,
        launches_before=len(before.launches),
        launches=len(after.launches),
        cycles_before=_cycles(before),
        cycles=_cycles(after),
        rtl_cycles=sum(profile.cycles for profile in found.profiles),
        rtl_differs=sum(
            found.outputs[name].tobytes() != value.tobytes()
            for name, value in expected.outputs.items()
        ),
        baseline_cycles=baseline,
        layers=sum(len(launch.layers) for launch in after.launches),
        layers_compared=len(check.tensors),
        layers_wrong=sum(item.differs for item in check.tensors) + len(check.overwritten),
        errors=tuple(compare_operators(onnx.load_from_string(model), graph, inputs)),
    )


def _quantized(activation: str) -> bytes:
    samples = samples_for(CALIBRATION_SEED, NUM_SAMPLES)
    return daedal.quantize(activation_network(activation).SerializeToString(), samples)


def _cycles(artifact: Artifact) -> int:
    """Of all launches for one image."""
    result = daedal.simulate(artifact, {"x": samples_for(IMAGE_SEED, 1)}, device="timing")
    return sum(profile.cycles for profile in result.profiles)


def show(console: Console, rows: Sequence[ActivationRow]) -> None:
    """One line for each activation, and one for each layer with the largest error."""
    heads = ("activation", "launches, no tables", "tables", "cycles, no tables", "tables", "RTL")
    table = Table(*heads, BASELINE, "more", "layers wrong", "largest error", "")
    for row in rows:
        table.add_row(
            row.activation,
            str(row.launches_before),
            str(row.launches),
            f"{row.cycles_before:,}",
            f"{row.cycles:,}",
            f"{row.rtl_cycles:,}",
            f"{row.baseline_cycles:,}",
            f"{row.more_cycles:+.2%}",
            f"{row.layers_wrong} of {row.layers_compared}",
            str(row.largest_error),
            "" if row.passed else "missed",
        )
    console.print(table)
    table = Table("activation", "layer", "operator", "elements", "differ", "largest")
    for row in rows:
        for item in row.errors:
            counts = (item.num_elements, item.num_different, item.largest)
            table.add_row(row.activation, item.output, item.op, *(f"{n:,}" for n in counts))
    console.print(table)


def rows_of(report: Callable[[str], None]) -> list[ActivationRow]:
    """Every row."""
    tables = load_variant(VARIANT)
    plain = tables.replace(f"{VARIANT}_plain", tables=0)
    report(BASELINE)
    baseline = _cycles(daedal.compile(_quantized(BASELINE), tables))
    rows = []
    for activation in ACTIVATIONS:
        report(activation)
        rows.append(measure(activation, plain, tables, baseline))
    return rows


def left_out(models: Path, step: str | None, only: str | None) -> LeftOut:
    """What the steps do not run for lack of data."""
    found = LeftOut()
    names = [] if step == "activations" else [name for name in MODELS if only in (None, name)]
    if step == "decode":
        names = [name for name in names if name == "stories260k"]
    for name in names:
        reason = what_is_missing(name, models)
        if reason:
            found.add(name, reason)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 where a bar is missed, or a network was not run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--step", choices=STEPS, help="only this one")
    parser.add_argument("--only", choices=MODELS, help="only this network's cycles and accuracy")
    parser.add_argument("--models", type=Path, default=SHARED, help="folder of trained networks")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    log, out = Console(stderr=True).log, Console(width=150)
    found: dict[str, list[dict[str, object]]] = {}
    passed = True
    if options.step in (None, "activations"):
        rows = rows_of(log)
        show(out, rows)
        passed = all(row.passed for row in rows)
        found["activations"] = [
            {**asdict(row), "more_cycles": row.more_cycles, "passed": row.passed} for row in rows
        ]
    if options.step in (None, "cycles"):
        counted = list(cycle_rows(options.models, VARIANT, log, options.only))
        show_cycles(out, counted)
        passed = passed and not any(row.missed for row in counted)
        found["cycles"] = [{**asdict(row), "missed": row.missed} for row in counted]
    if options.step in (None, "accuracy"):
        figures = list(accuracy_rows(options.models, VARIANT, log, options.only))
        show_accuracy(out, figures)
        passed = passed and all(row.passed for row in figures)
        found["accuracy"] = [{**asdict(row), "passed": row.passed} for row in figures]
    if options.step in (None, "decode") and options.only in (None, "stories260k"):
        for variant in (load_variant(VARIANT), ATTENTION4):
            row = decode_row(options.models, log, variant)
            if row is not None:
                show_decode(out, row)
                passed = passed and not row.missed
                found.setdefault("decode", []).append({**asdict(row), "missed": row.missed})
    missing = left_out(options.models, options.step, options.only)
    missing.show(partial(out.print, highlight=False))
    passed = passed and not missing
    found["left_out"] = [*missing.to_json()]
    write_json(options.json, found)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
