"""Back ends: scheduled loop IR becomes code.

Modules of the accelerator's back end, in the order of the steps: `intrinsics` (targets of
`tensorize`), `accelerator` (walks a function), `forms` and `concrete` (index expressions to row
numbers), `nest` and `operations` (GEMM and ALU), `boxes` and `transfers` (LOAD and STORE),
`vectors` (weights of the depthwise modes), `segment` and `printer` (the result).
"""
