"""The autotuner without devices: from the space of one layer's schedules to its best configuration.

`tuner` joins a `search` (files `exhaustive`, `random_search`, `genetic`, `annealing`, `guided`,
over the numbered `candidates` of a space) with a function that measures. `cost_model` guides
`annealing`; `transfer` guides `guided`: a model of all layers and variants, learned from their
`features`, which `samples` keeps. `database` keeps each `record` under its `workload`, in a
`sqlite_file`.
"""
