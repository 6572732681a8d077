"""The operator library: what each operator computes, in tensor expressions.

`daedal.compiler.ops.accelerator` holds the schedules that map them onto the machine.
"""
