"""Inner products of one machine size as LLVM IR text: unrolled, vectorized, exact.

Inputs and weights are 16-bit and in pairs: LLVM matches two products and their sum to a single
instruction (vpmaddwd, vpdpwssd) on processors that have it.
"""

from collections.abc import Mapping
from typing import Any

from daedal.sim.functional.shape import Shape

__all__ = ["ROWS", "dense_rows_text", "dense_text", "depthwise_text"]


ROWS = 2
"""Input rows that `dense_rows_text` multiplies together, loading each weight once."""


def _accumulate(
    lanes: int, bits: int, addend: str, row: str = "", at: str = "%acc.at"
) -> list[str]:
    """Add ``<lanes x i64>`` `addend` to the accumulators, which are signed and wrap at `bits` bits.

    `row` makes the register names of several rows unique.
    """
    kind, spare = f"<{lanes} x i64>", 64 - bits
    return [
        f"%to{row} = getelementptr inbounds i64, ptr %acc, i64 {at}",
        f"%kept{row} = load {kind}, ptr %to{row}, align 8",
        f"%old{row} = select i1 %restart, {kind} zeroinitializer, {kind} %kept{row}",
        f"%sum{row} = add {kind} %old{row}, {addend}",
        f"%high{row} = shl {kind} %sum{row}, splat (i64 {spare})",
        f"%wrapped{row} = ashr {kind} %high{row}, splat (i64 {spare})",
        f"store {kind} %wrapped{row}, ptr %to{row}, align 8",
    ]


def _definition(parameters: str, lines: list[str]) -> str:
    body = "\n".join("  " + line for line in [*lines, "ret void"])
    return f"define internal void @SELF({parameters}) alwaysinline {{\n{body}\n}}\n"


def dense_text(names: Mapping[str, Any]) -> str:
    """`gemm.dense_part`: `lanes` outputs of one batch row."""
    shape: type[Shape] = names["Shape"]
    return _definition(
        "ptr %acc, i64 %acc.size, i64 %acc.at, ptr %inp, i64 %inp.size, i64 %inp.at, "
        "ptr %wgt, i64 %wgt.size, i64 %wgt.at, i1 %restart",
        _dense(shape, ["%inp.at"], ["%acc.at"]),
    )


def dense_rows_text(names: Mapping[str, Any]) -> str:
    """`gemm.dense_rows`: the same for `ROWS` equidistant rows."""
    shape: type[Shape] = names["Shape"]
    lines, places = [], {}
    for array in ("inp", "acc"):
        places[array] = [f"%{array}.at"]
        for row in range(1, ROWS):
            here = f"%{array}.at{row}"
            lines.append(f"{here} = add i64 {places[array][-1]}, %{array}.step")
            places[array].append(here)
    return _definition(
        "ptr %acc, i64 %acc.size, i64 %acc.at, i64 %acc.step, "
        "ptr %inp, i64 %inp.size, i64 %inp.at, i64 %inp.step, "
        "ptr %wgt, i64 %wgt.size, i64 %wgt.at, i1 %restart",
        lines + _dense(shape, places["inp"], places["acc"]),
    )


