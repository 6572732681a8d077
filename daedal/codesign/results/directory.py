"""`SearchDirectory`: a search on disk: its settings, what it estimated and counted, and the front.

``search.json`` says what is searched; a directory of another search or another compiler is refused.
``evaluations.jsonl`` grows by a line with every counted variant, and ``estimates.jsonl`` with every
estimated one, so that an interrupted search goes on as if it had not been interrupted.
``front.json``, ``front.csv`` and ``points/`` are written at the end.
"""

import csv
import fcntl
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daedal.codesign.cycles.work import Counts
from daedal.codesign.results.point_folder import PointFolder, damaged, read_record, remove_bare
from daedal.codesign.search.evaluation import Evaluation, from_json
from daedal.codesign.search.objectives import Objective
from daedal.codesign.search.variant_space import Point
from daedal.common.errors import ExploreError, UserError
from daedal.common.files import check_output_folder, make_folder, write_atomically
from daedal.compiler.targets.crossings import HostRates

__all__ = ["Estimates", "Round", "SearchDirectory"]

_MOST_ASKED = 1 << 16
"""Points of a round: there are not so many workers."""

_MOST_MISSING = 16
"""Rounds in a row without a line: lines that were damaged may have been deleted."""

Estimates = dict[Point, Counts | None]
"""What was estimated of points; None where a network does not fit."""

_SETTINGS, _PROGRESS, _POINTS = "search.json", "progress.json", "points"
_EVALUATIONS, _ESTIMATES = "evaluations.jsonl", "estimates.jsonl"


