"""`BlockedNetwork`: a few operators on blocked arrays, linked into one program."""

from typing import Any

import numpy as np

from daedal.compiler import te
from daedal.compiler.codegen.accelerator import emit_segment
from daedal.compiler.link import LinkedProgram, link
from daedal.compiler.link.constants import parameter_bytes, weight_bytes
from tests.support.accelerator import spec_of
from tests.support.accelerator_operators import Case

__all__ = ["BlockedNetwork"]


class BlockedNetwork:
    """Layers in their order, each with the tensor of every parameter that is not a constant.

    The network's input is tensor "x", its output is "y".
    """

    def __init__(self, *layers: tuple[Case, dict[str, str]]) -> None:
        self.layers = layers
        first, _ = layers[0]
        self.variant = first.variant
        self.x = first.arrays["x"]

    def reference(self) -> np.ndarray:
        """The output by the tensor expressions alone."""
        values = {"x": self.x}
        for case, names in self.layers:
            arrays = dict(case.arrays)
            for parameter, tensor in names.items():
                if parameter != "y":
                    arrays[parameter] = values[tensor]
            (values[names["y"]],) = te.evaluate_tensors([case.y], arrays)
        return values["y"]

    def link(self, **options: Any) -> LinkedProgram:
        """The program of all layers; `options` are those of `link`."""
        constants, segments = {}, []
        for number, (case, names) in enumerate(self.layers):
            own = dict(names)
            for parameter, encode in (("w", weight_bytes), ("params", parameter_bytes)):
                if parameter in case.arrays:
                    own[parameter] = f"{parameter}{number}"
                    constants[own[parameter]] = encode(self.variant, case.arrays[parameter])
            segments.append(emit_segment(case.schedule.func, self.variant, own, f"layer {number}"))
        output = spec_of("y", self.layers[-1][0].y.shape)
        return link(
            segments,
            self.variant,
            constants=constants,
            inputs=[spec_of("x", self.x.shape)],
            outputs=[output],
            **options,
        )
