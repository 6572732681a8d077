"""Quantization on one page: a float ONNX model and samples become an int8 QDQ model.

model -> graph -> normalize -> fold_affine -> hoist_bounds -> plan -> calibrate -> insert -> model.
Of a transformer, tokens, attention with its masks, and a decoder's caches are normalized, too, and
residual streams lose their mean.
"""

from collections.abc import Callable, Collection

import numpy as np
import onnx

from daedal.common.errors import ModelError
from daedal.common.reporting import log
from daedal.compiler.frontend.node import element_type_name
from daedal.compiler.frontend.reader import Source, read_model, source_of
from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.calibration.calibrate import calibrate
from daedal.compiler.quantization.calibration.float_runner import OpenModel, evaluate
from daedal.compiler.quantization.calibration.ranges import Method, Range
from daedal.compiler.quantization.calibration.samples import Samples, split_samples
from daedal.compiler.quantization.dead_tensors import fit_dead_tensors
from daedal.compiler.quantization.exclusion import excluded_names, excluded_results
from daedal.compiler.quantization.float_model import read_float_model, simplified
from daedal.compiler.quantization.given import spread_given
from daedal.compiler.quantization.insert import insert_qdq, narrow_quantization
from daedal.compiler.quantization.int4_weights import store_int4
from daedal.compiler.quantization.layer_errors import LayerError, layer_errors
from daedal.compiler.quantization.masks import bound_attention_masks, bound_masks
from daedal.compiler.quantization.narrow_layers import WEIGHT_ERROR, LayerWeights, narrow_layers
from daedal.compiler.quantization.plan import Plan, make_plan
from daedal.compiler.quantization.rewrites.attention import normalize_attention
from daedal.compiler.quantization.rewrites.balance import balance_norms
from daedal.compiler.quantization.rewrites.caches import align_caches
from daedal.compiler.quantization.rewrites.centre_streams import centre_streams
from daedal.compiler.quantization.rewrites.factors import move_factors
from daedal.compiler.quantization.rewrites.finite import bound_constants
from daedal.compiler.quantization.rewrites.fold_affine import fold_affine
from daedal.compiler.quantization.rewrites.grouped_queries import group_queries
from daedal.compiler.quantization.rewrites.hoist_bounds import hoist_bounds
from daedal.compiler.quantization.rewrites.join_masks import join_masks
from daedal.compiler.quantization.rewrites.joined_slices import turn_joined_slices
from daedal.compiler.quantization.rewrites.normalize import flatten_rows, normalize
from daedal.compiler.quantization.rewrites.rotary import multiply_rotations
from daedal.compiler.quantization.rewrites.rotations import (
    multiply_turned,
    rotate_heads_first,
    widen_rotations,
)
from daedal.compiler.quantization.rewrites.tokens import pad_tokens
from daedal.compiler.quantization.rewrites.turn_once import turn_once
from daedal.compiler.quantization.streams import find_streams
from daedal.compiler.quantization.transformer import is_transformer

__all__ = ["quantize_model"]

_PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")

Rewrite = Callable[[Graph], Graph]

_REWRITES: tuple[Rewrite, ...] = (
    bound_constants,
    turn_joined_slices,
    normalize,
    move_factors,
    fold_affine,
)

_OF_TRANSFORMERS: tuple[Rewrite, ...] = (
    turn_once,
    pad_tokens,
    multiply_turned,
    widen_rotations,
    rotate_heads_first,
    multiply_rotations,
    join_masks,
    normalize_attention,
    group_queries,
    align_caches,
    spread_given,
    centre_streams,
)


