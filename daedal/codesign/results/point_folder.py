"""`PointFolder`: one point of the front on disk: all that is needed to build and to run it.

``variant.toml``, ``NETWORK.daedal`` for each network as `daedal compile` writes it with
``NETWORK.profile.json`` of the cycle model as `daedal profile` does, and ``predicted.json``; once
asked for, ``daedal_top.v`` for the family of the target. A network is written once its results are
checked. What takes long is made once: files are written atomically, so that one that exists is
whole.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daedal.api import compile as compile_network
from daedal.artifact.artifact import Artifact
from daedal.codesign.cycles.counting import profile_network
from daedal.codesign.cycles.work import Work
from daedal.codesign.results.check_results import check_results
from daedal.codesign.results.prediction import Prediction, prediction_from_json
from daedal.codesign.search.evaluation import Evaluation
from daedal.common.errors import ExploreError
from daedal.common.files import make_folder, write_atomically
from daedal.common.inputs import read_input
from daedal.common.reporting import Report
from daedal.isa.memory_file import AnyMemory, load_memory, memory_from_json, memory_to_json
from daedal.isa.memory_model import MemoryModel, MemoryModelError
from daedal.runtime.profiler.network_profile import NetworkProfile
from daedal.runtime.profiler.reader import load_profile
from daedal.sim.rtl import verilog
from daedal.sim.rtl.device import default_cache_dir

__all__ = ["PointFolder", "damaged", "read_record", "remove_bare"]


_VARIANT, _PREDICTED, _VERILOG = "variant.toml", "predicted.json", "daedal_top.v"
_MAX_BYTES = 1 << 26

_IDEAL = "ideal"
"""The preset that tells what the memory costs."""


@dataclass(frozen=True)
class PointFolder:
    """The folder of the variant of `evaluation`."""

    folder: Path
    evaluation: Evaluation

    def write_variant(self) -> None:
        """``variant.toml``; makes the folder."""
        make_folder(self.folder)
        _write(self.folder / _VARIANT, self.evaluation.variant.to_toml())

    def complete(
        self,
        models: Mapping[str, bytes],
        predict: Callable[[Evaluation], Prediction],
        *,
        memory: AnyMemory,
        report: Report,
    ) -> None:
        """Write what is missing. `models` are the serialized networks by name.

        A prediction of older estimates is written again; all else belongs to the settings of the
        search.
        """
        self.write_variant()
        item, name = self.evaluation, self.evaluation.variant.name
        for network, model in models.items():
            if not self._artifact(network).is_file():
                report(f"compiling {network} for {name}")
                artifact = compile_network(model, item.variant, memory=memory)
                report(f"checking the results of {network} on {name}")
                check_results(model, artifact, network)
                artifact.save(self._artifact(network))
            if not self._profile(network).is_file():
                report(f"profiling {network} on {name}")
                found = profile_network(model, item.variant, memory, name=network)
                _check_counted(item, network, found)
                write_atomically(self._profile(network), json.dumps(found.to_json()) + "\n")
        path, record = self.folder / _PREDICTED, _record(item, load_memory(memory))
        if not _has(path, record):
            report(f"estimating the neighbours of {name}, and what the memory costs")
            ideal = {
                network: profile_network(model, item.variant, _IDEAL).cycles
                for network, model in models.items()
            }
            data = record | {"ideal_cycles": ideal} | predict(item).to_json()
            write_atomically(path, json.dumps(data, indent=1) + "\n")

    @property
    def is_complete(self) -> bool:
        """Whether `complete` ended: the prediction is written last."""
        return (self.folder / _PREDICTED).is_file()

    def artifact(self, network: str) -> Artifact:
        """A compiled network. Raises ArtifactError where it cannot be read."""
        return Artifact.load(self._artifact(network))

    def verilog(self, report: Report = lambda _said: None) -> str:
        """The Verilog for the family, of today's gateware. It is also written into the folder."""
        item = self.evaluation
        text = verilog.kept_verilog(item.variant, default_cache_dir(), report, family=item.family)
        _write(self.folder / _VERILOG, text)
        return text

    def profile(self, network: str) -> NetworkProfile:
        """Layers of a network on the cycle model. Raises ArtifactError where it cannot be read."""
        return load_profile(self._profile(network))

    def memory(self) -> MemoryModel:
        """The memory that cycles were counted with. Raises as `predicted`."""
        return memory_from_json(self._predicted()["memory"])

    def ideal_cycles(self) -> dict[str, int]:
        """Cycles of each network with an ideal memory. Raises as `predicted`."""
        return {name: int(count) for name, count in self._predicted()["ideal_cycles"].items()}

    def predicted(self) -> Prediction:
        """What was estimated. Raises ExploreError where ``predicted.json`` is damaged."""
        return prediction_from_json(self._predicted())

    def _predicted(self) -> dict[str, Any]:
        path = self.folder / _PREDICTED
        found = read_record(path)
        try:
            prediction_from_json(found)
            {name: int(count) for name, count in found["ideal_cycles"].items()}
            memory_from_json(found["memory"])
        except (MemoryModelError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise damaged(path) from error
        return found

    def _artifact(self, network: str) -> Path:
        return self.folder / f"{network}.daedal"

    def _profile(self, network: str) -> Path:
        return self.folder / f"{network}.profile.json"


def remove_bare(folder: Path) -> None:
    """Remove the folder of a point that was never completed; keep anything else."""
    if folder.is_dir() and [path.name for path in folder.iterdir()] == [_VARIANT]:
        (folder / _VARIANT).unlink()
        folder.rmdir()


def damaged(path: Path) -> ExploreError:
    """The refusal of a file that no search wrote."""
    return ExploreError(f"{str(path)!r} must be JSON of a search, and is damaged; delete it")


def read_record(path: Path) -> dict[str, Any]:
    """A JSON file that a search wrote. Raises ExploreError where it is damaged."""
    data = read_input(path, "a record of a search", _MAX_BYTES, ExploreError)
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise damaged(path)
    return found


def _has(path: Path, record: Mapping[str, Any]) -> bool:
    """Whether a file says all of `record`."""
    try:
        found = read_record(path) if path.is_file() else {}
    except ExploreError:
        return False
    return bool(found) and all(found.get(key) == value for key, value in record.items())


def _check_counted(item: Evaluation, network: str, profile: NetworkProfile) -> None:
    """Whether a search counted what the profile has: workers of a pool may lie."""
    cycles, work = item.cycles[network], item.work.get(network)
    if cycles == profile.cycles and work in (None, Work.of(profile)):
        return
    wrong = (
        "other work of the units"
        if cycles == profile.cycles
        else f"{cycles:,.0f} cycles instead of {profile.cycles:,}"
    )
    raise ExploreError(
        f"a search must count what the cycle model counts, and of {network!r} on "
        f"{item.variant.name} it has {wrong}; start a new one without the worker that returned this"
    )


def _record(item: Evaluation, memory: MemoryModel) -> dict[str, Any]:
    """Plain data: cycles are counted, resources estimated."""
    return {
        "variant": item.variant.name,
        "fingerprint": item.variant.fingerprint,
        "family": item.family.value,
        "memory": memory_to_json(memory),
        **item.known,
        "cycles": dict(item.cycles),
        "resources": dict(item.resources),
    }


def _write(path: Path, text: str) -> None:
    """Write unless it is there already."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    write_atomically(path, text)
