"""`PointFolder`: one point of the front on disk: all that is needed to build and to run it.

``variant.toml``, ``daedal_top.v`` for the family of the target, ``NETWORK.daedal`` for each network
as `daedal compile` writes it, and ``predicted.json``. What takes long is made once: every file is
written atomically, so that one that exists is whole.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from daedal.api import compile as compile_network
from daedal.codesign.clock import Clock
from daedal.codesign.evaluation import Evaluation
from daedal.codesign.objectives import Objective
from daedal.isa.artifact import Artifact
from daedal.isa.errors import ExploreError
from daedal.isa.files import make_folder, write_atomically
from daedal.isa.inputs import read_input
from daedal.sim.rtl import verilog
from daedal.sim.rtl.device import default_cache_dir

__all__ = ["PointFolder", "read_record"]

Report = Callable[[str], None]

_PREDICTED, _VERILOG = "predicted.json", "daedal_top.v"
_MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class PointFolder:
    """The folder of the variant of `evaluation`."""

    folder: Path
    evaluation: Evaluation

    def write_variant(self) -> None:
        """``variant.toml``; makes the folder."""
        make_folder(self.folder)
        _write(self.folder / "variant.toml", self.evaluation.variant.to_toml())

    def complete(
        self, models: Mapping[str, bytes], clock: Clock, *, memory: str, report: Report
    ) -> None:
        """Write what is missing. `models` are the serialized networks by name.

        Verilog of older gateware is written again; all else belongs to the settings of the search.
        """
        self.write_variant()
        item, name = self.evaluation, self.evaluation.variant.name
        text = verilog.kept_verilog(item.variant, default_cache_dir(), report, family=item.family)
        _write(self.folder / _VERILOG, text)
        for network, model in models.items():
            path = self._artifact(network)
            if not path.is_file():
                report(f"compiling {network} for {name}")
                compile_network(model, item.variant).save(path)
        path = self.folder / _PREDICTED
        if not path.is_file():
            write_atomically(path, json.dumps(_prediction(item, clock, memory), indent=1) + "\n")

    @property
    def is_complete(self) -> bool:
        """Whether `complete` ended: the prediction is written last."""
        return (self.folder / _PREDICTED).is_file()

    def artifact(self, network: str) -> Artifact:
        """A compiled network. Raises ArtifactError where it cannot be read."""
        return Artifact.load(self._artifact(network))

    def verilog(self) -> str:
        """The Verilog for the family. Raises ExploreError where it cannot be read."""
        data = read_input(self.folder / _VERILOG, "Verilog", _MAX_BYTES, ExploreError)
        return data.decode("utf-8", errors="replace")

    def predicted(self) -> dict[str, Any]:
        """The contents of ``predicted.json``. Raises ExploreError where it is damaged."""
        return read_record(self.folder / _PREDICTED)

    def _artifact(self, network: str) -> Path:
        return self.folder / f"{network}.daedal"


def read_record(path: Path) -> dict[str, Any]:
    """A JSON file that a search wrote. Raises ExploreError where it is damaged."""
    data = read_input(path, "a record of a search", _MAX_BYTES, ExploreError)
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ExploreError(f"{str(path)!r} must be JSON of a search, and is damaged; delete it")
    return found


def _prediction(item: Evaluation, clock: Clock, memory: str) -> dict[str, Any]:
    """Plain data: cycles are counted, resources and the clock in MHz estimated."""
    return {
        "variant": item.variant.name,
        "fingerprint": item.variant.fingerprint,
        "family": item.family.value,
        "memory": memory,
        **{objective.value: item.value(objective) for objective in Objective},
        "cycles": dict(item.cycles),
        "clock": asdict(clock),
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
