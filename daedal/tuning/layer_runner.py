"""`LayerRunner`: builds, runs and checks configurations of one layer in this process.

Input: a node of a compiled graph. Output: cycles for each configuration, each with its result
compared, byte by byte, with the graph's interpreter. `build` and `run` are the two halves, which
`ProcessRunner` calls in different processes.
"""

import math
from collections.abc import Sequence

from daedal.common.errors import DaedalError, DeviceError, VerificationError, first_line
from daedal.compiler.collection import without_collection
from daedal.compiler.dump import Dump
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.layers.launch import compile_launch
from daedal.compiler.layers.layer_code import LayerCode
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.ops.space import Config
from daedal.devices import open_device
from daedal.isa.memory_file import AnyMemory
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.variant import Variant
from daedal.isa.verifier import verify
from daedal.runtime.driver import LoadedProgram
from daedal.tuning.layer_task import CYCLE_MODEL, RTL, LayerTask
from daedal.tuning.runner import Failure, Result, cycles_of, digest_of

__all__ = ["LayerRunner", "build", "checked", "launch", "prepare", "run"]


class LayerRunner:
    """Measures configurations of the layer `node` of `graph`, which is in blocked layouts.

    The operands are random, the same ones for every configuration. `device` is ``timing``, the
    cycle model, or ``rtl``.
    """

    limit_seconds = math.inf

    def __init__(
        self,
        graph: Graph,
        node: Node,
        variant: Variant,
        memory: AnyMemory = "ddr",
        device: str = CYCLE_MODEL,
    ) -> None:
        self.task = LayerTask.of(graph, node, variant, memory, device)
        self.workload = self.task.workload

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """Cycles of each configuration; None for one that cannot be built.

        Raises
        ------
        TuningError
            A configuration's result differs from the layer's.
        """
        return cycles_of(configs, self.results(configs))

    def measure(self, config: Config) -> int | None:
        """Cycles of one configuration, as in `__call__`."""
        return cycles_of([config], self.results([config]))[0]

    def profile(self, config: Config) -> Profile | None:
        """What the machine counted for one configuration; None and errors as in `__call__`."""
        built = build(self.task, config)
        if isinstance(built, Result):
            cycles_of([config], [built])
            return None
        profile, digest = launch(self.task, built)
        cycles_of([config], [checked(self.task, _counted(profile, digest))])
        return profile

    def results(self, configs: Sequence[Config]) -> list[Result]:
        """See `Runner`."""
        return [self._result(config) for config in configs]

    @without_collection
    def _result(self, config: Config) -> Result:
        built = build(self.task, config)
        if isinstance(built, Result):
            return built
        return checked(self.task, run(self.task, built))


def build(task: LayerTask, config: Config | None) -> Program | Result:
    """The program of one configuration, or why there is none; None builds the default."""
    configs = {} if config is None else {task.workload.key: config}
    builder = ProgramBuilder(task.variant, configs=configs, memory=task.memory)
    code = LayerCode(builder)
    try:
        program = compile_launch(
            task.graph, builder, code, Dump(None), lambda _sentence: None
        ).program
    except DaedalError as error:
        return Result.failed(Failure.BUILD, first_line(error))
    try:
        verify(program)
    except VerificationError as error:
        return Result.failed(Failure.WRONG, first_line(error))
    return program


def prepare(task: LayerTask) -> None:
    """Build what the device needs, which may take minutes: the simulator of the RTL."""
    if task.device == RTL:
        from daedal.sim.rtl.device import RtlDevice

        device = open_device(task.device, task.variant)
        assert isinstance(device, RtlDevice)
        device.build()


def launch(task: LayerTask, program: Program) -> tuple[Profile, str]:
    """What the machine counts for a program of the layer, and the digest of what it stored.

    Every launch has a new device: memory starts empty, and does not grow from one to the next.
    Raises DeviceError when the machine reports an error.
    """
    device = open_device(task.device, task.variant, timing=task.memory)
    loaded = LoadedProgram.place(program, device)
    for spec in program.inputs:
        data = task.bytes_of(spec.name, task.operands[spec.name])
        loaded.write_region(spec.base, data, spec.offset_bytes)
    profile = device.launch(program, loaded.bases)
    (spec,) = program.outputs
    found = device.read(loaded.bases[spec.base] + spec.offset_bytes, spec.size_bytes)
    return profile, digest_of(bytes(found))


def run(task: LayerTask, program: Program) -> Result:
    """Cycles and digest of one launch; the digest is not yet compared."""
    try:
        return _counted(*launch(task, program))
    except DeviceError as error:
        return Result.failed(Failure.WRONG, first_line(error))


def _counted(profile: Profile, digest: str) -> Result:
    assert profile.cycles is not None, "the devices of layers count cycles"
    return Result(profile.cycles, digest)


def checked(task: LayerTask, result: Result) -> Result:
    """`result`, or a failure if its bytes differ from the interpreter's."""
    if result.failure is not None or result.digest == task.expected_digest:
        return result
    (node,) = task.graph.nodes
    return Result.failed(
        Failure.WRONG, f"layer {node.output!r} has other bytes than its reference", result.digest
    )
