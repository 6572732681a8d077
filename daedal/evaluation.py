"""The public function `evaluate`: how good a model is on data of its user.

>>> found = daedal.evaluate("int8.onnx", {"input": images}, reference="float.onnx", labels=labels)
>>> found.accuracy.share, found.reference_accuracy.share, found.outputs[0].snr_db
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx

from daedal.api import compile as compile_model
from daedal.api import simulate
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.common.reporting import log

__all__ = ["Accuracy", "Evaluation", "OutputComparison", "evaluate"]

Evaluated = str | Path | bytes | onnx.ModelProto | Artifact
"""An ONNX model, or an artifact; a path that ends with ``.daedal`` is one of an artifact."""

ARTIFACT_SUFFIX = ".daedal"
Array = npt.NDArray[Any]

_QUANTIZED = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True)
class OutputComparison:
    """An output of the model compared with the reference's, over all items.

    Attributes
    ----------
    signal, noise : mean squares of the reference's values, and of the differences from them.
    largest : the largest difference.
    same_class : share of the vectors of scores whose largest element is the same one in both: along
        the last axis, or of maps (N, C, H, W) along the channels. None where there is one score, or
        `equal` is given.
    equal : share of equal elements, for truth values and integers of 32 and 64 bits: masks and
        indices are no signals. None for other types, also for quantized values of 8 and 16 bits.
    """

    name: str
    signal: float
    noise: float
    largest: float
    same_class: float | None
    equal: float | None = None

    @property
    def snr_db(self) -> float:
        """Signal-to-noise ratio in decibels; infinite where nothing differs."""
        if not self.noise:
            return math.inf
        return 10 * math.log10(max(self.signal, 1e-300) / self.noise)


@dataclass(frozen=True)
class Accuracy:
    """How many labels a model finds: `right` of `count`."""

    right: int
    count: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.right / self.count

    @property
    def error(self) -> float:
        """Standard error of `share`, as if the items were drawn at random."""
        return math.sqrt(self.share * (1 - self.share) / self.count)


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` found.

    Attributes
    ----------
    items : number of them.
    outputs : in the model's order; empty without a reference.
    accuracy, reference_accuracy : None without labels; the second one without a reference, too.
    only_model, only_reference : labels that only one of both finds.
    """

    items: int
    outputs: tuple[OutputComparison, ...] = ()
    accuracy: Accuracy | None = None
    reference_accuracy: Accuracy | None = None
    only_model: int = 0
    only_reference: int = 0


def evaluate(
    model: Evaluated,
    inputs: Mapping[str, npt.ArrayLike],
    *,
    reference: Evaluated | None = None,
    labels: npt.ArrayLike | None = None,
    output: str | None = None,
    report: Callable[[str], None] | None = None,
) -> Evaluation:
    """Run a model on data, and say how near it is to a reference model and to labels.

    ONNX models run as machine code of this processor, artifacts on the functional simulator; both
    may be either. `inputs` hold items along axis 0, as for `daedal.simulate`. `labels` are the
    right classes: integers, one for each vector of scores of `output`, along its last axis, or
    along the channels of maps (N, C, H, W). By default `output` is the model's only one. `report`
    is called with a sentence before each long step.

    Raises
    ------
    UserError
        There is neither a reference nor labels, they do not fit the model, or the model cannot run.
    """
    if reference is None and labels is None:
        raise UserError("an evaluation compares: give a reference model, labels, or both")
    tell = report or log
    found = _run(model, inputs, "the model", tell)
    expected = None if reference is None else _run(reference, inputs, "the reference", tell)
    items = len(np.atleast_1d(np.asarray(next(iter(inputs.values())))))
    compared = () if expected is None else tuple(_compared(found, expected))
    if labels is None:
        return Evaluation(items, compared)
    name = _scores_name(found, output)
    hits = _hits(found[name], labels, name)
    accuracy = Accuracy(int(hits.sum()), hits.size)
    if expected is None:
        return Evaluation(items, compared, accuracy)
    others = _hits(expected[name], labels, name)
    return Evaluation(
        items,
        compared,
        accuracy,
        Accuracy(int(others.sum()), others.size),
        only_model=int((hits & ~others).sum()),
        only_reference=int((others & ~hits).sum()),
    )


