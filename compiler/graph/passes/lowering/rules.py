"""The rules of `lower_qdq`, by the float operator that becomes an integer one."""

from collections.abc import Mapping

from daedal.compiler.graph.passes.lowering import (
    concat_rule,
    elementwise_rules,
    hard_swish_rule,
    layer_rules,
    movement_rules,
    pooling_rules,
    row_rules,
)
from daedal.compiler.graph.passes.lowering.lowering_context import Rule

__all__ = ["RULES"]

RULES: Mapping[str, Rule] = {
    **concat_rule.RULES,
    **elementwise_rules.RULES,
    **hard_swish_rule.RULES,
    **layer_rules.RULES,
    **movement_rules.RULES,
    **pooling_rules.RULES,
    **row_rules.RULES,
}