def quantize_model(
    source: Source,
    samples: Samples,
    *,
    method: str = Method.MSE,
    fuse_attention: bool = True,
    open_model: OpenModel = evaluate,
    report: Callable[[str], None] | None = None,
    errors: Callable[[list[LayerError]], None] | None = None,
    weights: str = "int8",
    weight_error: float = WEIGHT_ERROR,
    layers: Callable[[list[LayerWeights]], None] | None = None,
    exclude: Collection[str] = (),
) -> onnx.ModelProto:
    """Quantize a float32 model to int8, QDQ.

    Activations are asymmetric per tensor, weights symmetric per output channel, biases int32 in
    steps of their accumulator. Of a transformer, residual streams and outputs have 16 bits,
    symmetric, and nothing is quantized between the products of attention. A symbolic batch becomes
    1; older opsets become 21.

    Parameters
    ----------
    samples : representative inputs, along axis 0: an array, or arrays by input name.
    method : how ranges follow from the observed values: ``minmax``, ``percentile`` or ``mse``.
    fuse_attention : whether nothing is quantized between the products of attention. Variants
        without lane reductions then leave these products to the host; else, scores are quantized to
        16 bits and probabilities to 8.
    open_model : how a model is run on the samples.
    report : called with a sentence before each long step.
    errors : called with how much quantization changes each tensor, which some samples show.
    weights : ``int4``: as many as change the model's outputs by at most `weight_error` (root of
        mean squares, as a share of their deviation) have 4 bits, the others 8 (`narrow_layers`).
    layers : called with the layers with weights, if these may have 4 bits.
    exclude : nodes of the model that stay in float, by name or by result.

    Raises
    ------
    ModelError
        For a model that cannot be read, is quantized already or has nothing to quantize, samples
        that do not fit, nodes to exclude that it does not have, and weights or activations that
        are not finite.
    """
    say = report or log
    chosen = _method(method)
    _check_weight_bits(weights, weight_error)
    say("reading the model")
    given = read_model(source_of(source))
    _check_float(given)
    names = excluded_names(given, exclude)
    model = read_float_model(given)
    feeds = split_samples(model.graph, samples)
    say("simplifying the model")
    model = model.with_graph(simplified(model.graph))
    wide = is_transformer(model.graph)
    with np.errstate(over="ignore"):  # the calibration refuses tensors that become infinite
        for rewrite in (*_REWRITES, *(_OF_TRANSFORMERS if wide else ()), hoist_bounds):
            model = model.with_graph(simplified(rewrite(model.graph)))
    if wide:
        model = balance_norms(model, feeds, open_model)
    model = model.with_graph(flatten_rows(model.graph))
    excluded = excluded_results(model.graph, names)
    plan = make_plan(model.graph, wide=wide, fuses=fuse_attention, excluded=excluded)
    say(f"calibrating {len(plan.groups)} tensors with {len(feeds)} samples")
    scores = [item.scores for item in plan.attentions if item.mask in plan.groups]
    whole = [*(name for name in plan.groups if plan.is_wide(name)), *scores]
    ranges = calibrate(model, (*plan.groups, *scores), feeds, chosen, whole, open_model)
    bound_masks(model.graph, plan, ranges)
    bound_attention_masks(plan, ranges)
    say("quantizing")
    streams = find_streams(model.graph, plan, ranges)
    fitted = fit_dead_tensors(model.graph, plan, _joined(plan, ranges))
    narrow: list[LayerWeights] = []
    if weights == "int4":
        say("rounding weights to 4 bits")
        narrow = narrow_layers(
            model,
            plan,
            feeds,
            weight_error,
            open_model,
            lambda name: narrow_quantization(plan, fitted, name)[0],
        )
    rounded = {item.tensor: item.narrow for item in narrow if item.narrow is not None}
    quantized = model.with_graph(insert_qdq(model.graph, plan, fitted, streams, rounded))
    if errors:
        say("comparing the layers")
        errors(layer_errors(model, quantized, feeds, open_model))
    if layers and weights == "int4":
        layers(narrow)
    result = quantized.to_onnx()
    if weights == "int4":
        store_int4(result)
    return result


def _method(name: str) -> Method:
    try:
        return Method(name)
    except ValueError as error:
        raise ModelError(
            f"a calibration must go by one of {', '.join(Method)}, not {name!r}"
        ) from error


def _check_weight_bits(weights: str, error: float) -> None:
    if weights not in ("int8", "int4"):
        raise ModelError(f"weights must be int8 or int4, not {weights!r}")
    if not 0 < error <= 1:
        raise ModelError(
            f"the limit of what 4 bits change must be a share above 0 and up to 1, not {error}"
        )


def _check_float(model: onnx.ModelProto) -> None:
    """Raise ModelError for a model that is quantized, has control flow or another type of reals."""
    subgraphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    for node in model.graph.node:
        if "QuantizeLinear" in node.op_type or node.op_type.startswith("QLinear"):
            raise ModelError(
                "a model must be in float to be quantized, and this one is quantized already "
                f"(node {node.name!r}, operator {node.op_type}); compile it as it is"
            )
        if any(attribute.type in subgraphs for attribute in node.attribute):
            raise ModelError(
                f"a model must have no control flow to be quantized (node {node.name!r}, operator "
                f"{node.op_type}); quantize its parts"
            )
    for item in model.graph.input:
        _, *dims = item.type.tensor_type.shape.dim or [None]
        if any(not dim.HasField("dim_value") for dim in dims):
            raise ModelError(
                f"shapes must be static except for the batch, but input {item.name!r} has symbolic "
                "dimensions; fix them with onnx.tools.update_model_dims"
            )
    _check_weights(model.graph)


def _check_weights(graph: onnx.GraphProto) -> None:
    """Raise ModelError where products have weights of another type than float32."""
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type in _PRODUCTS]
    found = {kinds[name] for node in products for name in node.input[1:2] if name in kinds}
    if not products or found <= {onnx.TensorProto.FLOAT} or onnx.TensorProto.FLOAT in found:
        return
    operators = ", ".join(sorted({node.op_type for node in products}))
    raise ModelError(
        f"a model must be in float32 to be quantized, and {graph.name!r} computes its "
        f"{len(products)} products ({operators}) in "
        f"{', '.join(sorted(map(element_type_name, found)))}; export it in float32"
    )


def _joined(plan: Plan, ranges: dict[str, Range]) -> dict[str, Range]:
    """One range for all tensors that share a scale, by their representative."""
    joined: dict[str, Range] = {}
    for name, group in plan.groups.items():
        joined[group] = ranges[name].join(joined.get(group, ranges[name]))
    return joined
