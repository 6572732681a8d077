"""The networks of the zoo as int8 QDQ models, made once and kept in `.daedal/zoo`."""

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

import daedal
from bench.zoo.images import images
from bench.zoo.networks import Network
from daedal.common.files import make_folder, write_atomically

__all__ = ["quantized"]

ROOT = Path(__file__).resolve().parents[2]
RECIPE = (ROOT / "bench" / "zoo", ROOT / "compiler" / "quantization")
"""Sources on which the models depend."""
TOOLS = ("numpy", "onnx", "onnxruntime")
CALIBRATION_SEED = 7
CALIBRATION_IMAGES = 4


def quantized(
    network: Network,
    folder: Path = ROOT / ".daedal" / "zoo",
    report: Callable[[str], None] = lambda _sentence: None,
) -> bytes:
    """The serialized model, calibrated with a few seeded images.

    It is read from `folder` where the same recipe has made it before.
    """
    path = folder / f"{network.name}-{_recipe()}.onnx"
    if path.is_file():
        return path.read_bytes()
    report(f"building and quantizing {network.title}")
    samples = images(np.random.default_rng(CALIBRATION_SEED), CALIBRATION_IMAGES)
    data = daedal.quantize(network.build().SerializeToString(), samples)
    make_folder(folder)
    write_atomically(path, data)
    return data


def _recipe() -> str:
    """A name for everything that the models depend on."""
    digest = hashlib.sha256()
    for folder in RECIPE:
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    for tool in TOOLS:
        digest.update(f"{tool} {version(tool)}".encode())
    return digest.hexdigest()[:16]
