"""Graph passes: functions from graph to graph, one per file, in a folder per subject.

`compiler.pipeline` says in which order they run."""

from daedal.compiler.graph.passes.attention.align_heads import align_heads
from daedal.compiler.graph.passes.attention.align_matmul import align_matmul
from daedal.compiler.graph.passes.attention.append_to_maps import append_to_maps
from daedal.compiler.graph.passes.attention.appends_first import appends_first
from daedal.compiler.graph.passes.attention.feed_matmul_maps import feed_matmul_maps
from daedal.compiler.graph.passes.attention.join_images import join_images
from daedal.compiler.graph.passes.attention.split_projections import split_projections
from daedal.compiler.graph.passes.attention.turn_projections import turn_projections
from daedal.compiler.graph.passes.attention.ungroup_queries import ungroup_queries
from daedal.compiler.graph.passes.channels.align_channels import align_channels
from daedal.compiler.graph.passes.channels.diagonal_to_groups import diagonal_to_groups
from daedal.compiler.graph.passes.channels.feed_dense_maps import feed_dense_maps
from daedal.compiler.graph.passes.channels.fold_selections import fold_selections
from daedal.compiler.graph.passes.channels.join_columns import join_columns
from daedal.compiler.graph.passes.channels.shuffles_to_selections import shuffles_to_selections
from daedal.compiler.graph.passes.channels.split_joined_rows import split_joined_rows
from daedal.compiler.graph.passes.fusion.compose_tables import compose_tables
from daedal.compiler.graph.passes.fusion.exact_sums import exact_sums
from daedal.compiler.graph.passes.fusion.fold_factors import fold_factors
from daedal.compiler.graph.passes.fusion.fuse_lookups import fuse_lookups
from daedal.compiler.graph.passes.fusion.fuse_operators import fuse_operators
from daedal.compiler.graph.passes.fusion.hoist_lookups import hoist_lookups
from daedal.compiler.graph.passes.fusion.rescale_before_concat import rescale_before_concat
from daedal.compiler.graph.passes.layout.flatten_dense_to_conv import flatten_dense_to_conv
from daedal.compiler.graph.passes.layout.fold_padding import fold_padding
from daedal.compiler.graph.passes.layout.move_transposes import move_transposes
from daedal.compiler.graph.passes.layout.moves_to_views import moves_to_views
from daedal.compiler.graph.passes.layout.pads_first import pads_first
from daedal.compiler.graph.passes.layout.rewrite_first_layer import rewrite_first_layer
from daedal.compiler.graph.passes.layout.split_wide_weights import split_wide_weights
from daedal.compiler.graph.passes.layout.to_blocked import to_blocked
from daedal.compiler.graph.passes.layout.transposes_to_products import transposes_to_products
from daedal.compiler.graph.passes.layout.views_to_permutes import views_to_permutes
from daedal.compiler.graph.passes.lowering.lower_qdq import lower_qdq
from daedal.compiler.graph.passes.partition import Part, partition
from daedal.compiler.graph.passes.simplify.compute_used_parts import compute_used_parts
from daedal.compiler.graph.passes.simplify.cut_padding_taps import cut_padding_taps
from daedal.compiler.graph.passes.simplify.eliminate_common_subexpressions import (
    eliminate_common_subexpressions,
)
from daedal.compiler.graph.passes.simplify.eliminate_dead_code import eliminate_dead_code
from daedal.compiler.graph.passes.simplify.fold_batch_norm import fold_batch_norm
from daedal.compiler.graph.passes.simplify.fold_bias import fold_bias
from daedal.compiler.graph.passes.simplify.fold_constants import fold_constants
from daedal.compiler.graph.passes.simplify.simplify_reshapes import simplify_reshapes
from daedal.compiler.graph.passes.simplify.simplify_transposes import simplify_transposes

__all__ = [
    "Part",
    "align_channels",
    "align_heads",
    "align_matmul",
    "append_to_maps",
    "appends_first",
    "compose_tables",
    "compute_used_parts",
    "cut_padding_taps",
    "diagonal_to_groups",
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "exact_sums",
    "feed_dense_maps",
    "feed_matmul_maps",
    "flatten_dense_to_conv",
    "fold_batch_norm",
    "fold_bias",
    "fold_constants",
    "fold_factors",
    "fold_padding",
    "fold_selections",
    "fuse_lookups",
    "fuse_operators",
    "hoist_lookups",
    "join_columns",
    "join_images",
    "lower_qdq",
    "move_transposes",
    "moves_to_views",
    "pads_first",
    "partition",
    "rescale_before_concat",
    "rewrite_first_layer",
    "shuffles_to_selections",
    "simplify_reshapes",
    "simplify_transposes",
    "split_joined_rows",
    "split_projections",
    "split_wide_weights",
    "to_blocked",
    "transposes_to_products",
    "turn_projections",
    "ungroup_queries",
    "views_to_permutes",
]
