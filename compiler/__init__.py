"""From an ONNX model to a program: frontend, graph, te, loop IR, schedule, codegen, link."""
