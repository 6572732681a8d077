"""LSTM, GRU and RNN: one step after the other.

The product of the inputs and their weights is one tensor for all steps; each step then has a
product with the state before it, and the new state. What `sequence_lens` cuts off leaves the state
as it is, and its result is 0.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import wide
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.recurrent_activations import Activation, activations_of
from daedal.compiler.tir.expr import Expr, as_expr

__all__ = ["LOWERINGS"]

MAX_STEPS = 256
"""Longer sequences are refused: each step is code of its own."""

Step = Callable[["_Direction", int, tuple[te.Tensor, ...]], tuple[te.Tensor, ...]]
"""The states after a step from those before it; the first one is the result."""


@dataclass(frozen=True)
class _Layer:
    """A recurrent node. Indices are those of layout 0 throughout.

    Attributes
    ----------
    gates : how many gates the weights have.
    states : how many states the cell has.
    """

    operation: Operation
    gates: int
    states: int
    steps: int
    batch: int
    hidden: int
    directions: tuple[str, ...]
    batch_first: bool
    dtype: str
    activations: tuple[Activation, ...]
    clip: float | None

    def x(self, step: Expr, item: Expr, feature: Expr) -> Expr:
        x = self.operation.operand(0)
        index = (item, step, feature) if self.batch_first else (step, item, feature)
        return x[index].astype(self.dtype)

    def initial(self, operand: Operand | None, direction: int) -> te.Tensor:
        """A state before the first step, (batch, hidden)."""

        def formula(b: Expr, j: Expr) -> Expr:
            if operand is None:
                return as_expr(0.0, self.dtype)
            index = (b, direction, j) if self.batch_first else (direction, b, j)
            return operand[index].astype(self.dtype)

        return self.operation.compute((self.batch, self.hidden), formula, "initial")

    def runs(self, step: int | Expr, item: Expr) -> Expr | None:
        """Whether a sequence still runs at a step; None where all have full length."""
        lengths = self.operation.optional(4)
        if lengths is None:
            return None
        if lengths.constant is not None and (lengths.constant >= self.steps).all():
            return None
        length = lengths[item]
        if isinstance(step, int):
            return length > step
        return length > step.astype(length.dtype)


@dataclass(frozen=True)
class _Direction:
    """One direction of a layer.

    Attributes
    ----------
    inputs : (steps, batch, gates * hidden), the products of the inputs.
    """

    layer: _Layer
    number: int
    inputs: te.Tensor

    def act(self, which: int, value: Expr) -> Expr:
        """An activation of this direction, after the clip."""
        layer = self.layer
        if layer.clip is not None:
            value = te.clip(value, -layer.clip, layer.clip)
        each = len(layer.activations) // len(layer.directions)
        return layer.activations[self.number * each + which](value)

    def product(self, state: te.Tensor, first: int, count: int) -> te.Tensor:
        """``state @ R.T`` for `count` gates from `first` on, (batch, count * hidden)."""
        layer, weights = self.layer, self.layer.operation.operand(2)
        k = te.reduce_axis(layer.hidden, "k")

        def formula(b: Expr, g: Expr) -> Expr:
            weight = weights[self.number, g + first * layer.hidden, k].astype(layer.dtype)
            return te.sum(state[b, k] * weight, k)

        return layer.operation.compute((layer.batch, count * layer.hidden), formula, "product")

    def at(self, step: int, gate: int, b: Expr, j: Expr) -> Expr:
        """What the inputs of a step add to a gate, with the biases of the inputs."""
        value = self.inputs[step, b, j + gate * self.layer.hidden]
        bias = self.bias(gate, j)
        return value if bias is None else value + bias

    def bias(self, row: int, j: Expr) -> Expr | None:
        """Row `row` of the biases: those of the inputs, then those of the state."""
        operand = self.layer.operation.optional(3)
        if operand is None:
            return None
        return operand[self.number, j + row * self.layer.hidden].astype(self.layer.dtype)

    def gate(self, step: int, gate: int, own: te.Tensor, b: Expr, j: Expr) -> Expr:
        """Everything that is added to a gate; `own` is the product for the gates from 0 on."""
        value = self.at(step, gate, b, j) + own[b, j + gate * self.layer.hidden]
        bias = self.bias(self.layer.gates + gate, j)
        return value if bias is None else value + bias

    def state(
        self, step: int, before: te.Tensor, formula: Callable[[Expr, Expr], Expr], name: str
    ) -> te.Tensor:
        """The state after a step: `before` for sequences that have ended."""

        def kept(b: Expr, j: Expr) -> Expr:
            running = self.layer.runs(step, b)
            value = formula(b, j)
            return value if running is None else te.select(running, value, before[b, j])

        return self.layer.operation.compute(before.shape, kept, name)


def _rnn_step(
    direction: _Direction, step: int, states: tuple[te.Tensor, ...]
) -> tuple[te.Tensor, ...]:
    (h,) = states
    own = direction.product(h, 0, 1)
    new = direction.state(
        step, h, lambda b, j: direction.act(0, direction.gate(step, 0, own, b, j)), "h"
    )
    return (new,)


def _gru_step(
    direction: _Direction, step: int, states: tuple[te.Tensor, ...]
) -> tuple[te.Tensor, ...]:
    """The reset gate is applied to the state, before its product."""
    (h,) = states
    own = direction.product(h, 0, 2)

    def reset(b: Expr, j: Expr) -> Expr:
        return direction.act(0, direction.gate(step, 1, own, b, j)) * h[b, j]

    rest = direction.product(direction.layer.operation.compute(h.shape, reset, "reset"), 2, 1)

    def hidden(b: Expr, j: Expr) -> Expr:
        value, bias = direction.at(step, 2, b, j) + rest[b, j], direction.bias(5, j)
        return value if bias is None else value + bias

    return (_gru_state(direction, step, h, own, hidden),)


def _linear_gru_step(
    direction: _Direction, step: int, states: tuple[te.Tensor, ...]
) -> tuple[te.Tensor, ...]:
    """linear_before_reset: the reset gate is applied to the product of the state."""
    (h,) = states
    own = direction.product(h, 0, 3)

    def hidden(b: Expr, j: Expr) -> Expr:
        inner, bias = own[b, j + 2 * direction.layer.hidden], direction.bias(5, j)
        if bias is not None:
            inner = inner + bias
        reset = direction.act(0, direction.gate(step, 1, own, b, j))
        return direction.at(step, 2, b, j) + reset * inner

    return (_gru_state(direction, step, h, own, hidden),)


def _gru_state(
    direction: _Direction,
    step: int,
    h: te.Tensor,
    own: te.Tensor,
    hidden: Callable[[Expr, Expr], Expr],
) -> te.Tensor:
    def formula(b: Expr, j: Expr) -> Expr:
        update = direction.act(0, direction.gate(step, 0, own, b, j))
        return (1.0 - update) * direction.act(1, hidden(b, j)) + update * h[b, j]

    return direction.state(step, h, formula, "h")


def _lstm_step(coupled: bool) -> Step:
    def step_of(
        direction: _Direction, step: int, states: tuple[te.Tensor, ...]
    ) -> tuple[te.Tensor, ...]:
        h, c = states
        layer, peepholes = direction.layer, direction.layer.operation.optional(7)
        own = direction.product(h, 0, 4)

        def gate(number: int, cell: te.Tensor, b: Expr, j: Expr) -> Expr:
            """Gate i, o or f; each sees a cell state through its peephole."""
            value = direction.gate(step, number, own, b, j)
            if peepholes is not None:
                weight = peepholes[direction.number, j + number * layer.hidden]
                value = value + weight.astype(layer.dtype) * cell[b, j]
            return direction.act(0, value)

        def cell_state(b: Expr, j: Expr) -> Expr:
            write = gate(0, c, b, j)
            keep = 1.0 - write if coupled else gate(2, c, b, j)
            return keep * c[b, j] + write * direction.act(1, direction.gate(step, 3, own, b, j))

        cell = direction.state(step, c, cell_state, "c")
        hidden = direction.state(
            step, h, lambda b, j: gate(1, cell, b, j) * direction.act(2, cell[b, j]), "h"
        )
        return hidden, cell

    return step_of


def _layer(operation: Operation, gates: int, states: int, defaults: Sequence[str]) -> _Layer:
    node, x = operation.node, operation.operand(0)
    w, r = operation.operand(1), operation.operand(2)
    batch_first = bool(node.integer("layout", 0))
    kind = node.text("direction", "forward")
    directions = ("forward", "reverse") if kind == "bidirectional" else (kind,)
    hidden = r.shape[-1]
    if not set(directions) <= {"forward", "reverse"} or w.shape[0] != len(directions):
        raise node.damaged(f"direction {kind!r} must be that of the weights")
    if node.integer("hidden_size", hidden) != hidden or w.shape[1] != gates * hidden:
        raise node.damaged("hidden_size must be that of the weights")
    batch, steps = x.shape[:2] if batch_first else (x.shape[1], x.shape[0])
    if steps > MAX_STEPS:
        raise node.refuse(
            f"a sequence must have at most {MAX_STEPS} steps, not {steps}", "it is interpreted"
        )
    clip = node.real("clip", 0.0)
    return _Layer(
        operation,
        gates,
        states,
        steps,
        batch,
        hidden,
        directions,
        batch_first,
        wide(x.dtype),
        activations_of(node, tuple(defaults) * len(directions)),
        clip or None,
    )


def _inputs(layer: _Layer, direction: int) -> te.Tensor:
    """``X @ W.T`` of all steps."""
    weights = layer.operation.operand(1)
    k = te.reduce_axis(weights.shape[2], "k")
    return layer.operation.compute(
        (layer.steps, layer.batch, layer.gates * layer.hidden),
        lambda t, b, g: te.sum(layer.x(t, b, k) * weights[direction, g, k].astype(layer.dtype), k),
        "inputs",
    )


def _run(layer: _Layer, step_of: Step) -> list[te.Tensor]:
    """Y, and the last one of each state."""
    every: list[te.Tensor] = []
    last: list[list[te.Tensor]] = [[] for _ in range(layer.states)]
    wants_all = layer.operation.results[0] is not None
    for number, kind in enumerate(layer.directions):
        direction = _Direction(layer, number, _inputs(layer, number))
        states = tuple(
            layer.initial(layer.operation.optional(5 + state), number)
            for state in range(layer.states)
        )
        found: dict[int, te.Tensor] = {}
        for step in range(layer.steps) if kind == "forward" else reversed(range(layer.steps)):
            states = step_of(direction, step, states)
            found[step] = states[0]
        for state, tensor in zip(last, states, strict=True):
            state.append(tensor)
        if wants_all:
            every.append(_stacked(layer, [found[step] for step in range(layer.steps)]))
    ends = [_joined(layer, state) for state in last]
    return [_sequence(layer, every) if wants_all else ends[0], *ends]


def _stacked(layer: _Layer, states: Sequence[te.Tensor]) -> te.Tensor:
    """States (batch, hidden) as one tensor (steps, batch, hidden), four parts at a time.

    Every part is copied once per level: all at once, each element would pass through as many
    choices as there are steps.
    """
    parts = [
        layer.operation.compute((1, *state.shape), lambda t, b, j, state=state: state[b, j], "step")
        if len(states) == 1
        else state
        for state in states
    ]
    while len(parts) > 1:
        parts = [_stack(layer, group) for group in _groups(parts, 4)]
    return parts[0]


def _groups(parts: Sequence[te.Tensor], size: int) -> Iterator[Sequence[te.Tensor]]:
    for first in range(0, len(parts), size):
        yield parts[first : first + size]


def _stack(layer: _Layer, parts: Sequence[te.Tensor]) -> te.Tensor:
    """Tensors (batch, hidden) or (steps, batch, hidden) along the steps."""
    lengths = [part.shape[0] if len(part.shape) == 3 else 1 for part in parts]
    starts = [sum(lengths[:number]) for number in range(len(parts))]

    def formula(t: Expr, b: Expr, j: Expr) -> Expr:
        value: Expr | None = None
        for part, start, length in reversed(list(zip(parts, starts, lengths, strict=True))):
            if len(part.shape) == 2:
                read = part[b, j]
            else:
                read = part[te.clip(t - start, 0, length - 1), b, j]
            value = read if value is None else te.select(t < start + length, read, value)
        assert value is not None
        return value

    shape = (sum(lengths), layer.batch, layer.hidden)
    return layer.operation.compute(shape, formula, "stack")


def _sequence(layer: _Layer, every: Sequence[te.Tensor]) -> te.Tensor:
    """Y: (steps, directions, batch, hidden), or (batch, steps, directions, hidden)."""
    shape: tuple[int, ...] = (layer.steps, len(every), layer.batch, layer.hidden)
    if layer.batch_first:
        shape = (layer.batch, layer.steps, len(every), layer.hidden)

    def formula(*i: Expr) -> Expr:
        b, t, d = i[:3] if layer.batch_first else (i[2], i[0], i[1])
        value = every[0][t, b, i[3]]
        if len(every) == 2:
            value = te.select(te.eq(d, 0), value, every[1][t, b, i[3]])
        running = layer.runs(t, b)
        if running is not None:
            value = te.select(running, value, 0)
        return value.astype(layer.operation.operand(0).dtype)

    return layer.operation.compute(shape, formula, "Y")


def _joined(layer: _Layer, states: Sequence[te.Tensor]) -> te.Tensor:
    """The last state of each direction: (directions, batch, hidden), or batch first."""
    shape: tuple[int, ...] = (len(states), layer.batch, layer.hidden)
    if layer.batch_first:
        shape = (layer.batch, len(states), layer.hidden)

    def formula(*i: Expr) -> Expr:
        d, b = (i[1], i[0]) if layer.batch_first else (i[0], i[1])
        value = states[0][b, i[2]]
        if len(states) == 2:
            value = te.select(te.eq(d, 0), value, states[1][b, i[2]])
        return value.astype(layer.operation.operand(0).dtype)

    return layer.operation.compute(shape, formula, "last")


def _rnn(operation: Operation) -> list[te.Tensor]:
    """RNN-7, -14, -22."""
    return _run(_layer(operation, 1, 1, ["Tanh"]), _rnn_step)


def _gru(operation: Operation) -> list[te.Tensor]:
    """GRU-7, -14, -22."""
    layer = _layer(operation, 3, 1, ["Sigmoid", "Tanh"])
    linear = bool(operation.node.integer("linear_before_reset", 0))
    return _run(layer, _linear_gru_step if linear else _gru_step)


def _lstm(operation: Operation) -> list[te.Tensor]:
    """LSTM-7, -14, -22."""
    layer = _layer(operation, 4, 2, ["Sigmoid", "Tanh", "Tanh"])
    return _run(layer, _lstm_step(bool(operation.node.integer("input_forget", 0))))


LOWERINGS: Mapping[str, Lowering] = {"GRU": _gru, "LSTM": _lstm, "RNN": _rnn}
"""By operator."""
