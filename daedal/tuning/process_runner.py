"""`ProcessRunner`: measures configurations of one layer in child processes."""

from collections.abc import Sequence

from daedal.compiler.ops.space import Config
from daedal.tuning.layer_runner import checked
from daedal.tuning.layer_task import LayerTask
from daedal.tuning.runner import Result, cycles_of
from daedal.tuning.sandbox import Sandbox

__all__ = ["ProcessRunner"]


class ProcessRunner:
    """Measures configurations of the layer `task` in `sandbox`, which several runners may share."""

    def __init__(self, task: LayerTask, sandbox: Sandbox) -> None:
        self.task = task
        self.workload = task.workload
        self.limit_seconds = sandbox.timeout_seconds
        self._bytes = task.to_bytes()
        self._sandbox = sandbox

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """Cycles of each configuration. Raises TuningError as `cycles_of`."""
        return cycles_of(configs, self.results(configs))

    def results(self, configs: Sequence[Config]) -> list[Result]:
        """See `Runner`."""
        return [
            checked(self.task, self._sandbox.measure(self.task.key, self._bytes, config))
            for config in configs
        ]
