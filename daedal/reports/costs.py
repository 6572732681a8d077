"""What is slow by construction: a few lines for a compiled model, and plain data."""

from collections.abc import Sequence
from typing import Any

from daedal.artifact.artifact import Artifact, Binding, Cost, Layer

__all__ = ["cost_lines", "costs_json", "crossing_bytes"]

_HEADS = {
    "depthwise": "depthwise convolutions",
    "groups": "groups narrower than a block",
    "image": "few channels of an image",
    "lanes": "channels that do not fill blocks",
    "moves": "layers that only move or rescale elements",
    "weights": "weights beyond int8",
}
_SMALLEST_SHARE = 0.01
"""Of all estimated cycles; smaller kinds are in the JSON only."""


def cost_lines(artifact: Artifact) -> list[str]:
    """One sentence for each kind of cost that matters, the largest first, and one for the crossings
    between host and accelerator in the middle of the model."""
    by_kind: dict[str, list[tuple[Layer, Cost]]] = {}
    for layer in artifact.layers:
        for cost in layer.costs:
            by_kind.setdefault(cost.kind, []).append((layer, cost))
    totals = {kind: sum(cost.cycles for _, cost in found) for kind, found in by_kind.items()}
    least = _SMALLEST_SHARE * (_roofline(artifact) + sum(totals.values()))
    kinds = sorted(
        (kind for kind in totals if totals[kind] >= least), key=lambda kind: -totals[kind]
    )
    lines = [_sentence(_HEADS[kind], totals[kind], by_kind[kind]) for kind in kinds]
    crossing = crossing_bytes(artifact)
    if crossing:
        count = len(artifact.launches)
        lines.append(
            f"slow by construction: {count} launches exchange {crossing:,} bytes with the host in "
            "the middle of the model, and wait for it"
        )
    return lines


def costs_json(artifact: Artifact) -> list[dict[str, Any]]:
    """Every cost of every layer, the largest first."""
    found = [
        {
            "layer": layer.name,
            "output": layer.output,
            "kind": cost.kind,
            "cycles": cost.cycles,
            "text": cost.text,
        }
        for layer in artifact.layers
        for cost in layer.costs
    ]
    return sorted(found, key=lambda item: -int(item["cycles"]))


def crossing_bytes(artifact: Artifact) -> int:
    """Bytes that launches but the last pass to the host, and launches but the first take from it,
    without inputs and outputs of the model."""
    ends = {item.name for item in (*artifact.inputs, *artifact.outputs)}
    bindings: list[Binding] = []
    for before, after in zip(artifact.launches, artifact.launches[1:], strict=False):
        bindings += [*before.outputs, *after.inputs]
    return sum(_size(item) for item in bindings if item.name not in ends)


def _size(item: Binding) -> int:
    size = 1
    for extent in item.shape:
        size *= extent
    return size


def _roofline(artifact: Artifact) -> float:
    """Cycles of all layers at the rates of array and bus; 0 without an accelerator."""
    if not artifact.launches:
        return 0
    variant = artifact.variant
    return sum(
        max(item.needed_macs / variant.macs_per_cycle, item.bytes_once / variant.bus_bytes)
        for item in artifact.layers
    )


def _sentence(head: str, cycles: int, found: Sequence[tuple[Layer, Cost]]) -> str:
    layer, cost = max(found, key=lambda item: item[1].cycles)
    where = (
        f"in {layer.name!r}"
        if len(found) == 1
        else f"in {len(found)} layers, most in {layer.name!r}"
    )
    return f"slow by construction: {head} cost about {cycles:,} cycles {where}: {cost.text}"