def _dense(shape: type[Shape], inputs: list[str], accumulators: list[str]) -> list[str]:
    """Lines that multiply the rows at `inputs` by the weights, and add to `accumulators`."""
    lanes, pairs = shape.lanes, shape.pairs
    wide, narrow = 2 * lanes, f"<{2 * lanes} x i16>"
    product_bits = shape.inp_bits + shape.wgt_bits + (2 * pairs - 1).bit_length()
    sum_bits = 32 if product_bits <= 32 else 64
    total = f"<{lanes} x i{sum_bits}>"
    lines = ["%from.w = getelementptr inbounds i16, ptr %wgt, i64 %wgt.at"]
    rows = range(len(inputs))
    for r in rows:
        lines.append(f"%from.x{r} = getelementptr inbounds i16, ptr %inp, i64 {inputs[r]}")
    running = ["zeroinitializer" for _ in rows]
    for p in range(pairs):
        lines += [
            f"%aw{p} = getelementptr inbounds i16, ptr %from.w, i64 {p * wide}",
            f"%wn{p} = load {narrow}, ptr %aw{p}, align 2",
            f"%ww{p} = sext {narrow} %wn{p} to <{wide} x i32>",
        ]
        for r in rows:
            lines += _pair(lanes, total, p, r, running[r])
            running[r] = f"%r{p}.{r}"
    for r in rows:
        if sum_bits == 32:
            lines.append(f"%product{r} = sext {total} {running[r]} to <{lanes} x i64>")
            running[r] = f"%product{r}"
        lines += _accumulate(lanes, shape.acc_bits, running[r], str(r), accumulators[r])
    return lines


def _pair(lanes: int, total: str, p: int, r: int, running: str) -> list[str]:
    """Multiply pair `p` of the inputs of row `r` by a pair of weights of every output."""
    wide, name = 2 * lanes, f"{p}.{r}"
    halves = [", ".join(f"i32 {2 * k + side}" for k in range(lanes)) for side in (0, 1)]
    lines = [
        f"%ax{name} = getelementptr inbounds i16, ptr %from.x{r}, i64 {2 * p}",
        f"%x{name} = load i32, ptr %ax{name}, align 2",
        f"%xi{name} = insertelement <{lanes} x i32> poison, i32 %x{name}, i64 0",
        f"%xs{name} = shufflevector <{lanes} x i32> %xi{name}, <{lanes} x i32> poison, "
        f"<{lanes} x i32> zeroinitializer",
        f"%xn{name} = bitcast <{lanes} x i32> %xs{name} to <{wide} x i16>",
        f"%xw{name} = sext <{wide} x i16> %xn{name} to <{wide} x i32>",
        f"%m{name} = mul nsw <{wide} x i32> %xw{name}, %ww{p}",
    ]
    terms = []
    for side, half in enumerate(halves):
        lines.append(
            f"%h{side}.{name} = shufflevector <{wide} x i32> %m{name}, <{wide} x i32> poison, "
            f"<{lanes} x i32> <{half}>"
        )
        terms.append(f"%h{side}.{name}")
    if total.endswith("i64>"):
        for side in (0, 1):
            lines.append(f"%w{side}.{name} = sext <{lanes} x i32> {terms[side]} to {total}")
        terms = [f"%w{side}.{name}" for side in (0, 1)]
    return [
        *lines,
        f"%d{name} = add {total} {terms[0]}, {terms[1]}",
        f"%r{name} = add {total} {running}, %d{name}",
    ]


def depthwise_text(names: Mapping[str, Any]) -> str:
    """`gemm.depthwise_part`: `lanes` channels of one batch row and one tap."""
    shape: type[Shape] = names["Shape"]
    lanes = shape.lanes
    lines = [
        "%from.x = getelementptr inbounds i16, ptr %inp, i64 %inp.at",
        f"%xn = load <{lanes} x i16>, ptr %from.x, align 2",
        f"%x = sext <{lanes} x i16> %xn to <{lanes} x i32>",
        "%from.w = getelementptr inbounds i64, ptr %wgt, i64 %wgt.at",
        f"%wl = load <{lanes} x i64>, ptr %from.w, align 8",
        f"%w = trunc <{lanes} x i64> %wl to <{lanes} x i32>",
        f"%m = mul nsw <{lanes} x i32> %x, %w",
        f"%product = sext <{lanes} x i32> %m to <{lanes} x i64>",
    ]
    return _definition(
        "ptr %acc, i64 %acc.size, i64 %acc.at, ptr %inp, i64 %inp.size, i64 %inp.at, "
        "ptr %wgt, i64 %wgt.size, i64 %wgt.at, i1 %restart",
        lines + _accumulate(lanes, shape.acc_bits, "%product"),
    )
