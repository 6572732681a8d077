"""Attributes of ONNX nodes, with defaults."""

from typing import Any

import onnx
from onnx import helper

__all__ = ["attribute", "drop_attributes"]


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Value of an attribute, or `default` if it is absent."""
    for item in node.attribute:
        if item.name == name:
            return helper.get_attribute_value(item)
    return default


def drop_attributes(node: onnx.NodeProto, *names: str) -> None:
    """Remove attributes, so that they have their defaults."""
    kept = [item for item in node.attribute if item.name not in names]
    node.ClearField("attribute")
    node.attribute.extend(kept)
