"""Code for processors: a scheduled function of the loop IR becomes a function in LLVM's text.

`function` writes loops and stores, `expressions` values, scalar or one per lane of a vector,
`scalars` the operations on them, and `intrinsics` the functions of the loop IR's table.
`daedal.native` makes machine code of the text.
"""