@dataclass
class Round:
    """Points that were proposed together.

    Attributes
    ----------
    asked : how many were asked for.
    found : those that were counted, in the order in which they ended.
    """

    asked: int
    found: dict[Point, Evaluation | None] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all were counted."""
        return len(self.found) == self.asked


@dataclass(frozen=True)
class SearchDirectory:
    """A folder, which is made if missing."""

    folder: Path

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes out of the folder; makes it.

        Raises
        ------
        ExploreError
            Another process is in it.
        UserError
            It cannot be written.
        """
        check_output_folder(self.folder, [_SETTINGS, _EVALUATIONS, _ESTIMATES, _PROGRESS])
        make_folder(self.folder)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ExploreError(
                    f"one search at a time can use a result folder, and another one is in "
                    f"{str(self.folder)!r}; wait until it ends, or choose another folder"
                ) from error
            yield
        finally:
            os.close(descriptor)

    def open(
        self, settings: Mapping[str, Any], is_point: Callable[[Point], bool] = bool
    ) -> dict[int, Round]:
        """What an earlier run with the same settings counted, by the numbers of the rounds.

        `is_point` tells whether a tuple is a variant of the space.

        Raises
        ------
        ExploreError
            It holds another search, or something else.
        UserError
            It cannot be written.
        """
        check_output_folder(self.folder, [_SETTINGS, _EVALUATIONS, _ESTIMATES, _PROGRESS])
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
        return self._rounds(is_point)

    def host_rates(self) -> HostRates | None:
        """The host's rates that the search in the folder has; None where there is none."""
        try:
            found = json.loads((self.folder / _SETTINGS).read_text(encoding="utf-8"))
            return HostRates(**{name: float(value) for name, value in found["host"].items()})
        except (OSError, ValueError, LookupError, TypeError, AttributeError, UserError):
            return None  # `open` says what is wrong

    def _rounds(self, is_point: Callable[[Point], bool]) -> dict[int, Round]:
        rounds: dict[int, Round] = {}
        for number, line in enumerate(self._lines(_EVALUATIONS), 1):
            try:
                data = json.loads(line)
                made = data["evaluation"]
                found = None if made is None else _checked(from_json(made))
                at = _number(data["round"], 0, max(rounds, default=-1) + _MOST_MISSING)
                step = rounds.setdefault(at, Round(_number(data["asked"], 1, _MOST_ASKED)))
                step.found[_point(data["point"], is_point)] = found
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise self._damaged(_EVALUATIONS, number) from error
        return rounds

    def add(self, number: int, asked: int, point: Point, evaluation: Evaluation | None) -> None:
        """Keep what was counted in a round. Raises UserError where it cannot be written."""
        data = {
            "round": number,
            "asked": asked,
            "point": list(point),
            "evaluation": None if evaluation is None else evaluation.to_json(),
        }
        self._append(_EVALUATIONS, [data])

    def estimates(self, version: str, is_point: Callable[[Point], bool] = bool) -> Estimates:
        """What code of this `version` estimated; that of other code is dropped. `is_point` is as in
        `open`.

        Raises ExploreError where the file is damaged.
        """
        found: Estimates = {}
        lines = list(self._lines(_ESTIMATES))
        header = json.dumps({"version": version})
        if lines[:1] != [header]:
            write_atomically(self.folder / _ESTIMATES, f"{header}\n")
            return {}
        for number, line in enumerate(lines[1:], 2):
            try:
                point, counts = json.loads(line)
                known = None if counts is None else Counts.from_json(counts)
                found[_point(point, is_point)] = known
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise self._damaged(_ESTIMATES, number) from error
        return found

    def add_estimates(self, found: Estimates) -> None:
        """Keep estimates. Raises as `add`."""
        self._append(
            _ESTIMATES,
            [
                [list(point), None if counts is None else counts.to_json()]
                for point, counts in found.items()
            ],
        )

    def seconds(self) -> float:
        """How long all runs have searched. Raises ExploreError where the file is damaged."""
        path = self.folder / _PROGRESS
        if not path.is_file():
            return 0.0
        try:
            return float(read_record(path)["seconds"])
        except (ValueError, LookupError, TypeError) as error:
            raise damaged(path) from error

    def write_seconds(self, seconds: float) -> None:
        """Keep how long all runs have searched. Raises UserError where it cannot be written."""
        write_atomically(self.folder / _PROGRESS, json.dumps({"seconds": seconds}) + "\n")

    def _lines(self, name: str) -> list[str]:
        """The whole lines of a file; what a run that was killed wrote in part is removed."""
        path = self.folder / name
        if not path.is_file():
            return []
        *whole, rest = path.read_text(encoding="utf-8", errors="replace").split("\n")
        if rest:
            write_atomically(path, "".join(f"{line}\n" for line in whole))
        return whole

    def _append(self, name: str, lines: Iterable[Any]) -> None:
        path = self.folder / name
        text = "".join(json.dumps(data, separators=(",", ":")) + "\n" for data in lines)
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UserError(
                f"a result folder must be writable; {str(path)!r} is not: {error.strerror}; make "
                "room, and the same command continues"
            ) from error

    def _damaged(self, name: str, number: int) -> ExploreError:
        return ExploreError(
            f"{str(self.folder / name)!r} must hold what a search wrote, and line {number} is "
            "damaged; delete that line, or the folder"
        )

    def write_front(self, front: Sequence[Evaluation], objectives: Sequence[Objective]) -> None:
        """``front.json``, ``front.csv``, and a folder with the TOML of each point.

        Folders of an earlier front that have nothing more are removed.
        """
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
        points = {item.variant.name: self.point(item) for item in front}
        for path in sorted((self.folder / _POINTS).glob("*")):
            if path.name not in points:
                remove_bare(path)
        for point in points.values():
            point.write_variant()

    def point(self, item: Evaluation) -> PointFolder:
        """The folder of a point of the front."""
        return PointFolder(self.folder / _POINTS / item.variant.name, item)


def _number(value: Any, least: int, most: int) -> int:
    """An integer within bounds. Raises ValueError for anything else."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError
    return value


def _checked(item: Evaluation) -> Evaluation:
    """The evaluation. Raises ValueError for numbers that no search counts."""
    amounts = [*item.resources.values(), item.mhz, *item.energy.values(), *item.host_ms.values()]
    if not all(0 < count < math.inf for count in item.cycles.values()) or not item.cycles:
        raise ValueError
    if not all(0 <= amount < math.inf for amount in amounts):
        raise ValueError
    return item


def _point(value: Any, is_point: Callable[[Point], bool]) -> Point:
    """A point of the space. Raises ValueError for anything else."""
    if not isinstance(value, list) or not all(type(index) is int for index in value):
        raise ValueError
    point = tuple(value)
    if not is_point(point):
        raise ValueError
    return point
