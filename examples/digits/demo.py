"""`make demo`: the trained digits network on the accelerator's RTL, checked byte by byte.

    python examples/digits/demo.py

Compiles `digits_qdq.onnx` for variant `vta`, simulates 16 held-out images cycle by cycle and prints
where the cycles went, the predictions, and what was compared. Exit status 1 where a comparison
fails, 2 where a device or tool does.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from rich.console import Console

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import daedal
from daedal.api import SimulationResult
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import compare_operators, integer_layers, processor_graph
from daedal.common.errors import DaedalError
from daedal.compiler.graph import run_all
from daedal.devices import open_device
from daedal.isa.profile import Profile
from daedal.reports.console import make_console, print_tables, show_progress
from daedal.reports.run import layers_table
from examples.digits.data import demo_images

__all__ = ["main"]

MODEL = Path(__file__).resolve().parent / "digits_qdq.onnx"
VARIANT = "vta"
NUM_IMAGES = 16

Tensors = dict[str, npt.NDArray[Any]]
Report = Callable[[str], None]


def main() -> int:
    """Run the demo; the exit status."""
    out = make_console()
    began = time.perf_counter()
    try:
        with show_progress(make_console(stderr=True)) as report:
            failures = _demo(out, report)
    except DaedalError as error:
        out.print(f"error: {error}", style="bold red")
        return 2
    for failure in failures:
        out.print(f"FAILED: {failure}", style="bold red")
    out.print(f"{time.perf_counter() - began:.0f} seconds in all")
    return 1 if failures else 0


def _demo(out: Console, report: Report) -> list[str]:
    """Print everything; what did not hold."""
    images, labels = demo_images(NUM_IMAGES)
    model, variant = onnx.load(MODEL), daedal.load_variant(VARIANT)
    reference = processor_graph(MODEL, variant)
    layers = [target for _, _, target in integer_layers(reference)]
    network = daedal.compile(MODEL, variant, report=report)
    # Inside one program, tensors share memory as soon as they are dead. A second program that
    # keeps them all lets every layer be compared.
    keeping = daedal.compile(MODEL, variant, to_tensors=layers, report=report)

    report("computing the reference, and every operator in onnxruntime")
    expected = [run_all(reference, {"input": image[None]}) for image in images]
    operators = [
        item
        for image in images
        for item in compare_operators(model, reference, {"input": image[None]})
    ]
    device = open_device("rtl", variant, report=report)
    rtl = _simulate(network, images, device, "RTL", report)
    rtl_began = time.perf_counter()
    rtl_layers = _simulate(keeping, images, device, "RTL, every layer kept", report)
    rtl_seconds = time.perf_counter() - rtl_began
    functional = _simulate(network, images, "functional", "functional simulator", report)
    functional_layers = _simulate(
        keeping, images, "functional", "functional simulator, every layer kept", report
    )

    out.print(
        f"{MODEL.name} for variant {variant.name} ({variant.fingerprint}): "
        f"{len(network.layers)} layers, "
        f"{len(network.program.instructions):,} instructions, one launch per image"
    )
    print_tables(out, layers_table(rtl.layers[0]))
    out.print(f"of peak: of {variant.macs_per_cycle} multiply-accumulates (MACs) per cycle\n")
    _print_predictions(out, rtl.outputs["probabilities"].argmax(axis=1), labels)
    _print_speed(out, rtl_layers.profiles, rtl_seconds)

    failures = []
    for name, found in (
        ("RTL", rtl.tensors),
        ("functional simulator", functional.tensors),
        ("RTL, every layer", rtl_layers.tensors),
        ("functional simulator, every layer", functional_layers.tensors),
    ):
        failures += [f"{name}: {text}" for text in _differences(found, expected)]
    for item in operators:
        if item.largest > 1:
            failures.append(f"{item.output} is {item.largest} apart from onnxruntime")
    if not failures:
        num_bytes = sum(array.size for array in rtl_layers.tensors.values())
        num_different = sum(item.num_different for item in operators)
        out.print(
            f"checked on {NUM_IMAGES} images:\n"
            f"  RTL bytes = functional bytes = numpy integer reference: the network's output, and "
            f"all {len(layers)} layers ({num_bytes:,} bytes)\n"
            f"  every integer operator, fed the same inputs, is at most 1 from onnxruntime "
            f"({num_different:,} of {sum(item.num_elements for item in operators):,} bytes differ)"
        )
    return failures


def _simulate(
    artifact: Artifact, images: npt.NDArray[Any], device: Any, name: str, report: Report
) -> SimulationResult:
    return daedal.simulate(
        artifact,
        {"input": images},
        device=device,
        progress=lambda done, total: report(f"{name}: image {done} of {total}"),
    )


def _differences(found: Tensors, expected: Sequence[Tensors]) -> list[str]:
    """A sentence for each tensor, stacked over the images, that is not the reference's."""
    sentences = []
    for name, array in found.items():
        wanted = np.stack([values[name] for values in expected]).reshape(array.shape)
        if not np.array_equal(array, wanted):
            count = int(np.count_nonzero(array != wanted))
            sentences.append(f"{count} of {array.size} bytes of {name!r} differ from the reference")
    return sentences


def _print_predictions(
    out: Console, predictions: npt.NDArray[np.intp], labels: npt.NDArray[np.int64]
) -> None:
    right = int(np.count_nonzero(predictions == labels))
    out.print("label      " + " ".join(map(str, labels)))
    out.print("prediction " + " ".join(map(str, predictions)) + f"   ({right} of {len(labels)})")


def _print_speed(out: Console, profiles: Sequence[Profile], seconds: float) -> None:
    """Cycles per second while the machine runs, and the wall clock of all launches."""
    cycles = sum(profile.cycles or 0 for profile in profiles)
    running = sum(profile.wall_seconds for profile in profiles)
    out.print(
        f"RTL: {cycles:,} cycles at {cycles / running:,.0f} cycles per second of wall clock; "
        f"{len(profiles)} launches, each after a reset, in {seconds:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
