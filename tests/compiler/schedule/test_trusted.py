"""Trusted schedules: verified and allocated once, with the result of doing both every time."""

from unittest import mock

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule import base
from daedal.compiler.schedule.base import ScheduleBase
from daedal.compiler.schedule.examples import chain
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import For, PrimFunc
from tests.support.accelerator import micro_variant
from tests.support.levels import Compiled
from tests.support.operator_graphs.operators import OPERATORS
from tests.support.pick import Pick

MICRO = micro_variant(inp_bytes=1024)


def texts(name: str) -> list[str]:
    graph = OPERATORS[name].graph(Pick.seeded([0]), MICRO)
    layers = Compiled.of(graph, MICRO).layers
    return [func_text(layer.lowered.schedule.func) for layer in layers]


@pytest.mark.parametrize("name", [name for name, item in OPERATORS.items() if item.runs_on(MICRO)])
def test_templates_give_the_same_function(name: str) -> None:
    found = texts(name)
    init = ScheduleBase.__init__
    made = []

    def distrusting(self, *args, trusted: bool = False, **kwargs) -> None:
        init(self, *args, **kwargs)
        made.append(trusted)

    with mock.patch.object(ScheduleBase, "__init__", distrusting):
        assert texts(name) == found
    assert made and all(made), "the templates are trusted"


def test_one_verification_when_the_function_is_read() -> None:
    with mock.patch.object(base, "verify", wraps=base.verify) as verified:
        sch = Schedule(chain().func, trusted=True)
        before = verified.call_count
        sch.split(sch.get_loops(sch.get_block("b"))[0], [2, 4])
        sch.split(sch.get_loops(sch.get_block("c"))[0], [2, 4])
        assert verified.call_count == before
        assert sch.func is sch.func
        assert verified.call_count == before + 1


def test_an_illegal_result_is_refused_when_it_is_read() -> None:
    sch = Schedule(chain().func, trusted=True)
    loop = sch.bare.body.body[0]
    assert isinstance(loop, For)
    sch._update(loop.body)
    assert isinstance(sch.bare, PrimFunc)
    with pytest.raises(ScheduleError, match=r"trusted schedule breaks the loop IR: .*not bound"):
        _ = sch.func
    distrusted = Schedule(chain().func)
    distrusted._update(loop.body)
    with pytest.raises(InvalidIRError, match="not bound"):
        distrusted._settle()