def _run(
    model: Evaluated, inputs: Mapping[str, npt.ArrayLike], what: str, tell: Callable[[str], None]
) -> dict[str, Array]:
    if isinstance(model, str | Path) and Path(model).suffix == ARTIFACT_SUFFIX:
        model = Artifact.load(Path(model))
    if not isinstance(model, Artifact):
        tell(f"compiling {what}")
        model = compile_model(model, target="cpu")

    def progress(done: int, total: int) -> None:
        tell(f"running {what}: {done} of {total}")

    return simulate(model, inputs, progress=progress).outputs


def _compared(found: Mapping[str, Array], expected: Mapping[str, Array]) -> list[OutputComparison]:
    if {name: array.shape for name, array in found.items()} != {
        name: array.shape for name, array in expected.items()
    }:
        raise UserError(
            "model and reference must have the same outputs, not "
            f"{_listed(found)} against {_listed(expected)}"
        )
    return [_comparison(name, array, expected[name]) for name, array in found.items()]


def _comparison(name: str, found: Array, expected: Array) -> OutputComparison:
    wanted = expected.astype(np.float64)
    wrong = found.astype(np.float64) - wanted
    is_signal = expected.dtype.kind == "f" or expected.dtype.name in _QUANTIZED
    same = None
    if is_signal and _classes(found) > 1:
        axis = _class_axis(found)
        same = float((found.argmax(axis) == expected.argmax(axis)).mean())
    return OutputComparison(
        name,
        float(np.square(wanted).mean()),
        float(np.square(wrong).mean()),
        float(np.abs(wrong).max(initial=0.0)),
        same,
        None if is_signal else float((found == expected).mean()),
    )


def _class_axis(scores: Array) -> int:
    """The channels of maps, the last axis of anything else."""
    return 1 if scores.ndim > 3 else scores.ndim - 1


def _classes(scores: Array) -> int:
    return int(scores.shape[_class_axis(scores)]) if scores.ndim > 1 else 1


def _scores_name(found: Mapping[str, Array], output: str | None) -> str:
    name = next(iter(found)) if output is None and len(found) == 1 else output
    if name is None or name not in found:
        raise UserError(
            f"labels need the output that has the scores, one of {', '.join(map(repr, found))}, "
            f"not {name!r}"
        )
    if _classes(found[name]) < 2:
        raise UserError(
            "labels need scores of classes along the last axis, or along the channels of maps, and "
            f"output {name!r} has shape "
            f"{found[name].shape}; name another output"
        )
    return name


def _hits(scores: Array, labels: npt.ArrayLike, name: str) -> npt.NDArray[np.bool_]:
    """For each label, whether its class has the largest score."""
    wanted = np.asarray(labels)
    classes = scores.argmax(_class_axis(scores))
    if wanted.size != classes.size or wanted.dtype.kind not in "iu":
        raise UserError(
            f"labels must be {classes.size} integers, one for each vector of scores of output "
            f"{name!r}, not {wanted.size} of type {wanted.dtype}"
        )
    number = _classes(scores)
    if wanted.min() < 0 or wanted.max() >= number:
        raise UserError(
            f"labels must be from 0 to {number - 1}, as output {name!r} has {number} scores, not "
            f"{wanted.min()} to {wanted.max()}"
        )
    return cast("npt.NDArray[np.bool_]", classes.ravel() == wanted.ravel())


def _listed(outputs: Mapping[str, Array]) -> str:
    return ", ".join(f"{name!r} {array.shape}" for name, array in outputs.items())
