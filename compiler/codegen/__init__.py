"""Back ends: scheduled loop IR becomes code.

The accelerator's, in the order of the work: `intrinsics` (what `tensorize` may refer to),
`accelerator` (walks a function), `forms` and `concrete` (index expressions to row numbers), `nest`
and `operations` (GEMM and ALU), `boxes` and `transfers` (LOAD and STORE), `vectors` (the weights of
depthwise modes), `segment` and `printer` (the result).
"""
