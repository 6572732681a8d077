"""The compiler for GPUs: a model becomes kernels.

Formulas of kernels are made as for processors (`compiler.cpu`). `functions` schedules each for the
threads of a GPU (`compiler.ops.gpu`) and writes a text for all targets (`compiler.codegen.gpu`),
`images` makes of the texts what the devices of each architecture load, and `build` puts all into a
`GpuCode` (`artifact.gpu_code`).
"""
