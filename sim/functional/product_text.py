"""Inner products of one machine size as LLVM's text: unrolled, in vectors, exact.

Inputs and weights are 16-bit and in pairs: two products and their sum are one instruction of
processors that have it (vpmaddwd, vpdpwssd), which LLVM finds for this text.
"""

from collections.abc import Mapping
from typing import Any

from daedal.sim.functional.shape import Shape

__all__ = ["dense_text", "depthwise_text"]


def _accumulate(lanes: int, bits: int, addend: str) -> list[str]:
    """Add ``<lanes x i64>`` `addend` to the accumulators, which keep `bits` bits with sign."""
    kind, spare = f"<{lanes} x i64>", 64 - bits
    return [
        "%to = getelementptr inbounds i64, ptr %acc, i64 %acc.at",
        f"%kept = load {kind}, ptr %to, align 8",
        f"%old = select i1 %restart, {kind} zeroinitializer, {kind} %kept",
        f"%sum = add {kind} %old, {addend}",
        f"%high = shl {kind} %sum, splat (i64 {spare})",
        f"%wrapped = ashr {kind} %high, splat (i64 {spare})",
        f"store {kind} %wrapped, ptr %to, align 8",
        "ret void",
    ]


def _definition(parameters: str, lines: list[str]) -> str:
    body = "\n".join("  " + line for line in lines)
    return f"define internal void @SELF({parameters}) alwaysinline {{\n{body}\n}}\n"


def dense_text(names: Mapping[str, Any]) -> str:
    """`gemm.dense_part`: `lanes` outputs of one batch row."""
    shape: type[Shape] = names["Shape"]
    lanes, pairs = shape.lanes, shape.pairs
    wide, narrow = 2 * lanes, f"<{2 * lanes} x i16>"
    product_bits = shape.inp_bits + shape.wgt_bits + (2 * pairs - 1).bit_length()
    sum_bits = 32 if product_bits <= 32 else 64
    total = f"<{lanes} x i{sum_bits}>"
    halves = [", ".join(f"i32 {2 * k + side}" for k in range(lanes)) for side in (0, 1)]
    lines = [
        "%from.x = getelementptr inbounds i16, ptr %inp, i64 %inp.at",
        "%from.w = getelementptr inbounds i16, ptr %wgt, i64 %wgt.at",
    ]
    running = "zeroinitializer"
    for p in range(pairs):
        # A pair of inputs meets a pair of weights of every output.
        lines += [
            f"%ax{p} = getelementptr inbounds i16, ptr %from.x, i64 {2 * p}",
            f"%x{p} = load i32, ptr %ax{p}, align 2",
            f"%xi{p} = insertelement <{lanes} x i32> poison, i32 %x{p}, i64 0",
            f"%xs{p} = shufflevector <{lanes} x i32> %xi{p}, <{lanes} x i32> poison, "
            f"<{lanes} x i32> zeroinitializer",
            f"%xn{p} = bitcast <{lanes} x i32> %xs{p} to {narrow}",
            f"%aw{p} = getelementptr inbounds i16, ptr %from.w, i64 {p * wide}",
            f"%wn{p} = load {narrow}, ptr %aw{p}, align 2",
            f"%xw{p} = sext {narrow} %xn{p} to <{wide} x i32>",
            f"%ww{p} = sext {narrow} %wn{p} to <{wide} x i32>",
            f"%m{p} = mul nsw <{wide} x i32> %xw{p}, %ww{p}",
        ]
        for side, half in enumerate(halves):
            lines.append(
                f"%h{side}.{p} = shufflevector <{wide} x i32> %m{p}, <{wide} x i32> poison, "
                f"<{lanes} x i32> <{half}>"
            )
        terms = [f"%h0.{p}", f"%h1.{p}"]
        if sum_bits == 64:
            for side in (0, 1):
                lines.append(f"%w{side}.{p} = sext <{lanes} x i32> {terms[side]} to {total}")
            terms = [f"%w0.{p}", f"%w1.{p}"]
        lines.append(f"%d{p} = add {total} {terms[0]}, {terms[1]}")
        lines.append(f"%r{p} = add {total} {running}, %d{p}")
        running = f"%r{p}"
    if sum_bits == 32:
        lines.append(f"%product = sext {total} {running} to <{lanes} x i64>")
        running = "%product"
    return _definition(
        "ptr %acc, i64 %acc.size, i64 %acc.at, ptr %inp, i64 %inp.size, i64 %inp.at, "
        "ptr %wgt, i64 %wgt.size, i64 %wgt.at, i1 %restart",
        lines + _accumulate(lanes, shape.acc_bits, running),
    )


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
