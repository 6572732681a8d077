"""The compiler for processors: a model, or the host's part of one, becomes machine code.

A model with convolutions or quantized tensors becomes a graph (`graph`), whose operators become
tensor expressions (`graph_tensors`, `compiler.ops.graph`) or are written back as ONNX nodes. These,
and all nodes of other models, become tensor expressions, too (`importer`, `compiler.ops.onnx`).
Expressions are joined to kernels (`fusion`), each kernel is scheduled (`compiler.ops.cpu`), lowered
and compiled (`kernel`), and `build` puts the kernels, the constants and the plan of the memory into
a `HostCode` (`artifact.host_code`). What has no tensor expression is interpreted.
"""
