"""The compiler for processors: a model, or the host's part of one, becomes machine code.

ONNX nodes become tensor expressions (`importer`, `compiler.ops.onnx`), these are joined to kernels
(`fusion`), each kernel is scheduled (`compiler.ops.cpu`), lowered and compiled (`kernel`), and
`build` puts the kernels, the constants and the plan of the memory into a `HostCode`
(`isa.host_code`). What has no tensor expression stays an ONNX node, which is interpreted.
"""
