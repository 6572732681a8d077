"""Machine code of the host's parts against ONNX's reference evaluator, part by part."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from daedal.artifact.artifact import Artifact
from daedal.devices import open_device
from daedal.runtime.executor import Executor
from daedal.runtime.host import HostModel
from daedal.runtime.host_code import HostProgram, code_to_run
from daedal.runtime.host_parts import CompiledPart

__all__ = ["check_host_code"]


def check_host_code(artifact: Artifact, inputs: Mapping[str, npt.ArrayLike]) -> int:
    """Run an artifact; each part must give what the evaluator gives for the values that it read.

    Floats may differ in their last places, and quantized values by one unit. Returns the number of
    parts that were compared.
    """
    device = open_device("functional", artifact.variant) if artifact.launches else None
    values = Executor(artifact, device).run(inputs).values
    compared = 0
    for number, part in enumerate(artifact.host_parts):
        code = code_to_run(part.codes)
        if code is None:
            continue
        what = f"host part {number}"
        found = CompiledPart(part, HostProgram(code), what).run(values)
        for name, expected in HostModel(part.model, what).run(values).items():
            assert found[name].dtype == expected.dtype and found[name].shape == expected.shape, name
            if expected.dtype in (np.int8, np.uint8):
                off = np.abs(found[name].astype(np.int64) - expected)
                assert off.max(initial=0) <= 1, (name, off.max())
            else:
                np.testing.assert_allclose(found[name], expected, 1e-5, 1e-6, err_msg=name)
        compared += 1
    return compared
