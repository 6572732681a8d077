"""`FormTemplate`: the schedules of an operator that has templates of several forms.

A knob selects the form; the other knobs are those of the forms, which all have the same names. A
form may be a different loop nest, or the same one over a different function.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.tiles.template import Template
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, Mask, chosen
from daedal.compiler.ops.space import Column, Config, Table
from daedal.compiler.schedule.schedule import Schedule
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["FormSpace", "FormTemplate"]


class FormSpace(LayerSpace):
    """The configurations of all forms.

    Parameters
    ----------
    knob : name of the knob whose values are the numbers of the forms.
    forms : a space for each.
    usual : the form of the default.
    same_on : whether another variant has the same forms and default; None if all have.
    """

    def __init__(
        self,
        knob: str,
        forms: Sequence[LayerSpace],
        usual: int,
        same_on: Callable[[Variant], bool] | None = None,
    ) -> None:
        self._knob = knob
        self._forms = forms
        self._usual = usual
        self._same_on = same_on

    def on(self, variant: Variant) -> "FormSpace | None":
        if self._same_on is not None and not self._same_on(variant):
            return None
        forms = [form.on(variant) for form in self._forms]
        moved = [form for form in forms if form is not None]
        if len(moved) < len(forms):
            return None
        return FormSpace(self._knob, moved, self._usual, self._same_on)

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        """A value that several forms have comes once; the largest comes first."""
        values = {
            name: sorted(
                {value for form in self._forms for value in form.knobs[name]}, reverse=True
            )
            for name in self._forms[0].knobs
        }
        return {self._knob: list(range(len(self._forms))), **values}

    @property
    def added(self) -> Mapping[str, int]:
        return self._forms[0].added

    def all(self) -> Table:
        return self._joined([form.all() for form in self._forms])

    def combinations(self) -> Table:
        return self._joined([form.combinations() for form in self._forms])

    def fits(self, table: Table) -> Mask:
        fitting = np.zeros(len(table[self._knob]), dtype=np.bool_)
        for form, rows, tiles in self._parts(table):
            known = np.all([np.isin(tiles[name], form.knobs[name]) for name in tiles], axis=0)
            fitting[rows[known]] = form.fits(chosen(tiles, known))
        return fitting

    def cycles(self, table: Table) -> Floats:
        found = np.zeros(len(table[self._knob]))
        for form, rows, tiles in self._parts(table):
            found[rows] = form.cycles(tiles)
        return found

    def bound(self, table: Table, memory: MemoryModel) -> Floats:
        found = np.zeros(len(table[self._knob]))
        for form, rows, tiles in self._parts(table):
            found[rows] = form.bound(tiles, memory)
        return found

    def instructions(self, table: Table) -> tuple[Column, Column]:
        found = [np.zeros((1, len(table[self._knob])), dtype=np.int64) for _ in range(2)]
        for form, rows, tiles in self._parts(table):
            for column, part in zip(found, form.instructions(tiles), strict=True):
                column[:, rows] = part
        return found[0], found[1]

    def features(self, table: Table) -> dict[str, Floats]:
        """Those of all forms, whatever `table` has; 0 where a form does not have one."""
        found = {self._knob: table[self._knob].astype(np.float64)}
        for number, form in enumerate(self._forms):
            rows = table[self._knob] == number
            for name, column in form.features(
                {knob: table[knob][rows] for knob in form.knobs}
            ).items():
                found.setdefault(name, np.zeros(len(rows)))[rows] = column
        return found

    def cycles_with(self, table: Table, memory: MemoryModel) -> Floats:
        found = np.zeros(len(table[self._knob]))
        for form, rows, tiles in self._parts(table):
            found[rows] = form.cycles_with(tiles, memory)
        return found

    def cycles_alone(self, table: Table, memory: MemoryModel) -> Floats:
        found = np.zeros(len(table[self._knob]))
        for form, rows, tiles in self._parts(table):
            found[rows] = form.cycles_alone(tiles, memory)
        return found

    def default_with(self, memory: MemoryModel) -> Config:
        """That of the usual form. Raises ScheduleError as this does."""
        own = self._forms[self._usual].default_with(memory)
        return Config(((self._knob, self._usual), *own.values))

    def split(self, config: Config) -> tuple[int, Config]:
        """The form, and its own configuration."""
        (_, form), *values = config.values
        return form, Config(tuple(values))

    def _parts(self, table: Table) -> Iterator[tuple[LayerSpace, npt.NDArray[np.int64], Table]]:
        """Each form that `table` has, its rows' numbers, and these rows without the form."""
        for number, form in enumerate(self._forms):
            rows = np.flatnonzero(table[self._knob] == number)
            if len(rows):
                yield form, rows, {name: table[name][rows] for name in form.knobs}

    def _joined(self, tables: Sequence[Table]) -> Table:
        counts = [len(next(iter(table.values()))) for table in tables]
        return {
            self._knob: np.repeat(np.arange(len(tables)), counts),
            **{name: np.concatenate([table[name] for table in tables]) for name in tables[0]},
        }


class FormTemplate:
    """A template for each form, made when it is needed; other parameters as for `FormSpace`."""

    def __init__(
        self,
        knob: str,
        forms: Sequence[Callable[[], Template]],
        usual: int,
        same_on: Callable[[Variant], bool] | None = None,
    ) -> None:
        self._same_on = same_on
        self._forms = [cache(form) for form in forms]
        self._usual = usual
        self._knob = knob

    @cached_property
    def space(self) -> FormSpace:
        """The configurations of all forms."""
        spaces = [form().space for form in self._forms]
        return FormSpace(self._knob, spaces, self._usual, self._same_on)

    def schedule(self, config: Config | None = None) -> Schedule:
        """As `Template.schedule` says."""
        if config is None:
            return self._forms[self._usual]().schedule()
        config = self.space.complete(config)
        self.space.check(config)
        form, own = self.space.split(config)
        return self._forms[form]().schedule(own)
