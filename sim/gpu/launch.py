"""`Launch`: the state of a launch, which the scheduler and the kernels' operations share."""

from daedal.native.record import record
from daedal.native.types import Array, f32, f64, i8, i32, i64, u16

__all__ = ["Launch"]


@record
class Launch:
    """All that a launch needs.

    Attributes
    ----------
    threads : rows of `thread.Slot`; words, floats, shorts, bytes: the same memory.
    home : the scheduler's stack pointer, which is at home_address.
    stacks : the address of the first stack; stack_stride: to the next one.
    orders : permutations of the threads, one for each pass in turn.
    entry, buffers : addresses of the kernel and of its arguments.
    address : of this record.
    shared, shared_bytes, shared_shadow : addresses and size of the shared memory.
    poison : 4 bytes that fill undefined memory.
    begins, ends, shadows : of each allocation in global memory, by address; a shadow of 0 is none.
    region : the allocation of the last access.
    races : whether accesses are compared.
    epoch : counts barriers and blocks, through all launches.
    launch_first, block_first : the first epochs of this launch and of the current block.
    block : the current block, x fastest.
    passes_left : passes over the current block's threads before it counts as endless.
    failure : a `reports.Failure`, which ends the launch; the fields after it describe it.
    num_races, found : races so far, and the first ones as rows of `reports.Column`.
    num_noted, noted : accesses of shared memory, and the first ones as rows of `banks.Column`.
    num_requested, requested : the same of global memory.
    copies : for each thread, asynchronous copies that have not landed.
    num_boxes, boxes : copies of boxes of a block that have not landed.
    products : for each group of four warps, products of matrices that are not done.
    halves : the value of each float16 by its bits.
    factors : the operands of a product of matrices.
    """

    threads: Array[i64]
    words: Array[i32]
    floats: Array[f32]
    shorts: Array[u16]
    bytes: Array[i8]
    home: Array[i64]
    home_address: i64
    stacks: i64
    stack_stride: i64
    orders: Array[i32]
    entry: i64
    buffers: i64
    address: i64
    grid_x: i64
    grid_y: i64
    grid_z: i64
    block_x: i64
    block_y: i64
    block_z: i64
    num_threads: i64
    shared: i64
    shared_bytes: i64
    shared_shadow: i64
    poison: i64
    begins: Array[i64]
    ends: Array[i64]
    shadows: Array[i64]
    region: i64
    races: bool
    epoch: i64
    launch_first: i64
    block_first: i64
    block: i64
    max_passes: i64
    failure: i64
    thread: i64
    site: i64
    other_thread: i64
    other_site: i64
    place: i64
    size: i64
    num_races: i64
    found: Array[i64]
    num_noted: i64
    noted: Array[i64]
    num_requested: i64
    requested: Array[i64]
    copies: Array[i64]
    num_boxes: i64
    boxes: Array[i64]
    products: Array[i64]
    halves: Array[f32]
    factors: Array[f64]
