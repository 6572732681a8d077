"""ALU operations as LLVM IR text: the formulas of `isa.alu_operations` on a lane that emits text.

A row of the ALU is processed in parts of `Shape.lanes` elements, each a vector of 64-bit integers.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from daedal.isa.alu_operations import AluOp
from daedal.isa.lane import AMOUNT_BITS, FACTOR_BITS
from daedal.isa.numerics import integer_range
from daedal.sim.functional.shape import Shape

__all__ = ["TextLane", "operation_text", "reduction_text", "requantize_text"]


class TextLane:
    """`isa.lane.Lane` whose results are LLVM operands; `lines` has the instructions.

    Bit-identical to `isa.lane.NumpyLane`: signed values of `bits` bits, sign-extended to 64.
    """

    def __init__(self, x: str, y: str, lanes: int, bits: int, prefix: str) -> None:
        self.x, self.y = x, y
        self.lines: list[str] = []
        self._lanes, self._bits, self._prefix = lanes, bits, prefix
        self._kind = f"<{lanes} x i64>"

    def _new(self, text: str) -> str:
        register = f"%{self._prefix}{len(self.lines)}"
        self.lines.append(f"{register} = {text}")
        return register

    def _op(self, name: str, a: str, b: str) -> str:
        return self._new(f"{name} {self._kind} {a}, {b}")

    def _pick(self, order: str, a: str, b: str, yes: str, no: str) -> str:
        flag = self._new(f"icmp {order} {self._kind} {a}, {b}")
        return self._new(
            f"select <{self._lanes} x i1> {flag}, {self._kind} {yes}, {self._kind} {no}"
        )

    def wrap(self, value: str, bits: int) -> str:
        """`isa.numerics.wrap`."""
        spare = f"splat (i64 {64 - bits})"
        return self._op("ashr", self._op("shl", value, spare), spare)

    def clamp(self, value: str, low: str, high: str) -> str:
        """At least `low`, then at most `high`."""
        raised = self._pick("slt", value, low, low, value)
        return self._pick("sgt", raised, high, high, raised)

    def total(self) -> str:
        """``x + y``."""
        return self.wrap(self._op("add", self.x, self.y), self._bits)

    def difference(self) -> str:
        """``x - y``."""
        return self.wrap(self._op("sub", self.x, self.y), self._bits)

    def less(self) -> str:
        """1 where ``x < y``."""
        return self._pick("slt", self.x, self.y, "splat (i64 1)", "zeroinitializer")

    def product(self) -> str:
        """The low bits of x and y multiplied."""
        a, b = self.wrap(self.x, FACTOR_BITS), self.wrap(self.y, FACTOR_BITS)
        return self.wrap(self._op("mul", a, b), self._bits)

    def left(self) -> str:
        """``x << y``."""
        amount = self.wrap(self.y, AMOUNT_BITS)
        back = self._op("ashr", self.x, self._at_most(self._negated(amount), 63))
        ahead = self._shift_left(amount)
        return self.wrap(self._pick("sge", amount, "zeroinitializer", ahead, back), self._bits)

    def right(self) -> str:
        """``x >> y``, rounded down."""
        amount = self.wrap(self.y, AMOUNT_BITS)
        return self._right(self._op("ashr", self.x, self._at_least_0(amount)), amount)

    def right_even(self) -> str:
        """``x >> y``, rounded half to even."""
        amount = self.wrap(self.y, AMOUNT_BITS)
        return self._right(self.round_shift(self.x, self._at_least_0(amount)), amount)

    def round_shift(self, value: str, amount: str) -> str:
        """`isa.numerics.round_half_even_shift` of values below 2^62; amounts 0 to 63.

        Adds half a unit of the last place minus one, and one more where the result would be odd.
        """
        before = self._op("sub", amount, "splat (i64 1)")
        one = "splat (i64 1)"
        half = self._op("shl", one, self._at_least_0(before))
        odd = self._op("and", self._op("ashr", value, amount), one)
        raised = self._op("add", value, self._op("sub", half, one))
        rounded = self._op("ashr", self._op("add", raised, odd), amount)
        return self._pick("eq", amount, "zeroinitializer", value, rounded)

    def choose(self, flag: str, yes: str, no: str) -> str:
        """`yes` where the flag is set."""
        return self._pick("ne", flag, "zeroinitializer", yes, no)

    def _negated(self, value: str) -> str:
        return self._op("sub", "zeroinitializer", value)

    def _at_least_0(self, value: str) -> str:
        return self._pick("slt", value, "zeroinitializer", "zeroinitializer", value)

    def _at_most(self, value: str, limit: int) -> str:
        """0 to `limit`."""
        return self.clamp(value, "zeroinitializer", f"splat (i64 {limit})")

    def _shift_left(self, amount: str) -> str:
        """`isa.numerics.shift_left` of x; undefined for a negative amount."""
        moved = self._op("shl", self.x, self._at_most(amount, 63))
        wide = f"splat (i64 {self._bits})"
        return self.wrap(self._pick("sge", amount, wide, "zeroinitializer", moved), self._bits)

    def _right(self, ahead: str, amount: str) -> str:
        back = self._shift_left(self._negated(amount))
        return self.wrap(self._pick("sge", amount, "zeroinitializer", ahead, back), self._bits)


def _stored(lane: TextLane, shape: type[Shape], result: str, copies: int = 1) -> list[str]:
    """Lines that store `result` to the accumulators or to OUT, truncated to their width.

    There are `copies` of it, one behind the other.
    """
    kind = f"<{shape.lanes} x i64>"
    begin = len(lane.lines)
    acc = lane.wrap(result, shape.acc_bits)
    out = lane.wrap(result, shape.out_bits)
    lines = lane.lines[begin:]
    del lane.lines[begin:]
    return [
        *lines,
        f"%kept = select i1 %to.acc, {kind} {acc}, {kind} {out}",
        "%target = select i1 %to.acc, ptr %acc, ptr %out",
        "%to = getelementptr inbounds i64, ptr %target, i64 %dst.at",
        f"store {kind} %kept, ptr %to, align 8",
        *(
            line
            for copy in range(1, copies)
            for line in (
                f"%to.{copy} = getelementptr inbounds i64, ptr %to, i64 {copy * shape.lanes}",
                f"store {kind} %kept, ptr %to.{copy}, align 8",
            )
        ),
        "ret void",
    ]


def _load(name: str, array: str, at: str, kind: str) -> list[str]:
    return [
        f"%{name}.from = getelementptr inbounds i64, ptr {array}, i64 {at}",
        f"%{name} = load {kind}, ptr %{name}.from, align 8",
    ]


def _splat(name: str, scalar: str, lanes: int) -> list[str]:
    kind = f"<{lanes} x i64>"
    return [
        f"%{name}.one = insertelement {kind} poison, i64 {scalar}, i64 0",
        f"%{name} = shufflevector {kind} %{name}.one, {kind} poison, "
        f"<{lanes} x i32> zeroinitializer",
    ]


def _definition(parameters: str, lines: list[str]) -> str:
    body = "\n".join(line if line.endswith(":") else "  " + line for line in lines)
    return f"define internal void @SELF({parameters}) alwaysinline {{\nentry:\n{body}\n}}\n"


def operation_text(names: Mapping[str, Any]) -> str:
    """`alu.operation_part`: every operation that has a formula, selected by its code."""
    shape: type[Shape] = names["Shape"]
    kind = f"<{shape.lanes} x i64>"
    results = {}
    for item in AluOp:
        if item.formula is not None and not item.over_lanes:
            lane = TextLane("%x", "%y", shape.lanes, shape.acc_bits, f"t{int(item)}.")
            results[item] = item.formula(lane), lane.lines
    return _definition(
        "i64 %operation, ptr %acc, i64 %acc.size, i64 %x.at, i64 %y.at, i1 %use.immediate, "
        "i64 %immediate, i1 %saturate, i1 %to.acc, ptr %out, i64 %out.size, i64 %dst.at",
        [
            *_load("x", "%acc", "%x.at", kind),
            *_load("row", "%acc", "%y.at", kind),
            *_splat("constant", "%immediate", shape.lanes),
            f"%y = select i1 %use.immediate, {kind} %constant, {kind} %row",
            *_selected(shape, results),
        ],
    )


def reduction_text(names: Mapping[str, Any]) -> str:
    """`alu.reduce_row`: operations over all lanes of one batch row.

    Parts of the row are combined; then the rest with itself, rotated by half the lanes, a quarter
    and so on, so that every lane has the result.
    """
    shape: type[Shape] = names["Shape"]
    lanes, kind = shape.lanes, f"<{shape.lanes} x i64>"
    parts = shape.block_out // lanes
    lines = _splat("constant", "%immediate", lanes)
    for part in range(parts):
        lines += [
            f"%at{part} = add i64 %y.at, {part * lanes}",
            *_load(f"row{part}", "%acc", f"%at{part}", kind),
            f"%y{part} = select i1 %use.immediate, {kind} %constant, {kind} %row{part}",
        ]
    results = {
        item: _reduced(shape, item, [f"%y{part}" for part in range(parts)])
        for item in AluOp
        if item.over_lanes
    }
    return _definition(
        "i64 %operation, ptr %acc, i64 %acc.size, i64 %y.at, i1 %use.immediate, "
        "i64 %immediate, i1 %saturate, i1 %to.acc, ptr %out, i64 %out.size, i64 %dst.at",
        [*lines, *_selected(shape, results, copies=parts)],
    )


def _reduced(shape: type[Shape], operation: AluOp, parts: list[str]) -> tuple[str, list[str]]:
    """The result of an operation over all lanes of `parts`, in every lane; the lines before it."""
    lanes, kind = shape.lanes, f"<{shape.lanes} x i64>"
    lines: list[str] = []

    def combined(x: str, y: str) -> str:
        lane = TextLane(x, y, lanes, shape.acc_bits, f"t{int(operation)}.{len(lines)}.")
        assert operation.formula is not None, "it combines two lanes"
        result: str = operation.formula(lane)
        lines.extend(lane.lines)
        return result

    value = reduce(combined, parts)
    distance = lanes // 2
    while distance:
        rotated = f"%r{int(operation)}.{distance}"
        places = ", ".join(f"i32 {(lane + distance) % lanes}" for lane in range(lanes))
        lines.append(
            f"{rotated} = shufflevector {kind} {value}, {kind} poison, <{lanes} x i32> <{places}>"
        )
        value = combined(value, rotated)
        distance //= 2
    return value, lines


def _selected(
    shape: type[Shape], results: Mapping[AluOp, tuple[str, list[str]]], copies: int = 1
) -> list[str]:
    """Store the result of ``%operation``, saturated where it has to be; 0 for any other."""
    kind = f"<{shape.lanes} x i64>"
    cases = " ".join(f"i64 {int(item)}, label %op{int(item)}" for item in results)
    lines = [f"switch i64 %operation, label %other [ {cases} ]"]
    arrivals = ["[ zeroinitializer, %other ]"]
    for item, (result, before) in results.items():
        lines += [f"op{int(item)}:", *before, "br label %done"]
        arrivals.append(f"[ {result}, %op{int(item)} ]")
    lines += ["other:", "br label %done", "done:"]
    lines.append(f"%result = phi {kind} {', '.join(arrivals)}")
    end = TextLane("", "", shape.lanes, shape.acc_bits, "e")
    low, high = integer_range(shape.out_bits)
    clamped = end.clamp("%result", f"splat (i64 {low})", f"splat (i64 {high})")
    end.lines.append(f"%limited = select i1 %saturate, {kind} {clamped}, {kind} %result")
    return [*lines, *end.lines, *_stored(end, shape, "%limited", copies)]


def requantize_text(names: Mapping[str, Any]) -> str:
    """`alu.requantize_part`: `isa.numerics.requantize` of one part of a row."""
    shape: type[Shape] = names["Shape"]
    lanes, kind = shape.lanes, f"<{shape.lanes} x i64>"
    lane = TextLane("", "", lanes, shape.acc_bits, "r")
    lines = [
        *_load("x", "%acc", "%src.at", kind),
        *_load("bias.row", "%bias", "%par.at", kind),
        *_load("factor", "%multiplier", "%par.at", kind),
        *_load("amount", "%shift", "%par.at", kind),
        *_splat("zero.row", "%zero", lanes),
        *_splat("low.row", "%low", lanes),
        *_splat("high.row", "%high", lanes),
        f"%sum = add {kind} %x, %bias.row",
    ]
    # acc + bias has one bit more than an accumulator; rounding needs one bit of headroom.
    if shape.acc_bits + 1 + shape.multiplier_bits <= 62:
        lines.append(f"%product = mul {kind} %sum, %factor")
        rounded = lane.round_shift("%product", "%amount")
    else:
        lines += _wide_rounding(lanes)
        rounded = "%rounded"
    shifted = f"%shifted = add {kind} {rounded}, %zero.row"
    lane.lines.append(shifted)
    result = lane.clamp("%shifted", "%low.row", "%high.row")
    return _definition(
        "ptr %acc, i64 %acc.size, i64 %src.at, ptr %bias, i64 %bias.size, ptr %multiplier, "
        "i64 %multiplier.size, ptr %shift, i64 %shift.size, i64 %par.at, i64 %zero, i64 %low, "
        "i64 %high, i1 %to.acc, ptr %out, i64 %out.size, i64 %dst.at",
        [*lines, *lane.lines, *_stored(lane, shape, result)],
    )


def _wide_rounding(lanes: int) -> list[str]:
    """The product of `%sum` and `%factor`, shifted and rounded in 128 bits, then clamped."""
    wide, kind, flag = f"<{lanes} x i128>", f"<{lanes} x i64>", f"<{lanes} x i1>"
    limit = 1 << 40  # far beyond every output, and far from overflow when the zero point is added
    return [
        f"%sum.w = sext {kind} %sum to {wide}",
        f"%factor.w = zext {kind} %factor to {wide}",
        f"%amount.w = zext {kind} %amount to {wide}",
        f"%product.w = mul {wide} %sum.w, %factor.w",
        f"%unit.w = shl {wide} splat (i128 1), %amount.w",
        f"%half.w = lshr {wide} %unit.w, splat (i128 1)",
        f"%floor.w = ashr {wide} %product.w, %amount.w",
        f"%odd.w = and {wide} %floor.w, splat (i128 1)",
        f"%raised.w = add {wide} %product.w, %half.w",
        f"%less.w = sub {wide} %raised.w, splat (i128 1)",
        f"%even.w = add {wide} %less.w, %odd.w",
        f"%shifted.w = ashr {wide} %even.w, %amount.w",
        f"%none.w = icmp eq {wide} %amount.w, zeroinitializer",
        f"%rounded.w = select {flag} %none.w, {wide} %product.w, {wide} %shifted.w",
        f"%below.w = icmp slt {wide} %rounded.w, splat (i128 -{limit})",
        f"%least.w = select {flag} %below.w, {wide} splat (i128 -{limit}), {wide} %rounded.w",
        f"%above.w = icmp sgt {wide} %least.w, splat (i128 {limit})",
        f"%limited.w = select {flag} %above.w, {wide} splat (i128 {limit}), {wide} %least.w",
        f"%rounded = trunc {wide} %limited.w to {kind}",
    ]
