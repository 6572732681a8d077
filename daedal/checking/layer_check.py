"""`check_layers`: a run in which every layer is compared with the numpy integer reference.

>>> check = daedal.check_layers(artifact, "digits_qdq.onnx", {"input": images}, device="rtl")
>>> check.first_difference
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from daedal.api import SimulationResult, code_trust
from daedal.artifact.artifact import Artifact, Counterpart, Launch, Layer
from daedal.checking.integer_reference import processor_graph
from daedal.checking.tensor_difference import TensorDifference, compare
from daedal.common.errors import ArtifactError, ModelError, NotQuantizedError, UserError
from daedal.compiler.cpu.graph import lowered_for_processors
from daedal.compiler.frontend.reader import Source
from daedal.compiler.graph import Graph, TensorType, extract, run
from daedal.devices import open_device
from daedal.isa.protocols import Device
from daedal.items import split_items
from daedal.runtime.executor import Executor, RunResult
from daedal.runtime.host_parts import CodeTrust
from daedal.runtime.kept_layers import keep_layers

__all__ = ["CheckedTensor", "LayerCheck", "check_layers"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class CheckedTensor:
    """A tensor that was compared: one that entered a launch, or what a layer computed.

    Attributes
    ----------
    launch : number of the launch, from 0.
    layer : the layer that computed it; None for a tensor from the host.
    tensor : its name in the model.
    difference : from the reference, over the items of all runs; None if it was not compared because
        the compiler created it, so the reference does not have it.
    """

    launch: int
    layer: Layer | None
    tensor: str
    difference: TensorDifference | None

    @property
    def differs(self) -> bool:
        """Whether it was compared and is not equal; a tensor from the host may differ by 1, as the
        host computes in floating point and the reference in integers."""
        allowed = 0 if self.layer is not None else 1
        return self.difference is not None and self.difference.largest > allowed


@dataclass(frozen=True, repr=False)
class LayerCheck:
    """Result of `check_layers`.

    Attributes
    ----------
    result : of the runs of the unmodified artifact.
    tensors : in the order in which they are computed, each in separate memory.
    overwritten : outputs of launches that differ between the unmodified artifact, where tensors
        share memory, and the one with separate memory: name and difference.
    """

    result: SimulationResult
    tensors: tuple[CheckedTensor, ...]
    overwritten: tuple[tuple[str, TensorDifference], ...]

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        return f"<LayerCheck: {len(self.tensors)} tensors, {verdict}>"

    @property
    def first_difference(self) -> CheckedTensor | None:
        """The first tensor that differs from the reference."""
        return next((item for item in self.tensors if item.differs), None)

    @property
    def passed(self) -> bool:
        """Whether everything that was compared is equal."""
        return self.first_difference is None and not self.overwritten


def check_layers(
    artifact: Artifact,
    model: Source,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    device: str | Device = "functional",
    trust: CodeTrust | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> LayerCheck:
    """Run an artifact twice per item, unmodified and with `keep_layers`, and compare every layer.

    The layers of a launch are compared with the reference for the tensors that entered that launch.
    With states, items are at one position after the other; the reference has the caches of the
    model, and no layer that stores rows in a state is compared.

    Parameters
    ----------
    model : what `artifact` was compiled from; its integer graph is the reference.
    inputs, device, trust, progress, options : as in `daedal.simulate`; the device must
        compute values.

    Raises
    ------
    ModelError
        For inputs that do not fit, and for another model.
    ArtifactError
        The artifact relates a result to the model in a way that cannot be.
    DeviceError
        Where the machine fails.
    """
    reference = _Reference(_graph_of(model, artifact), artifact)
    kept = _with_layers(artifact)
    opened = open_device(device, artifact.variant, **options) if isinstance(device, str) else device
    trust = trust or code_trust()
    plain, whole = Executor(artifact, opened, trust), Executor(kept, opened, trust)
    feeds = split_items(plain.input_shapes, inputs)
    tally = _Tally(artifact)
    for number, feed in enumerate(feeds):
        if progress is not None:
            progress(number, len(feeds))
        position = number if artifact.states else None
        found = whole.run(feed, position)
        tally.add(plain.run(feed, position), found, reference.run(found.values, number))
    if progress is not None:
        progress(len(feeds), len(feeds))
    return tally.result()


def _graph_of(model: Source, artifact: Artifact) -> Graph:
    try:
        return processor_graph(model, artifact.variant, artifact.host_quantized)
    except NotQuantizedError as error:
        raise ModelError(
            "a check needs the model that the artifact was compiled from, and this one is not "
            "quantized; give the model that `daedal quantize` wrote"
        ) from error


def _with_layers(artifact: Artifact) -> Artifact:
    """The artifact with `keep_layers`; what that adds has a name of its own (`_kept_name`), so it
    never takes the place of a tensor that launches exchange."""
    parts = []
    numbers = count()
    for part in artifact.parts:
        if isinstance(part, Launch):
            number, own = next(numbers), len(part.outputs)
            kept = keep_layers(part)
            added = [
                replace(item, name=_kept_name(number, item.tensor)) for item in kept.outputs[own:]
            ]
            part = replace(kept, outputs=(*kept.outputs[:own], *added))
        parts.append(part)
    return replace(artifact, parts=tuple(parts))


def _kept_name(launch: int, tensor: str) -> str:
    """The name that a run gives the tensor of a launch's program: layers of two launches, or two
    of one, may compute the same tensor of the model, in different forms."""
    return f"launch {launch}: {tensor}"


class _Reference:
    """Expected inputs and results of each launch, given the tensors found before it."""

    def __init__(self, graph: Graph, artifact: Artifact) -> None:
        self._graph = graph
        self._parts: list[tuple[Graph, Graph | None]] = []
        self._states = {item.name: item.new for item in artifact.states}
        self._caches = {
            name: np.zeros(graph.types[name].shape, graph.types[name].dtype)
            for name in self._states
            if name in graph.types
        }
        known = [*(value.name for value in artifact.inputs), *self._states]
        missing = [name for name in known if name not in graph.types]
        if missing:
            raise ModelError(
                "a check needs the model that the artifact was compiled from, and this one has no "
                f"tensor {missing[0]!r}; give that one"
            )
        for launch in artifact.launches:
            self._add(known, [binding.name for binding in launch.inputs], on_host=True)
            known += [binding.name for binding in launch.inputs]
            self._add(known, [_in_model(layer) for layer in launch.layers])
            known += [binding.name for binding in launch.outputs]
        self._add(known, list(self._states.values()))

    def _add(self, known: Sequence[str], wanted: Sequence[str], *, on_host: bool = False) -> None:
        starts = [name for name in known if name in self._graph.types]
        ends = [name for name in wanted if name in self._graph.types and name not in known]
        if ends:
            part = extract(self._graph, starts, ends)
            self._parts.append((part, _as_integers(part) if on_host else None))

    def run(self, found: Mapping[str, Array], position: int) -> dict[str, Array]:
        """Expected values of the tensors in `found` that the reference has.

        New rows are written into the caches of the next run, at `position`.
        """
        values: dict[str, Array] = {}
        given = {**found, **self._caches}
        for part, as_integers in self._parts:
            feeds = {name: _typed(given[name], part.types[name]) for name in part.inputs}
            expected = run(part, feeds)
            if as_integers is not None:
                others = run(as_integers, feeds)
                expected = {
                    name: _nearer(found.get(name), value, others.get(name))
                    for name, value in expected.items()
                }
            values.update(expected)
        for name, new in self._states.items():
            cache, row = self._caches[name], values[new]
            axis = next(k for k, extent in enumerate(cache.shape) if extent != row.shape[k])
            np.moveaxis(cache, axis, 0)[position] = np.moveaxis(row, axis, 0)[0]
        return values


def _as_integers(part: Graph) -> Graph | None:
    """What the host computes as integers, as its machine code does; None where it does not."""
    try:
        return lowered_for_processors(part)
    except UserError:
        return None


def _nearer(found: Array | None, one: Array, other: Array | None) -> Array:
    """Which of two expected tensors `found` is compared with: the host may compute in floating
    point or, in machine code, on integers. Both round, and differ by one after one operator, by
    more after several."""
    if found is None or other is None or not found.size == one.size == other.size:
        return one
    distances = [
        int(np.abs(_integers(item).reshape(-1) - _integers(found).reshape(-1)).max(initial=0))
        for item in (one, other)
    ]
    return other if distances[1] < distances[0] else one


def _in_model(layer: Layer) -> str:
    """The tensor of the model to compare the layer's result with."""
    other = None if layer.result is None else layer.result.counterpart
    return layer.output if other is None else other.name


