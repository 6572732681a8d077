"""Two searches over an and-inverter graph, on z3's propositional solver.

`Unrolled` is bounded model checking: all runs up to a length. `invariant` proves claims for every
length by property-directed reachability (IC3): it learns clauses that hold after any number of
cycles.
"""

from collections.abc import Sequence
from typing import Any

from daedal.common.errors import ToolError
from daedal.hw.formal.aiger import Graph
from daedal.hw.formal.certificate import Certificate

__all__ = ["Unrolled", "invariant"]

Cube = frozenset[tuple[int, bool]]
"""A set of states: those in which the named latches have the given values."""


def _z3() -> Any:
    try:
        import z3
    except ImportError:
        raise ToolError("proofs need z3-solver, which is missing; install daedal[formal]") from None
    return z3


def _cycle(z3: Any, solver: Any, graph: Graph, tag: str, state: list[Any]) -> Any:
    """Add the gates of one cycle that starts in `state`; return a function literal -> value."""
    values = {0: z3.BoolVal(False)}
    values |= {
        literal >> 1: value for (literal, _), value in zip(graph.latches, state, strict=True)
    }
    values |= {literal >> 1: z3.Bool(f"{tag}i{literal}") for literal in graph.inputs}

    def value(literal: int) -> Any:
        plain = values[literal >> 1]
        return z3.Not(plain) if literal & 1 else plain

    for literal, left, right in graph.gates:
        gate = z3.Bool(f"{tag}g{literal}")
        solver.add(gate == z3.And(value(left), value(right)))
        values[literal >> 1] = gate
    for name, literal in graph.outputs.items():
        if name.startswith("assumed_"):
            solver.add(value(literal))
    return value


class Unrolled:
    """All runs of bounded length from the initial state."""

    def __init__(self, graph: Graph) -> None:
        self._z3 = _z3()
        self._graph = graph
        self._solver = self._z3.SolverFor("QF_FD")
        self._state = [self._z3.BoolVal(False)] * len(graph.latches)
        self._value: Any = None
        self.depth = 0
        self._goals = 0

    def extend(self) -> None:
        """Unroll one more cycle."""
        z3, graph = self._z3, self._graph
        if self._value is not None:
            following = [z3.Bool(f"c{self.depth}x{k}") for k in range(len(graph.latches))]
            for (_, literal), bit in zip(graph.latches, following, strict=True):
                self._solver.add(bit == self._value(literal))
            self._state = following
        self._value = _cycle(z3, self._solver, graph, f"c{self.depth}", self._state)
        self.depth += 1

    def first(self, names: Sequence[str], wanted: bool) -> str | None:
        """The first of these outputs that some run makes `wanted` in its last cycle."""
        if not self._possible(names, wanted):
            return None
        return next(name for name in names if self._possible([name], wanted))

    def _possible(self, names: Sequence[str], wanted: bool) -> bool:
        z3 = self._z3
        values = [self._value(self._graph.outputs[name]) for name in names]
        self._goals += 1
        goal = z3.Bool(f"goal{self._goals}")
        reached = [value if wanted else z3.Not(value) for value in values]
        self._solver.add(z3.Implies(goal, z3.Or(reached)))
        return bool(self._solver.check(goal) == z3.sat)


def invariant(graph: Graph, *, max_frames: int) -> Certificate | None:
    """Prove that no run sets an ``always_*`` output to 0.

    Returns the clauses, or None if `max_frames` were not enough. The claims must hold in the first
    cycle, and the caller must have searched short runs: a counterexample found here is a
    ``ValueError``.

    Source: Een, Mishchenko, Brayton: Efficient Implementation of Property Directed Reachability,
    FMCAD 2011.
    """
    return _Reachability(graph).run(max_frames)


