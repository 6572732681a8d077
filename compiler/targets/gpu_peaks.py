"""`GPU_PEAKS`: what data sheets say of GPUs, by architecture: the roofs of kernels."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["GPU_PEAKS", "GpuPeaks"]


@dataclass(frozen=True)
class GpuPeaks:
    """Rates that no kernel exceeds.

    Attributes
    ----------
    title : of the GPU that the figures are of; others of the architecture have other figures.
    bytes_per_second : of its memory.
    products_per_second : multiply-accumulates, by the dtype of their factors: float32 without
        tensor cores, others with them.
    """

    title: str
    bytes_per_second: float
    products_per_second: Mapping[str, float]

    def seconds(self, size_bytes: int, products: int, dtype: str) -> float:
        """The least time for so many bytes and products."""
        return max(size_bytes / self.bytes_per_second, products / self.products_per_second[dtype])


_A100 = GpuPeaks(
    "an A100 (40 GB, SXM)",
    1.555e12,
    {"float32": 9.75e12, "float16": 156e12, "bfloat16": 156e12, "int8": 312e12},
)
_H100 = GpuPeaks(
    "an H100 (SXM)",
    3.35e12,
    {"float32": 33.5e12, "float16": 494.7e12, "bfloat16": 494.7e12, "int8": 989.5e12},
)

GPU_PEAKS: dict[str, GpuPeaks] = {"sm_80": _A100, "sm_90": _H100, "sm_90a": _H100}
"""Sources: NVIDIA A100 Tensor Core GPU data sheet, 2020; NVIDIA H100 Tensor Core GPU data sheet,
2023. An operation there is a sum or a product, and figures with sparsity are halved."""
