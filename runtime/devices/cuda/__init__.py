"""NVIDIA's GPUs through the CUDA driver alone: no toolkit and no package is needed.

`status` says what the driver's errors mean, `functions` lists what is called, `driver` calls it,
`device` is the GPU that runs kernels, and `names` tells which GPUs there are.
"""
