"""`with_half_conversions`: float16 for processors of x86-64 without instructions for it.

LLVM converts there by calls of two functions of a compiler's library, which a process need not
have. So code that has float16 brings them along.

Source: IEEE 754-2019, clause 3.4, for the formats; LLVM's compiler-rt documents the two names.
"""

from daedal.native.cpu import Cpu

__all__ = ["with_half_conversions"]

# 13 bits of the fraction are more in float32, and its exponents are larger by 112. A subnormal
# float16 counts steps of 2^-24, and so does the last bit of float32 from 1/2 to 1.
_BODIES = """
define internal float @__extendhfsf2(half %x) nounwind noinline {
  %bits = bitcast half %x to i16
  %all = zext i16 %bits to i32
  %amount = and i32 %all, 32767
  %moved = shl i32 %amount, 13
  %normal = add i32 %moved, 939524096
  %other = or i32 %moved, 2139095040
  %count = uitofp i32 %amount to float
  %tiny = fmul float %count, 0x3E70000000000000
  %small = bitcast float %tiny to i32
  %is_other = icmp uge i32 %amount, 31744
  %is_small = icmp ult i32 %amount, 1024
  %first = select i1 %is_other, i32 %other, i32 %normal
  %found = select i1 %is_small, i32 %small, i32 %first
  %top = and i32 %all, 32768
  %sign = shl i32 %top, 16
  %result = or i32 %found, %sign
  %y = bitcast i32 %result to float
  ret float %y
}

define internal half @__truncsfhf2(float %x) nounwind noinline {
  %bits = bitcast float %x to i32
  %amount = and i32 %bits, 2147483647
  %last = lshr i32 %amount, 13
  %odd = and i32 %last, 1
  %less = add i32 %amount, 3355447295
  %rounded = add i32 %less, %odd
  %normal = lshr i32 %rounded, 13
  %size = bitcast i32 %amount to float
  %summed = fadd float %size, 5.000000e-01
  %counted = bitcast float %summed to i32
  %small = sub i32 %counted, 1056964608
  %fraction = and i32 %last, 511
  %nan = or i32 %fraction, 32256
  %is_nan = icmp ugt i32 %amount, 2139095040
  %is_large = icmp uge i32 %amount, 1199566848
  %is_small = icmp ult i32 %amount, 947912704
  %a = select i1 %is_small, i32 %small, i32 %normal
  %b = select i1 %is_large, i32 31744, i32 %a
  %c = select i1 %is_nan, i32 %nan, i32 %b
  %top = lshr i32 %bits, 16
  %sign = and i32 %top, 32768
  %result = or i32 %c, %sign
  %narrow = trunc i32 %result to i16
  %y = bitcast i16 %narrow to half
  ret half %y
}

@llvm.compiler.used = appending global [2 x ptr]
  [ptr @__extendhfsf2, ptr @__truncsfhf2], section "llvm.metadata"
"""


def with_half_conversions(text: str, cpu: Cpu) -> str:
    """The text, with the conversions where `cpu` needs them."""
    has_them = not cpu.triple.startswith("x86_64") or "f16c" in cpu.features
    return text if has_them or "half" not in text else text + _BODIES
