"""`Exploration`: what a search for variants found, and its verification."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from daedal.codesign.hardware.board import Board
from daedal.codesign.results import verify as verification
from daedal.codesign.results.directory import SearchDirectory
from daedal.codesign.results.point_folder import PointFolder
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.front_search import Goal
from daedal.common.markdown import markdown_table
from daedal.common.reporting import log

__all__ = ["Exploration"]


@dataclass(frozen=True, repr=False)
class Exploration:
    """What a search found; `interrupted` where it ended before its budget.

    Attributes
    ----------
    front, evaluations : counted variants: of the front, and all.
    counted, refused : numbers of variants that compiled, and that did not.
    seconds : of the search, earlier runs in this folder included.
    folder, goal, board : what was searched, and where the results are; no board for a device.
    """

    front: tuple[Evaluation, ...]
    evaluations: tuple[Evaluation, ...]
    counted: int
    refused: int
    estimated: int
    seconds: float
    interrupted: bool
    folder: Path
    goal: Goal
    board: Board | None = None

    def __repr__(self) -> str:
        ended = ", interrupted" if self.interrupted else ""
        return (
            f"<Exploration {str(self.folder)!r}: {len(self.front)} variants on the front, "
            f"{self.counted} counted{ended}>"
        )

    def _repr_markdown_(self) -> str:
        """What notebooks show: a row for each variant of the front."""
        known = list(self.front[0].known) if self.front else []
        rows = [
            (
                item.variant.name,
                *(f"{item.known[objective]:.4g}" for objective in known),
                f"{item.mhz:.0f}",
                *(f"{share:.0%}" for share in item.shares.values()),
            )
            for item in self.front
        ]
        shares = list(self.front[0].shares) if self.front else []
        return f"`{self!r}`\n\n{markdown_table(['variant', *known, 'MHz', *shares], rows)}"

    @property
    def points(self) -> tuple[PointFolder, ...]:
        """The folders of the front's variants, in its order; `verilog()` is emitted when asked."""
        directory = SearchDirectory(self.folder)
        return tuple(directory.point(item) for item in self.front)

    def verify(
        self, count: int, *, report: Callable[[str], None] | None = None
    ) -> Iterator[verification.Verified]:
        """Simulate, synthesize and route at most `count` points, evenly spread over the front.

        Yields each as soon as it is known, after many minutes the first time; what was measured is
        kept in the folder.

        Raises
        ------
        ToolError
            A tool is missing, or failed.
        DeviceError
            The machine fails in the simulation.
        """
        if count:
            verification.require_verification(self.front[0].family)
        yield from verification.verify(
            verification.spread(self.points, count),
            report=report or log,
            tools=verification.Tools.on(self.board),
        )
