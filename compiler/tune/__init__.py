"""The autotuner without devices: from the space of one layer's schedules to its best configuration.

A `search` over the numbered `candidates` of a space proposes what `daedal.tuning` measures. It is
`guided`, by what all layers and variants taught (`transfer`) and a `surrogate` of its own layer.
`cost_model` has models of `features`, which `samples` keeps. `database` keeps each `record` under
its `workload`, in a `sqlite_file`.
"""
