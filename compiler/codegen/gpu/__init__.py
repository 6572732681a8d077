"""Kernels of GPUs as LLVM's text: one text for all targets, which give its operations bodies.

`kernel` writes the text, in which all that processors have not (coordinates, barriers, shared
memory) and functions of floats are calls of ``@gpu.*``. `emulated` makes object code of it, whose
operations the emulator (`daedal.sim.gpu`) defines, `nvptx` PTX for NVIDIA's GPUs, and `spirv` a
module for OpenCL.
"""
