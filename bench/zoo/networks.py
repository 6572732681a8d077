"""The networks of the zoo by name, with their published sizes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from bench.zoo.images import images
from bench.zoo.light import light
from bench.zoo.mobilenet_v1 import mobilenet_v1
from bench.zoo.mobilenet_v2 import mobilenet_v2
from bench.zoo.resnet18 import resnet18
from bench.zoo.settle import settle

__all__ = ["NETWORKS", "Network"]

SEED = 6
SETTLING_IMAGES = 8


@dataclass(frozen=True)
class Network:
    """A float network of batch 1 on 224 x 224 images.

    `million_macs` and `million_weights` are what `source` says of it, biases and normalization not
    counted.
    """

    name: str
    title: str
    structure: Callable[[np.random.Generator], onnx.ModelProto]
    million_macs: float
    million_weights: float
    source: str

    def build(self) -> onnx.ModelProto:
        """The model with its weights; the same one every time."""
        rng = np.random.default_rng(SEED)
        model = self.structure(rng)
        return settle(model, images(rng, SETTLING_IMAGES))


_LIST = (
    Network("resnet18", "ResNet-18", resnet18, 1814, 11.69, "torchvision 0.20, model table"),
    Network(
        "resnet50",
        "ResNet-50",
        light("resnet50"),
        4089,
        25.56,
        "torchvision 0.20, model table; stage by stage the stride is in the 3x3 convolution",
    ),
    Network(
        "mobilenet_v1", "MobileNet v1", mobilenet_v1, 569, 4.2, "arXiv:1704.04861, tables 4 and 8"
    ),
    Network("mobilenet_v2", "MobileNet v2", mobilenet_v2, 300, 3.4, "arXiv:1801.04381, table 4"),
    Network(
        "squeezenet",
        "SqueezeNet",
        light("squeezenet"),
        349,
        1.235,
        "torchvision 0.20, model table, SqueezeNet 1.1",
    ),
    Network(
        "shufflenet",
        "ShuffleNet",
        light("shufflenet"),
        133,
        1.4,
        "arXiv:1707.01083, table 1, four groups; the weights are what its layers add up to",
    ),
    Network(
        "inception_v1",
        "Inception v1",
        light("inception_v1"),
        1502,
        6.99,
        "arXiv:1409.4842, table 1",
    ),
    Network(
        "densenet121",
        "DenseNet-121",
        light("densenet121"),
        2834,
        7.98,
        "torchvision 0.20, model table",
    ),
    Network("vgg19", "VGG-19", light("vgg19"), 19_632, 143.67, "torchvision 0.20, model table"),
    Network(
        "alexnet",
        "AlexNet",
        light("bvlc_alexnet"),
        724,
        61.0,
        "arXiv:1703.09039, table II; of images of 227 x 227",
    ),
)
NETWORKS = {network.name: network for network in _LIST}
"""By name, in the order in which they are shown."""
