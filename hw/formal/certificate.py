"""Certificates that claims hold in runs of every length, and an independent check of them.

Input: a graph and a certificate. Output: the reason why the certificate is not a proof, if there is
one. The check shares only the graph with the searches of `engine`: it translates the gates itself
and uses another core of z3.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from daedal.common.errors import ToolError
from daedal.hw.formal.aiger import Graph

__all__ = ["Certificate", "refusal"]


@dataclass(frozen=True)
class Certificate:
    """An inductive argument.

    Attributes
    ----------
    latches : of the graph.
    clauses : each holds in every reachable state: numbers of latches, from 1, of which one is set,
        or not set if its number is negative. Together they are inductive.
    steps : 0, the clauses imply the claims; k, the claims hold in the first k cycles, and after any
        k cycles in which they and the clauses hold (k-induction).
    """

    latches: int
    clauses: tuple[tuple[int, ...], ...]
    steps: int = 0

    def to_text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Certificate":
        """Read what `to_text` wrote."""
        fields = json.loads(text)
        clauses = tuple(tuple(map(int, clause)) for clause in fields["clauses"])
        return cls(int(fields["latches"]), clauses, int(fields["steps"]))


def refusal(graph: Graph, certificate: Certificate) -> str | None:
    """Say why `certificate` does not prove the claims of `graph`; None if it does.

    Raises ToolError if z3 is missing.
    """
    if certificate.latches != len(graph.latches):
        return f"the graph has {len(graph.latches)} latches, not {certificate.latches}"
    for number, clause in enumerate(certificate.clauses):
        if not all(1 <= abs(literal) <= certificate.latches for literal in clause):
            return f"clause {number} names a latch that is not there"
        # All latches start at 0.
        if not any(literal < 0 for literal in clause):
            return f"clause {number} does not hold in the initial state"
    step = _Checker(graph)
    step.cycle()
    step.assume_clauses(certificate)
    step.assume_surroundings()
    broken = step.failing_clause(certificate)
    if broken is not None:
        return f"clause {broken} need not hold in the next cycle"
    if certificate.steps == 0:
        failing = step.failing_claim()
        return f"the clauses do not imply {failing!r}" if failing else None
    return _by_steps(graph, certificate)


def _by_steps(graph: Graph, certificate: Certificate) -> str | None:
    start = _Checker(graph, initial=True)
    for cycle in range(certificate.steps):
        start.cycle()
        start.assume_surroundings()
        failing = start.failing_claim()
        if failing:
            return f"{failing!r} does not hold in cycle {cycle}"
    later = _Checker(graph)
    for cycle in range(certificate.steps):
        later.cycle()
        later.assume_surroundings()
        later.assume_claims()
        if cycle == 0:
            later.assume_clauses(certificate)
    later.cycle()
    later.assume_surroundings()
    failing = later.failing_claim()
    if failing:
        return f"{failing!r} does not follow from the claims in {certificate.steps} cycles before"
    return None


class _Checker:
    """Cycles of a graph as clauses over numbered variables, from 1; a negative one is inverted."""

    def __init__(self, graph: Graph, *, initial: bool = False) -> None:
        try:
            import z3
        except ImportError:
            raise ToolError(
                "proofs need z3-solver, which is missing; install daedal[formal]"
            ) from None
        self._z3: Any = z3
        self._graph = graph
        self._solver = z3.Tactic("sat").solver()
        self._variables: list[Any] = [None]
        self._false = self._variable()
        self._add([-self._false])
        self._initial = initial
        self._at: dict[int, int] = {}

    def cycle(self) -> None:
        """Go to the next cycle; the first one starts in any state, or in the initial one."""
        graph = self._graph
        if self._at:
            state = [self._literal(following) for _, following in graph.latches]
        elif self._initial:
            state = [self._false] * len(graph.latches)
        else:
            state = [self._variable() for _ in graph.latches]
        self._at = {0: self._false}
        for (latch, _), value in zip(graph.latches, state, strict=True):
            self._at[latch // 2] = value
        for pin in graph.inputs:
            self._at[pin // 2] = self._variable()
        for gate, left, right in graph.gates:
            out, a, b = self._variable(), self._literal(left), self._literal(right)
            self._add([-out, a])
            self._add([-out, b])
            self._add([out, -a, -b])
            self._at[gate // 2] = out

    def assume_clauses(self, certificate: Certificate) -> None:
        """The clauses hold in this cycle."""
        for clause in certificate.clauses:
            self._add([self._state(literal) for literal in clause])

    def assume_surroundings(self) -> None:
        """The assumptions hold in this cycle."""
        for literal in self._outputs("assumed_").values():
            self._add([literal])

    def assume_claims(self) -> None:
        """The claims hold in this cycle."""
        for literal in self._outputs("always_").values():
            self._add([literal])

    def failing_clause(self, certificate: Certificate) -> int | None:
        """The number of a clause that can be false in the next cycle."""
        fails = [self._variable() for _ in certificate.clauses]
        for failing, clause in zip(fails, certificate.clauses, strict=True):
            for literal in clause:
                _, following = self._graph.latches[abs(literal) - 1]
                value = self._literal(following)
                self._add([-failing, -value if literal > 0 else value])
        return self._first_possible(fails)

    def failing_claim(self) -> str | None:
        """The name of a claim that can fail in this cycle."""
        claims = self._outputs("always_")
        number = self._first_possible([-literal for literal in claims.values()])
        return None if number is None else list(claims)[number]

    def _first_possible(self, literals: list[int]) -> int | None:
        """The first literal that is true if any of them can be; None if none can."""
        self._solver.push()
        self._add(literals)
        answer = self._solver.check()
        assert answer != self._z3.unknown, self._solver.reason_unknown()
        number = None
        if answer == self._z3.sat:
            values = [
                self._solver.model().eval(self._term(literal), model_completion=True)
                for literal in literals
            ]
            number = next(k for k, value in enumerate(values) if self._z3.is_true(value))
        self._solver.pop()
        return number

    def _outputs(self, prefix: str) -> dict[str, int]:
        return {
            name.removeprefix(prefix): self._literal(literal)
            for name, literal in self._graph.outputs.items()
            if name.startswith(prefix)
        }

    def _state(self, literal: int) -> int:
        latch, _ = self._graph.latches[abs(literal) - 1]
        return self._at[latch // 2] if literal > 0 else -self._at[latch // 2]

    def _literal(self, literal: int) -> int:
        value = self._at[literal // 2]
        return -value if literal % 2 else value

    def _variable(self) -> int:
        self._variables.append(self._z3.Bool(f"v{len(self._variables)}"))
        return len(self._variables) - 1

    def _term(self, value: int) -> Any:
        variable = self._variables[abs(value)]
        return variable if value > 0 else self._z3.Not(variable)

    def _add(self, clause: list[int]) -> None:
        self._solver.add(self._z3.Or([self._term(value) for value in clause]))
