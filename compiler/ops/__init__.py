"""The operator library: tensor expressions and schedules of the supported operators."""