class _Reachability:
    def __init__(self, graph: Graph) -> None:
        self._z3 = z3 = _z3()
        self._latches = range(len(graph.latches))
        self._now = [z3.Bool(f"x{k}") for k in self._latches]
        self._next = [z3.Bool(f"y{k}") for k in self._latches]
        self._inputs = [z3.Bool(f"i{literal}") for literal in graph.inputs]
        self._bad = z3.Bool("bad")
        self._solver = z3.SolverFor("QF_FD")
        # The second solver has no clauses: it reduces a state to the latches that force its
        # successor.
        self._lift = z3.SolverFor("QF_FD")
        failing = [n for n in graph.outputs if n.startswith("always_")]
        guards = [n for n in graph.outputs if n.startswith("assumed_")]
        free = Graph(graph.inputs, graph.latches, graph.gates, {})
        for solver in (self._solver, self._lift):
            value = _cycle(z3, solver, free, "", self._now)
            holds = z3.And([value(graph.outputs[n]) for n in guards])
            wrong = z3.Or([z3.Not(value(graph.outputs[n])) for n in failing])
            solver.add(z3.Bool("guarded") == holds, self._bad == wrong)
            for (_, literal), bit in zip(graph.latches, self._next, strict=True):
                solver.add(bit == value(literal))
        self._solver.add(z3.Bool("guarded"))
        self._frames: list[set[Cube]] = [set()]
        self._active = [z3.Bool("f0")]
        for bit in self._now:
            self._solver.add(z3.Implies(self._active[0], z3.Not(bit)))
        self._fresh = 0

    def run(self, max_frames: int) -> Certificate | None:
        z3 = self._z3
        for _ in range(max_frames):
            self._frames.append(set())
            self._active.append(z3.Bool(f"f{len(self._frames) - 1}"))
            top = len(self._frames) - 1
            while self._solver.check(*self._active[top:], self._bad) == z3.sat:
                self._block(self._lifted(self._solver.model(), self._bad), top)
            repeats = self._propagate()
            if repeats is not None:
                frames = self._frames[repeats + 1 :]
                cubes = sorted(sorted(cube) for frame in frames for cube in frame)
                clauses = ([-k - 1 if value else k + 1 for k, value in cube] for cube in cubes)
                return Certificate(len(self._latches), tuple(map(tuple, clauses)))
        return None

    def _literals(self, cube: Cube, bits: list[Any]) -> list[Any]:
        return [bits[k] if value else self._z3.Not(bits[k]) for k, value in sorted(cube)]

    def _lifted(self, model: Any, goal: Any) -> Cube:
        """Fewer latches of the model's state that still reach `goal` under its inputs."""
        z3 = self._z3
        state = [bool(z3.is_true(model.eval(bit))) for bit in self._now]
        inputs = [b if z3.is_true(model.eval(b)) else z3.Not(b) for b in self._inputs]
        switch = self._switch()
        self._lift.add(z3.Implies(switch, z3.Not(z3.And(goal, z3.Bool("guarded")))))
        literals = [b if v else z3.Not(b) for b, v in zip(self._now, state, strict=True)]
        assert self._lift.check(switch, *inputs, *literals) == z3.unsat
        core = {str(literal) for literal in self._lift.unsat_core()}
        self._lift.add(z3.Not(switch))
        return frozenset((k, state[k]) for k in self._latches if str(literals[k]) in core)

    def _switch(self) -> Any:
        self._fresh += 1
        return self._z3.Bool(f"s{self._fresh}")

    def _unreached(self, cube: Cube, frame: int) -> Cube | None:
        """A part of `cube` not reachable in one step from states of `frame` outside it, or None."""
        z3 = self._z3
        switch = self._switch()
        outside = z3.Not(z3.And(self._literals(cube, self._now)))
        self._solver.add(z3.Implies(switch, outside))
        literals = self._literals(cube, self._next)
        found = self._solver.check(*self._active[frame:], switch, *literals)
        part = None
        if found == z3.unsat:
            core = {str(literal) for literal in self._solver.unsat_core()}
            names = zip(sorted(cube), literals, strict=True)
            part = frozenset(pair for pair, literal in names if str(literal) in core)
            if not any(value for _, value in part):  # it must not contain the initial state
                part |= {next(pair for pair in sorted(cube) if pair[1])}
        else:
            self._model = self._solver.model()
        self._solver.add(z3.Not(switch))
        return part

    def _block(self, cube: Cube, top: int) -> None:
        work = [(top, cube)]
        while work:
            frame, cube = min(work, key=lambda pair: pair[0])
            if frame == 0 or not any(value for _, value in cube):
                raise ValueError("the claims do not hold: a counterexample exists")
            part = self._unreached(cube, frame - 1)
            if part is None:
                goal = self._z3.And(self._literals(cube, self._next))
                work.append((frame - 1, self._lifted(self._model, goal)))
                continue
            work.remove((frame, cube))
            part = self._shrunk(part, frame)
            while frame < top and self._unreached(part, frame) is not None:
                frame += 1
            self._learn(part, frame)
            if frame < top:
                work.append((frame + 1, cube))

    def _shrunk(self, cube: Cube, frame: int) -> Cube:
        for pair in sorted(cube):
            smaller = cube - {pair}
            if pair in cube and any(value for _, value in smaller):
                part = self._unreached(smaller, frame - 1)
                cube = part if part is not None else cube
        return cube

    def _learn(self, cube: Cube, frame: int) -> None:
        self._frames[frame].add(cube)
        clause = self._z3.Not(self._z3.And(self._literals(cube, self._now)))
        self._solver.add(self._z3.Implies(self._active[frame], clause))

    def _propagate(self) -> int | None:
        """Move clauses forward; return the first frame that became equal to the next one."""
        for frame in range(1, len(self._frames) - 1):
            for cube in sorted(self._frames[frame], key=sorted):
                if self._unreached(cube, frame) is not None:
                    self._frames[frame].discard(cube)
                    self._learn(cube, frame + 1)
            if not self._frames[frame]:
                return frame
        return None
