"""The benches by question: what each answers, how to run it, how long that takes, where it goes.

`python -m bench` prints the table. A test compares it with the modules that can be run and with the
pages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["QUESTIONS", "Bench"]


@dataclass(frozen=True)
class Bench:
    """One question.

    Attributes
    ----------
    module : of `bench`, which answers it.
    options : of the command.
    takes : seconds, minutes or hours on two cores, where nothing is kept from an earlier run.
    page : where the answer is told; empty for a check, whose exit status is the answer.
    """

    question: str
    module: str
    options: str = ""
    takes: str = "minutes"
    page: str = ""

    @property
    def command(self) -> str:
        """What to type in the root of the clone."""
        return f"python -m bench.{self.module} {self.options}".rstrip()


QUESTIONS: Mapping[str, Sequence[Bench]] = {
    "What did a change do?": (
        Bench("Which tests can it break?", "changes.changed_tests", "HEAD", "seconds"),
        Bench("Which cycles moved?", "changes.ledger", "--check"),
        Bench("Would the tests notice a fault?", "changes.mutants", takes="hours"),
    ),
    "Is it right?": (
        Bench("Random programs on the RTL", "correctness.random_programs", takes="hours"),
        Bench("Random programs on the netlist", "correctness.netlist", page="docs/hardware.md"),
        Bench("Random models on processors", "correctness.fuzz_models"),
        Bench("Random quantized models on the accelerator", "correctness.fuzz_quantized"),
        Bench("Random models split over both", "correctness.fuzz_split",
              page="docs/architecture.md"),
        Bench("Random schedules", "tuning.draws", page="docs/tuning.md"),
        Bench("Every variant in numbers", "correctness.variants", takes="hours"),
        Bench("The cycle model against the RTL", "correctness.timing_model",
              page="docs/timing-model.md"),
        Bench("Tuning while workers are killed", "tuning.pool", page="docs/pool.md"),
        Bench("Programs of VTA's own compiler", "correctness.vta_programs", "FOLDER"),
    ),
    "How fast are networks on the accelerator?": (
        Bench("Whole networks", "networks.networks", page="docs/architecture.md"),
        Bench("Transformers and decoders", "networks.transformers", page="docs/transformers.md"),
        Bench("Models as PyTorch exports them", "networks.exported_networks",
              page="docs/transformers.md"),
        Bench("ResNet-18, layer by layer", "networks.resnet18_layers"),
        Bench("MobileNet's depthwise layers", "networks.depthwise_layers"),
        Bench("Layers that were once slow", "networks.cliffs"),
        Bench("Units alone", "networks.units", page="docs/hardware.md"),
        Bench("On a board", "networks.board_rates", takes="seconds", page="docs/boards.md"),
        Bench("With each memory", "networks.memory_page", takes="seconds", page="docs/memory.md"),
    ),
    "How accurate are quantized networks?": (
        Bench("Float against int8", "networks.quantization", page="docs/quantization.md"),
    ),
    "How good is the tuner?": (
        Bench("Networks before and after", "tuning.tuned_networks", takes="hours",
              page="docs/tuning.md"),
        Bench("Against known optima", "tuning.tuner", takes="hours", page="docs/tuning.md"),
        Bench("What are the optima?", "tuning.truth", takes="hours", page="docs/tuning.md"),
        Bench("How sure are they?", "tuning.optima", takes="hours", page="docs/tuning.md"),
        Bench("What does it save on a processor, and how soon?", "tuning.kernels",
              page="docs/tuning.md"),
    ),
    "How good is the search for variants?": (
        Bench("Against other searches", "codesign.searches", takes="hours",
              page="docs/codesign.md"),
        Bench("Are its estimates right?", "codesign.estimates",
              "--area 0 --clock 0 --options 0", "seconds", "docs/codesign.md"),
        Bench("Are its cycles right?", "codesign.cycle_estimates", page="docs/codesign.md"),
        Bench("Pictures of a search", "codesign.pictures", "FOLDER", "seconds",
              "docs/codesign.md"),
        Bench("What do parts take of an FPGA?", "codesign.area_data", "--check"),
        Bench("What clocks do variants reach?", "codesign.clock_data", "--check"),
    ),
    "What does hardware take?": (
        Bench("Area and clock of every variant", "synthesis.synth", takes="hours",
              page="docs/hardware.md"),
        Bench("Which records are of older Verilog?", "synthesis.synth_stale", '"WHAT CHANGED"',
              page="docs/hardware.md"),
        Bench("The memory controller of boards", "synthesis.board", takes="hours",
              page="docs/boards.md"),
    ),
    "How fast is other code?": (
        Bench("Networks on processors", "processors.cpu", page="docs/cpu.md"),
        Bench("All networks of the zoo on processors", "processors.cpu_networks"),
        Bench("Operators on processors", "processors.cpu_operators"),
        Bench("How long does compiling for processors take?", "processors.network_shapes"),
        Bench("Operators on a GPU", "processors.gpu"),
        Bench("A GPU against cuBLAS, cuDNN and PyTorch", "processors.gpu_libraries",
              page="docs/gpu.md"),
        Bench("How long does compiling for GPUs take?", "processors.gpu_compile",
              page="docs/gpu.md"),
        Bench("What do kernels of a GPU request from memory?", "processors.gpu_traffic",
              page="docs/gpu.md"),
    ),
    "How fast is the kit itself?": (
        Bench("Simulators", "kit_speed.sim_speed"),
        Bench("The compiler", "kit_speed.compile_rate"),
        Bench("The verifier", "kit_speed.verifier"),
    ),
}  # fmt: skip
"""By subject."""
