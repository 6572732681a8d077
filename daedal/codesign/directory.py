"""`SearchDirectory`: a search on disk: its settings, every counted variant, and the front.

``search.json`` says what is searched; a directory of another search or another compiler is refused.
``evaluations.jsonl`` grows by a line with every counted variant, so that an interrupted search goes
on. ``front.json``, ``front.csv`` and ``points/`` are written at the end.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daedal.codesign.evaluation import Evaluation, from_json
from daedal.codesign.objectives import Objective
from daedal.codesign.point_folder import PointFolder
from daedal.codesign.variant_space import Point
from daedal.isa.errors import ExploreError, UserError
from daedal.isa.files import check_output_folder, make_folder, write_atomically

__all__ = ["SearchDirectory"]

_SETTINGS, _EVALUATIONS = "search.json", "evaluations.jsonl"


@dataclass(frozen=True)
class SearchDirectory:
    """A folder, which is made if missing."""

    folder: Path

    def open(self, settings: Mapping[str, Any]) -> dict[Point, Evaluation | None]:
        """What an earlier run with the same settings counted.

        Raises
        ------
        ExploreError
            It holds another search, or something else.
        UserError
            It cannot be written.
        """
        check_output_folder(self.folder, [_SETTINGS, _EVALUATIONS])
        make_folder(self.folder)
        path, wanted = self.folder / _SETTINGS, json.loads(json.dumps(settings))
        if not path.is_file():
            if any(self.folder.iterdir()):
                raise ExploreError(
                    f"a result folder must be new, empty, or that of the same search; "
                    f"{str(self.folder)!r} holds something else; choose another one"
                )
            write_atomically(path, json.dumps(wanted, indent=1) + "\n")
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict) or found != wanted:
            differing = sorted(
                key
                for key in wanted
                if not isinstance(found, dict) or found.get(key) != wanted[key]
            )
            raise ExploreError(
                f"a result folder must be that of the same search; {str(self.folder)!r} holds one "
                f"with another {', '.join(differing) or 'form'}; choose another folder"
            )
        return self._read()

    def _read(self) -> dict[Point, Evaluation | None]:
        path = self.folder / _EVALUATIONS
        if not path.is_file():
            return {}
        lines = path.read_text(encoding="utf-8").split("\n")
        *whole, rest = lines
        found: dict[Point, Evaluation | None] = {}
        try:
            for line in whole:
                data = json.loads(line)
                made = data["evaluation"]
                found[tuple(data["point"])] = None if made is None else from_json(made)
        except (ValueError, LookupError, TypeError) as error:
            raise ExploreError(
                f"{str(path)!r} must hold evaluations, one a line, and line {len(found) + 1} is "
                "damaged; delete that line, or the folder"
            ) from error
        if rest:  # of a run that was killed while it wrote
            write_atomically(path, "".join(f"{line}\n" for line in whole))
        return found

    def add(self, point: Point, evaluation: Evaluation | None) -> None:
        """Keep what was counted. Raises UserError where it cannot be written."""
        data = {
            "point": list(point),
            "evaluation": None if evaluation is None else evaluation.to_json(),
        }
        path = self.folder / _EVALUATIONS
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(data, separators=(",", ":")) + "\n")
        except OSError as error:
            raise UserError(
                f"a result folder must be writable; {str(path)!r} is not: {error.strerror}; make "
                "room, and the same command continues"
            ) from error

    def write_front(self, front: Sequence[Evaluation], objectives: Sequence[Objective]) -> None:
        """``front.json``, ``front.csv``, and a folder with the TOML of each point."""
        rows = [
            {
                "name": item.variant.name,
                **{objective.value: item.value(objective) for objective in objectives},
                **{f"cycles {name}": count for name, count in item.cycles.items()},
                "mhz": item.mhz,
                **item.resources,
            }
            for item in front
        ]
        write_atomically(
            self.folder / "front.json",
            json.dumps([item.to_json() for item in front], indent=1) + "\n",
        )
        text = io.StringIO()
        if rows:
            table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
        write_atomically(self.folder / "front.csv", text.getvalue())
        for item in front:
            self.point(item).write_variant()

    def point(self, item: Evaluation) -> PointFolder:
        """The folder of a point of the front."""
        return PointFolder(self.folder / "points" / item.variant.name, item)
