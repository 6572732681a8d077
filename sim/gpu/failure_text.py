"""`failure_sentence`: why a launch ended early."""

from daedal.sim.gpu.boxes import MAX_BOXES
from daedal.sim.gpu.copies import MAX_COPIES
from daedal.sim.gpu.groups import MAX_PRODUCTS
from daedal.sim.gpu.launch import Launch
from daedal.sim.gpu.reports import Failure, Site, place_text, site_text

__all__ = ["failure_sentence"]


def failure_sentence(launch: Launch, symbol: str, reach: int) -> str:
    """One sentence about the launch of `symbol`; see `place_text` for `reach`."""
    block = f"block {launch.block} of {symbol!r}"
    thread = f"thread {launch.thread}"
    place = place_text(launch.place, launch.shared, reach)
    at = site_text(launch.site) if launch.failure in _AT_SITES else ""
    match launch.failure:
        case Failure.OUTSIDE:
            return (
                f"an access must stay inside the memory of its kernel, and {thread} of {block} "
                f"accesses {launch.size} bytes from {place} at {at}"
            )
        case Failure.DIVERGED:
            other = f"waits at {site_text(launch.other_site)}"
            if launch.other_site == Site.ENDED:
                other = "has ended"
            return (
                f"divergent barrier: all threads of a block must come to the same barrier, and in "
                f"{block} {thread} waits at {at}, while thread {launch.other_thread} {other}"
            )
        case Failure.WARP_DIVERGED:
            return (
                f"all threads of a warp must come to the same operation of the warp, and in "
                f"{block} {thread} waits for one that thread {launch.other_thread} does not come to"
            )
        case Failure.WARP_PARTIAL:
            return (
                f"products of matrices and ldmatrix need warps of 32 threads, and that of {thread} "
                f"of {block} has {launch.size}"
            )
        case Failure.GROUP_DIVERGED:
            return (
                f"all threads of four warps must come to the same operation of their group, with "
                f"the same operands, and in {block} {thread} waits for one that thread "
                f"{launch.other_thread} does not come to"
            )
        case Failure.GROUP_PARTIAL:
            return (
                f"products of groups of warps need groups of 128 threads, and that of {thread} of "
                f"{block} has {launch.size}"
            )
        case Failure.PRODUCTS:
            return (
                f"at most {MAX_PRODUCTS} products of a group of warps may be under way, and that "
                f"of {thread} of {block} begins another one; wait for some of them"
            )
        case Failure.BOX_SHAPE:
            return (
                "a copy of a box must bring lines of 128 bytes to a multiple of 1024 bytes, from a "
                f"tensor at a multiple of 16, and that of {thread} of {block} to {place} does not"
            )
        case Failure.BOXES:
            return (
                f"at most {MAX_BOXES} copies of boxes of a block may be under way, and {thread} of "
                f"{block} begins another one; wait for some of them"
            )
        case Failure.EXPECTED:
            return (
                f"copies of boxes must bring the bytes that are expected, once, and {thread} of "
                f"{block} brings or expects {launch.size} more at {place}"
            )
        case Failure.NOTHING_ARRIVES:
            return (
                f"bytes that are waited for must be expected, and brought by copies, and {thread} "
                f"of {block} waits for others"
            )
        case Failure.UNFINISHED:
            return (
                f"all products of a group of warps must be waited for, and those of {thread} of "
                f"{block} are not"
            )
        case Failure.UNFENCED_SUMS:
            return (
                f"sums must be fenced before each group of products, and {thread} of {block} "
                "begins one without"
            )
        case Failure.COPIES:
            return (
                f"at most {MAX_COPIES} asynchronous copies of a thread may be under way, and "
                f"{thread} of {block} begins another one; wait for some of them"
            )
        case Failure.COPY_SHAPE:
            return (
                "an asynchronous copy must have 4, 8 or 16 bytes, at addresses that are multiples "
                f"of that, and that of {thread} of {block} to {place} has {launch.size} or other "
                "addresses"
            )
        case Failure.ROW_ADDRESS:
            return (
                f"rows of ldmatrix must lie in shared memory, aligned to 16 bytes, and that of "
                f"{thread} of {block} is at {place}"
            )
        case Failure.ENDLESS:
            return (
                f"the threads of a block must end after at most {launch.max_passes} barriers and "
                f"operations of warps, and those of {block} do not"
            )
        case _:
            return (
                f"a thread must not need more memory for its variables than its stack has, and "
                f"{thread} of {block} does; schedule smaller tiles"
            )


_AT_SITES = (Failure.OUTSIDE, Failure.DIVERGED)
