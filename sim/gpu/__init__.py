"""An emulated GPU: kernels as object code for this processor, each thread a fiber.

`emulator.EmulatedGpu` is a `runtime.gpu_device.GpuDevice`. `scheduler` runs the fibers of one block
after the other, `fibers` switches between them, `operations` gives the kernels' ``@gpu.*``
functions their bodies, and `races` finds accesses that no barrier orders.
"""
