"""The operator library: what each operator computes, in tensor expressions.

Maps are (NB, CB, H, W, U, batch, lanes): blocks of images and channels, rows, columns, vectors of a
channel block, and one scratchpad row. A channel block in memory is the larger of the array's two
blocks; U > 1 if a row holds only a part of it.

`daedal.compiler.ops.accelerator` holds the schedules that map them onto the machine.
"""