def _counterparts(
    expected: Array, found: Array, other: Counterpart, name: str
) -> tuple[Array, Array]:
    """The same elements of the model's tensor and of the result `name` of a layer."""
    array = _integers(found)
    try:
        wanted = _integers(expected)[tuple(slice(*axis) for axis in other.box)]
        for move in other.moves:
            array = array.reshape(move.shape).transpose(move.order)
            array = array[tuple(slice(*axis) for axis in move.box)]
        return wanted, array.reshape(wanted.shape)
    except (ValueError, IndexError) as error:
        raise ArtifactError(
            f"an artifact must say which elements of {other.name!r} the layer of {name!r} "
            "computes, and this one names others; compile the model again"
        ) from error


def _typed(array: Array, kind: TensorType) -> Array:
    """An array of the model as the graph has it: floats are converted, uint8 may be int8 there."""
    if array.dtype == np.uint8 and kind.dtype == "int8":
        array = _integers(array)
    return array.astype(kind.dtype).reshape(kind.physical_shape)


def _integers(array: Array) -> Array:
    """The accelerator's integers of a quantized tensor: uint8 in a model is 128 more."""
    return array.astype(np.int64) - (128 if array.dtype == np.uint8 else 0)


class _Tally:
    """Collects differences over the items of a run."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._differences: dict[tuple[int, str], TensorDifference] = {}
        self._overwritten: dict[str, TensorDifference] = {}
        self._runs: list[RunResult] = []

    def add(self, plain: RunResult, kept: RunResult, expected: Mapping[str, Array]) -> None:
        """Count one item: the plain run, the run with kept layers, and the expected tensors."""
        for number, launch in enumerate(self._artifact.launches):
            for binding in launch.inputs:
                self._count(number, binding.name, kept.values, expected)
            leaving = {binding.name for binding in launch.outputs}
            for layer in launch.layers:
                if layer.result is None:
                    continue
                tensor = layer.result.binding.tensor
                name = _kept_name(number, tensor)
                if name not in kept.values and layer.output in leaving:
                    name = layer.output
                self._count(number, name, kept.values, expected, layer)
        for name, array in plain.tensors.items():
            _count(self._overwritten, name, kept.tensors[name], array)
        self._runs.append(plain)

    def _count(
        self,
        launch: int,
        name: str,
        found: Mapping[str, Array],
        expected: Mapping[str, Array],
        layer: Layer | None = None,
    ) -> None:
        """Count what was found as `name`, if the reference has what it is compared with."""
        key = launch, name if layer is None else _layer_key(layer)
        other = None if layer is None or layer.result is None else layer.result.counterpart
        wanted = name if layer is None else _in_model(layer)
        if name not in found or wanted not in expected:
            return
        if other is not None:
            pair = _counterparts(expected[wanted], found[name], other, name)
            _count(self._differences, key, *pair)
        elif found[name].size == expected[wanted].size:
            _count(self._differences, key, *map(_integers, (expected[wanted], found[name])))

    def result(self) -> LayerCheck:
        """Everything that was counted, in the order of the artifact."""
        given = {value.name for value in self._artifact.inputs}
        tensors = []
        for number, launch in enumerate(self._artifact.launches):
            for binding in launch.inputs:
                if binding.name not in given:
                    found = self._differences.get((number, binding.name))
                    tensors.append(CheckedTensor(number, None, binding.name, found))
            for layer in launch.layers:
                found = self._differences.get((number, _layer_key(layer)))
                tensors.append(CheckedTensor(number, layer, layer.output, found))
            given |= {binding.name for binding in launch.outputs}
        return LayerCheck(
            SimulationResult.of_runs(self._artifact, self._runs),
            tuple(tensors),
            tuple(item for item in self._overwritten.items() if item[1].num_different),
        )


def _layer_key(layer: Layer) -> str:
    """What tells the layers of a launch apart, and from the tensors that enter it."""
    return f"layer {layer.tag}"


Key = TypeVar("Key")


def _count(
    differences: dict[Key, TensorDifference], name: Key, expected: Array, found: Array
) -> None:
    found = np.atleast_1d(found)
    difference = compare(expected.reshape(found.shape), found)
    known = differences.get(name)
    differences[name] = difference if known is None else known.joined(difference)
