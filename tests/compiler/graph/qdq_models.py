"""Lowers small models for the tests, and draws their inputs."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, verify
from daedal.compiler.graph.passes import (
    eliminate_dead_code,
    flatten_dense_to_conv,
    fold_batch_norm,
    fold_bias,
    fold_constants,
    lower_qdq,
    simplify_reshapes,
)

__all__ = ["lower", "passes", "random_inputs"]

Array = npt.NDArray[Any]

MULTIPLIER_BITS = 17


def passes(
    graph: Graph,
    multiplier_bits: int = MULTIPLIER_BITS,
    tables: bool = False,
    rows: bool = False,
) -> Graph:
    """Every pass up to the plain integer graph, verified after each."""
    for transform in (
        fold_constants,
        simplify_reshapes,
        eliminate_dead_code,
        fold_bias,
        fold_batch_norm,
        lambda g: lower_qdq(
            g, multiplier_bits=multiplier_bits, tables=tables, rows=rows, wide=rows
        ),
        eliminate_dead_code,
        flatten_dense_to_conv,
        simplify_reshapes,
        eliminate_dead_code,
    ):
        graph = transform(graph)
        verify(graph)
    return graph


def lower(
    model: onnx.ModelProto,
    multiplier_bits: int = MULTIPLIER_BITS,
    tables: bool = False,
    rows: bool = False,
) -> Graph:
    """Import a model and lower it to a plain integer graph."""
    graph = load_onnx(model.SerializeToString())
    verify(graph)
    return passes(graph, multiplier_bits, tables, rows)


def random_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    return {
        name: rng.uniform(0, 1, graph.types[name].shape).astype(np.float32) for name in graph.inputs
    }
