"""`CudaKernels` and `CudaGraph`: loaded kernels, and launches of them that are replayed."""

import weakref
from collections.abc import Sequence
from functools import partial

from daedal.runtime.devices.cuda.context import Context
from daedal.runtime.devices.cuda.driver import Driver

__all__ = ["CudaGraph", "CudaKernels"]


class CudaKernels:
    """Kernels of images, which are unloaded with this object."""

    def __init__(self, context: Context, images: Sequence[bytes], symbols: Sequence[str]) -> None:
        self._context = context
        driver = context.enter()
        modules: list[int] = []
        weakref.finalize(self, _unload, context, modules).atexit = False
        for image in images:
            modules.append(driver.load_module(image))
        places = modules if len(modules) > 1 else modules * len(symbols)
        self._functions = {
            symbol: driver.function(module, symbol)
            for symbol, module in zip(symbols, places, strict=True)
        }
        self._shared_bytes = dict.fromkeys(symbols, 0)

    def function(self, symbol: str, shared_bytes: int) -> int:
        """A kernel, whose blocks may have that much shared memory."""
        if shared_bytes > self._shared_bytes[symbol]:
            # Above 48 KiB the driver wants to be told; less does no harm.
            self._context.enter().allow_shared(self._functions[symbol], shared_bytes)
            self._shared_bytes[symbol] = shared_bytes
        return self._functions[symbol]


class CudaGraph:
    """Launches that were captured, with their arguments.

    Attributes
    ----------
    handle : the driver's.
    """

    def __init__(self, context: Context, handle: int) -> None:
        self.handle = handle
        weakref.finalize(self, _destroy, context, handle).atexit = False


def _unload(context: Context, modules: Sequence[int]) -> None:
    for module in modules:
        context.give_back(partial(Driver.unload_module, module=module))


def _destroy(context: Context, handle: int) -> None:
    context.give_back(partial(Driver.destroy_graph, graph=handle))
