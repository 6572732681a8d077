"""Runs a whole program in one kernel: instructions in order, with their tokens."""

import enum

from daedal.isa.table import Opcode, Unit
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.functional.alu import alu
from daedal.sim.functional.columns import COLUMNS, Column
from daedal.sim.functional.gemm import gemm
from daedal.sim.functional.machine import Machine
from daedal.sim.functional.transfers import load, pair_up, store

__all__ = ["UNITS", "Ending", "run"]

UNITS = len(Unit)
QUEUES = 4
"""Number of units that exchange tokens: the first ones of `Unit`."""


class Ending(enum.IntEnum):
    """Why `run` returned; `Machine.position` is the instruction concerned.

    LEFT_OVER: the kernels do not handle it, or it is illegal; its tokens have been taken, and
    nothing else was done. NO_TOKEN: it lacks a token from unit `Machine.missing`.
    """

    FINISHED = 0
    LEFT_OVER = 1
    NO_TOKEN = 2
    NO_FINISH = 3


@kernel
def take_tokens(m: Machine, at: i64) -> bool:
    """Take one token from each unit that the instruction pops; False if one is missing."""
    unit = m.table[at + Column.unit]
    pop = m.table[at + Column.pop]
    for source in range(QUEUES):
        if pop >> source & 1 != 0:
            if m.tokens[source * UNITS + unit] == 0:
                m.missing = source
                return False
            m.tokens[source * UNITS + unit] -= 1
    return True


@kernel
def give_tokens(m: Machine, at: i64) -> None:
    """Give one token to each unit that the instruction pushes to."""
    unit = m.table[at + Column.unit]
    push = m.table[at + Column.push]
    for target in range(QUEUES):
        if push >> target & 1 != 0:
            m.tokens[unit * UNITS + target] += 1


@kernel
def execute(m: Machine, at: i64) -> bool:
    """Run one instruction; False if it is left to `isa.semantics`."""
    opcode = m.table[at + Column.opcode]
    if opcode == Opcode.LOAD:
        return load(m, at)
    if opcode == Opcode.GEMM:
        return gemm(m, at)
    if opcode == Opcode.ALU:
        return alu(m, at)
    if opcode == Opcode.STORE:
        return store(m, at)
    return True


@kernel
def run(m: Machine, resumes: bool, stale: bool) -> i64:
    """Run from ``m.position`` on; returns an `Ending`.

    With `resumes` that instruction has already been executed elsewhere: only push its tokens. With
    `stale` the state may have been modified from outside: rebuild the paired copies.
    """
    if stale:
        pair_up(m)
    done = resumes
    while m.position * COLUMNS < len(m.table):
        at = m.position * COLUMNS
        if not done:
            if not take_tokens(m, at):
                return Ending.NO_TOKEN
            if not execute(m, at):
                return Ending.LEFT_OVER
        done = False
        give_tokens(m, at)
        if m.table[at + Column.opcode] == Opcode.FINISH:
            return Ending.FINISHED
        m.position += 1
    return Ending.NO_FINISH
