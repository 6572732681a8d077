"""Layer checks: what is right passes, and the layer that is wrong is the one that is named."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, Launch, Move
from daedal.checking.integer_reference import run_onnxruntime
from daedal.checking.layer_check import LayerCheck, check_layers
from daedal.common.errors import ArtifactError, ModelError
from daedal.compiler.frontend import load_onnx
from daedal.isa.instruction import Instruction
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.table import AluOp, LoadMemory, Opcode
from daedal.runtime.layers import layer_tags
from daedal.sim.functional.device import FunctionalDevice
from examples.digits.data import demo_images
from tests.support.small_networks import branches, island
from tests.support.transformers import attention_block, token_feeds

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"
LAYERS = ["conv0_q", "conv1_q", "add0_q", "maxpool0_q", "conv3_q", "avgpool0_q", "fc0_q"]


@pytest.fixture(scope="module", params=["tiny", "vta"])
def artifact(request: pytest.FixtureRequest) -> Artifact:
    return daedal.compile(DIGITS, request.param)


def checked(artifact: Artifact, count: int = 2) -> LayerCheck:
    return check_layers(artifact, DIGITS, {"input": demo_images(count)[0]})


def with_program(artifact: Artifact, change: Callable[[Program], Program]) -> Artifact:
    """The artifact with another program in its only launch."""
    parts = (
        replace(part, program=change(part.program)) if isinstance(part, Launch) else part
        for part in artifact.parts
    )
    return replace(artifact, parts=tuple(parts))


def test_every_layer_is_compared(artifact: Artifact) -> None:
    check = checked(artifact, 3)
    assert check.passed and check.first_difference is None
    assert [item.tensor for item in check.tensors] == ["input_q", *LAYERS]
    assert [item.layer is None for item in check.tensors] == [True, *[False] * len(LAYERS)]
    for item in check.tensors:
        assert item.difference is not None and item.difference.shape[0] == 3
        assert item.difference.num_different == 0
    images, labels = demo_images(3)
    expected = daedal.simulate(artifact, {"input": images})
    assert check.result.outputs["probabilities"].argmax(axis=1).tolist() == labels.tolist()
    np.testing.assert_array_equal(
        check.result.outputs["probabilities"], expected.outputs["probabilities"]
    )


def weights_read(program: Program, tag: int) -> Sequence[Instruction]:
    return [
        item
        for item, layer in zip(program.instructions, layer_tags(program), strict=True)
        if layer == tag and item.opcode is Opcode.LOAD and LoadMemory(item.memory) is LoadMemory.WGT
    ]


@pytest.mark.parametrize("wrong", ["conv0_q", "conv1_q", "add0_q", "conv3_q", "fc0_q"])
def test_a_wrong_weight(artifact: Artifact, wrong: str) -> None:
    tag = LAYERS.index(wrong)

    def change(program: Program) -> Program:
        (first, *_) = weights_read(program, tag)
        constants = bytearray(program.constants)
        at = first.offset_beats * program.variant.bus_bytes
        # The first channel's weights for its first input: a whole row, so that some pixel shows it.
        for k in range(program.variant.array.block_in):
            constants[at + k] ^= 0x80
        return replace(program, constants=bytes(constants))

    check = checked(with_program(artifact, change))
    first = check.first_difference
    assert first is not None and not check.passed and not check.overwritten
    assert first.layer is not None and (first.tensor, first.layer.tag) == (wrong, tag)
    assert first.difference is not None and first.difference.places[1] == (0,)


@pytest.mark.parametrize("wrong", ["conv1_q", "add0_q", "conv3_q", "fc0_q"])
def test_a_wrong_instruction(artifact: Artifact, wrong: str) -> None:
    """A requantization that gives nothing but the largest number."""
    tag = LAYERS.index(wrong)

    def change(program: Program) -> Program:
        items = list(program.instructions)
        tags = layer_tags(program)
        number = next(
            k
            for k, item in enumerate(items)
            if tags[k] == tag
            and item.opcode is Opcode.ALU
            and AluOp(item.operation) is AluOp.REQUANTIZE
        )
        items[number] = items[number].replace(low=items[number].high)
        return replace(program, instructions=tuple(items))

    check = checked(with_program(artifact, change))
    first = check.first_difference
    assert first is not None and first.tensor == wrong
    for item in check.tensors[: check.tensors.index(first)]:
        assert item.difference is not None and item.difference.num_different == 0


def test_a_wrong_memory_plan(artifact: Artifact) -> None:
    """conv1_q lies where conv0_q still does: what reads conv0_q is wrong."""
    launch = artifact.launches[0]
    first, second = (launch.layers[tag].result for tag in (0, 1))
    assert first is not None and second is not None
    distance = (first.spec.offset_bytes - second.spec.offset_bytes) // artifact.variant.bus_bytes

    def change(program: Program) -> Program:
        tags = layer_tags(program)
        items = [
            item.replace(offset_beats=item.offset_beats + distance)
            if tags[k] == 1 and item.opcode is Opcode.STORE
            else item
            for k, item in enumerate(program.instructions)
        ]
        return replace(program, instructions=tuple(items))

    broken = with_program(artifact, change)
    layers = list(launch.layers)
    moved = replace(second.spec, offset_bytes=first.spec.offset_bytes)
    layers[1] = replace(layers[1], result=replace(second, spec=moved))
    check = checked(replace(broken, parts=tuple(_with_layers(x, layers) for x in broken.parts)))
    assert check.first_difference is not None
    # Tiles of conv1_q are stored before the last of conv0_q was loaded.
    assert check.first_difference.tensor == "conv1_q"


def _with_layers(part: object, layers: list) -> object:
    return replace(part, layers=tuple(layers)) if isinstance(part, Launch) else part


class Hurried(FunctionalDevice):
    """Writes over a byte of the output, but not where the workspace is larger than usual."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact.variant)
        self._usual = artifact.program.region_bytes

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        profile = super().launch(program, bases)
        if program.region_bytes == self._usual:
            address = bases[2] + program.outputs[0].offset_bytes
            self.write(address, bytes([self.read(address, 1)[0] ^ 1]))
        return profile


def test_tensors_that_are_written_over_too_early(artifact: Artifact) -> None:
    images, _ = demo_images(2)
    check = check_layers(artifact, DIGITS, {"input": images}, device=Hurried(artifact))
    assert check.first_difference is None and not check.passed
    ((name, difference),) = check.overwritten
    assert (name, difference.num_different, difference.largest) == ("fc0_q", 2, 1)
    assert difference.places == ((0, 1), (0,), (0,), (0,))


def test_a_part_of_the_model() -> None:
    """From a quantized tensor on, which the model holds in int8."""
    artifact = daedal.compile(DIGITS, "tiny", from_tensors=["conv1_q", "conv0_q"])
    whole = daedal.simulate(
        daedal.compile(DIGITS, "tiny", to_tensors=["conv0_q", "conv1_q"]),
        {"input": demo_images(2)[0]},
    )
    inputs = {item.name: whole.outputs[item.name] for item in artifact.inputs}
    check = check_layers(artifact, DIGITS, inputs)
    assert check.passed
    assert [item.tensor for item in check.tensors] == LAYERS[2:]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_launches_with_the_host_between_them(rng: np.random.Generator, dtype: str) -> None:
    """The second launch is judged by what it was given; the host may be 1 from the reference."""
    model = island(rng, dtype).SerializeToString()
    artifact = daedal.compile(model, "tiny", host=None)
    assert len(artifact.launches) == 2
    inputs = {"x": rng.normal(size=(3, 16, 12, 12)).astype(np.float32) * 3}
    check = check_layers(artifact, model, inputs)
    assert check.passed
    assert [(item.launch, item.tensor) for item in check.tensors if item.layer is None] == [
        (0, "x_q"),
        (1, "first_Sigmoid_q"),
    ]
    assert {item.launch for item in check.tensors if item.layer is not None} == {0, 1}
    assert all(item.difference is not None for item in check.tensors)


@pytest.mark.parametrize("channels", [(16, 32, 16), (5, 7, 20)], ids=["views", "copies"])
@pytest.mark.parametrize("variant", ["tiny", "batch4"])
def test_branches_that_are_joined(
    rng: np.random.Generator, channels: tuple[int, ...], variant: str
) -> None:
    """Whole blocks of channels are joined where they lie, and stay there together."""
    model = branches(rng, *channels).SerializeToString()
    artifact = daedal.compile(model, variant)
    inputs = {"x": rng.normal(size=(2, 16, 8, 8)).astype(np.float32) * 3}
    check = check_layers(artifact, model, inputs)
    assert check.passed
    names = ["x_q", "stem_q", "branch0_q", "branch1_q", "branch2_q"]
    copied = ["joined_q"] if channels[0] % artifact.variant.block else []
    assert [item.tensor for item in check.tensors] == [*names, *copied, "last_q"]
    assert all(item.difference is not None for item in check.tensors)


def test_results_that_the_model_does_not_have(rng: np.random.Generator) -> None:
    """Padded keys, values that are computed turned, and the one token of the last layers that the
    classifier reads: each is compared with the model's tensor that contains it, or is in it."""
    feeds = token_feeds(rng, 20, 8)
    samples = {"x": np.concatenate([feed["x"] for feed in feeds])}
    model = daedal.quantize(attention_block(rng, 20).SerializeToString(), samples)
    artifact = daedal.compile(model, "attention", host=None)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    check = check_layers(artifact, model, {"x": samples["x"][:3]})
    assert check.passed
    assert all(item.difference is not None for item in check.tensors)
    others = [layer.result.counterpart for layer in artifact.layers if layer.result is not None]
    known = [item for item in others if item is not None]
    assert any(item.box for item in known)
    assert any(move.box for item in known for move in item.moves)
    # A wrong one is found: the last of these layers gives nothing but its largest number.
    wrong = max(
        layer.tag
        for layer in artifact.launches[0].layers
        if layer.result is not None and layer.result.counterpart is not None
    )

    def change(program: Program) -> Program:
        items = list(program.instructions)
        for number, (item, tag) in enumerate(zip(items, layer_tags(program), strict=True)):
            requantizes = item.opcode is Opcode.ALU and AluOp(item.operation).requantizes
            if tag == wrong and requantizes:
                items[number] = item.replace(low=item.high)
        return replace(program, instructions=tuple(items))

    first = artifact.launches[0]
    changed = replace(first, program=change(first.program))
    parts = tuple(changed if part is first else part for part in artifact.parts)
    found = check_layers(replace(artifact, parts=parts), model, {"x": samples["x"][:1]})
    assert found.first_difference is not None
    assert found.first_difference.layer is not None and found.first_difference.layer.tag == wrong


@pytest.mark.parametrize(
    "wrong",
    [
        {"box": ((0, 1), (0, 1), (0, 5))},
        {"box": ((0, 1),) * 7},
        {"moves": (Move((7, 11), (1, 0)),)},
        {"moves": (Move((1, 20), (0, 1), ((0, 1), (0, 1), (0, 1))),)},
    ],
)
def test_a_counterpart_that_cannot_be(rng: np.random.Generator, wrong: dict[str, object]) -> None:
    samples = {"x": np.concatenate([feed["x"] for feed in token_feeds(rng, 20, 8)])}
    model = daedal.quantize(attention_block(rng, 20).SerializeToString(), samples)
    artifact = daedal.compile(model, "attention", host=None)
    changed = False
    parts = []
    for part in artifact.parts:
        if isinstance(part, Launch):
            layers = []
            for layer in part.layers:
                known = layer.result and layer.result.counterpart
                if layer.result and known:
                    other = replace(known, **wrong)
                    layer = replace(layer, result=replace(layer.result, counterpart=other))
                    changed = True
                layers.append(layer)
            part = replace(part, layers=tuple(layers))
        parts.append(part)
    assert changed
    with pytest.raises(ArtifactError, match="compile the model again"):
        check_layers(replace(artifact, parts=tuple(parts)), model, {"x": samples["x"][:1]})


def test_operands_of_a_concat(rng: np.random.Generator) -> None:
    """One is brought to the scale of the result; two are in two results, so they are copied."""
    it = QdqModel(13)
    x = it.requantized(it.input("x", (1, 32, 6, 6)), 0.1, 3)
    a, b = (it.requantized(it.op("LeakyRelu", x, alpha=k), 0.1, 3) for k in (0.5, 0.25))
    c = it.requantized(it.op("LeakyRelu", x, alpha=0.75), 0.2, -4)
    joined = it.requantized(it.op("Concat", a, b, c, axis=1), 0.1, 3)
    other = it.requantized(it.op("Concat", b, a, axis=1), 0.1, 3)
    y = it.op("GlobalAveragePool", joined), it.op("GlobalAveragePool", other)
    ends = [it.requantized(name, 0.1, 3) for name in y]
    z = it.requantized(it.op("Concat", *ends, axis=1), 0.1, 3)
    model = it.model(z).SerializeToString()
    artifact = daedal.compile(model, "tiny", host=None)
    check = check_layers(artifact, model, {"x": rng.normal(size=(2, 32, 6, 6)) * 5})
    assert check.passed
    assert all(item.difference is not None for item in check.tensors)
    known = [layer.result.counterpart for layer in artifact.layers if layer.result is not None]
    assert any(item is not None for item in known)


def test_blocks_of_rows_that_are_copied(rng: np.random.Generator) -> None:
    """Operands of a concat along rows have several blocks of channels, of which each is copied."""
    it = QdqModel(13)
    x = it.requantized(it.input("x", (1, 20, 3, 4)), 0.1, 3)
    y = it.requantized(it.op("LeakyRelu", x, alpha=0.5), 0.1, 3)
    joined = it.requantized(it.op("Concat", x, y, axis=2), 0.1, 3)
    last = it.requantized(it.op("LeakyRelu", joined, alpha=0.25), 0.1, 3)
    model = it.model(last).SerializeToString()
    artifact = daedal.compile(model, "tiny", host=None)
    check = check_layers(artifact, model, {"x": rng.normal(size=(1, 20, 3, 4)) * 5})
    assert check.passed
    assert all(item.difference is not None for item in check.tensors)
    known = [layer.result.counterpart for layer in artifact.layers if layer.result is not None]
    names = ["quantizelinear3", "quantizelinear10"]
    copies = [(item.name, item.box[1]) for item in known if item is not None]
    assert copies == [(name, box) for box in ((0, 8), (8, 16), (16, 20)) for name in names]


def test_what_host_and_accelerator_both_compute() -> None:
    """A scale that is larger by 127.5 / 127 changes no integer on the accelerator, and some in
    floating point, in which the host computes the tensor for its own operators."""
    it = QdqModel(13)
    x = it.requantized(it.input("x", (1, 16, 4, 7)), 0.015686275, 0)
    turned = it.requantized(it.op("Transpose", x, perm=[0, 1, 3, 2]), 0.015624761, 0)
    wave = it.requantized(it.op("Sin", turned), 0.015624761, 0)
    y = it.requantized(it.op("Concat", wave, turned, axis=1), 0.02, 0)
    model = it.model(y).SerializeToString()
    artifact = daedal.compile(model, "tiny", host=None)
    values = np.linspace(-2.1, 2.1, 448).reshape(1, 16, 4, 7)
    assert check_layers(artifact, model, {"x": values}).passed


@pytest.mark.parametrize("heads", [16, 6])
def test_products_of_heads_whose_scale_changes(heads: int, rng: np.random.Generator) -> None:
    """A row of each head moves to the pixels of a concat without work: in memory, and in the
    order of bytes alone."""
    it = QdqModel(13)
    shapes = {"x": (1, heads, 1, 8), "w": (1, heads, 8, 8)}
    x, w = (it.requantized(it.input(name, shape), 0.02, 0) for name, shape in shapes.items())
    y = it.requantized(it.op("MatMul", x, w), 0.03, 0)
    joined = it.requantized(it.op("Concat", y, y, axis=1), 0.02, 0)
    model = it.model(joined).SerializeToString()
    artifact = daedal.compile(model, "vta", host=None)
    check = check_layers(
        artifact, model, {name: rng.normal(size=shape) for name, shape in shapes.items()}
    )
    assert check.passed
    assert all(item.difference is not None for item in check.tensors)


def test_a_part_of_a_transformer(rng: np.random.Generator) -> None:
    """It begins and ends at tensors that passes turn, and of which the rest would read a part."""
    feeds = token_feeds(rng, 20, 8)
    samples = {"x": np.concatenate([feed["x"] for feed in feeds])}
    model = daedal.quantize(attention_block(rng, 20).SerializeToString(), samples)
    graph = load_onnx(model)
    quantized = [node.output for node in graph.nodes if node.op == "quantize"]
    rows = [name for name in quantized if graph.types[name].shape == (1, 20, 32)]
    artifact = daedal.compile(
        model, "attention", from_tensors=[rows[0]], to_tensors=[rows[-1]], host=None
    )
    kind = np.dtype(graph.types[rows[0]].dtype)
    values = rng.integers(-100, 100, (2, 20, 32)).astype(kind)
    check = check_layers(artifact, model, {rows[0]: values})
    assert check.passed and all(item.difference is not None for item in check.tensors)
    assert check.result.outputs[rows[-1]].shape == (2, 20, 32)


def test_another_model_is_refused(artifact: Artifact, rng: np.random.Generator) -> None:
    other = island(rng).SerializeToString()
    images, _ = demo_images(1)
    with pytest.raises(
        ModelError, match=r"the model that the artifact was compiled from, .*'input'"
    ):
        check_layers(artifact, other, {"input": images})


def test_the_float_model_is_refused(artifact: Artifact) -> None:
    images, _ = demo_images(1)
    with pytest.raises(ModelError, match="is not quantized; give the model that `daedal quantize`"):
        check_layers(artifact, DIGITS.with_name("digits.onnx"), {"input": images})


def test_a_copy_of_what_another_launch_gave_has_a_name_of_its_own(
    rng: np.random.Generator,
) -> None:
    """The second launch copies the first one's result into a concat, in another order."""
    maker = QdqModel()

    def conv(x: str) -> str:
        weights = maker.weights(rng.integers(-9, 10, (16, 16, 1, 1)).astype(np.int8), 1 / 32)
        return maker.requantized(maker.op("Conv", x, weights), 1 / 16, 0)

    first = conv(maker.requantized(maker.input("x", (1, 16, 16, 2)), 1 / 16, 0))
    turned = maker.requantized(maker.op("Transpose", first, perm=[0, 2, 1, 3]), 1 / 16, 0)
    other = conv(maker.requantized(maker.op("Sigmoid", turned), 1 / 16, 0))
    joined = maker.requantized(maker.op("Concat", turned, other, axis=1), 1 / 16, 0)
    maker.op("Identity", joined, output="y")
    model = maker.model("y").SerializeToString()
    artifact = daedal.compile(model, "tiny", host=None)
    assert len(artifact.launches) == 2
    names = {binding.name for binding in artifact.launches[0].outputs}
    assert names & {layer.output for layer in artifact.launches[1].layers}
    check = check_layers(artifact, model, {"x": rng.normal(size=(1, 16, 16, 2)).astype(np.float32)})
    assert check.passed
    assert all(item.difference is not None for item in check.tensors)


@pytest.mark.parametrize("function", ["Tanh", "Sigmoid"])
def test_a_table_between_products_that_are_computed_turned(
    function: str, rng: np.random.Generator
) -> None:
    """The scores leave the check's graph: the table has moved before their transpose."""
    maker = QdqModel()
    names = ("q", "k", "v")
    q, k, v = (maker.requantized(maker.input(name, (1, 1, 16, 16)), 0.03, 0) for name in names)
    scores = maker.op("MatMul", q, maker.op("Transpose", k, perm=[0, 1, 3, 2]))
    weights = maker.requantized(maker.op(function, maker.requantized(scores, 0.12, 0)), 1 / 127, 0)
    y = maker.requantized(maker.op("MatMul", weights, v), 0.1, 0)
    model = maker.model(maker.op("Identity", y)).SerializeToString()
    feeds = {name: rng.normal(size=(1, 1, 16, 16)).astype(np.float32) for name in names}
    check = check_layers(daedal.compile(model, "attention", host=None), model, feeds)
    assert check.passed
    assert all(item.difference is not None for item in check.tensors)


def of_uint8(rng: np.random.Generator, computed: bool) -> bytes:
    """ONNX nodes that the host runs as they are, on a uint8 tensor that a convolution reads, too;
    the machine computes it, or the host."""
    maker = QdqModel()

    def conv(x: str) -> str:
        weights = maker.weights(rng.integers(-99, 99, (8, 8, 1, 1)).astype(np.int8), 0.02)
        return maker.op("Conv", x, weights)

    first = conv(maker.requantized(maker.input("x", (1, 8, 4, 4)), 0.05, 130, "uint8"))
    if not computed:
        first = maker.op("Sin", maker.requantized(first, 0.1, 0))
    scale = 0.1 if computed else 1 / 128
    q = maker.quantize(first, scale, 130, "uint8")
    bound = maker.constant(np.uint8(140))
    results = [
        maker.op("Max", q, bound),
        maker.op("Where", maker.constant(np.arange(4) % 2 == 0), q, bound),
        maker.op("Gather", q, maker.constant(np.arange(7, -1, -1)), axis=1),
        maker.op("Tile", q, maker.constant(np.array([1, 1, 2, 1]))),
        maker.op("Cast", maker.op("Cast", q, to=6), to=2),
    ]
    ends = [conv(maker.dequantize(y, scale, 130, "uint8")) for y in (results[0], q)]
    ends = [maker.requantized(y, 0.2, 120, "uint8") for y in ends]
    outputs = [maker.dequantize(y, scale, 130, "uint8") for y in results[1:]]
    return maker.model(*outputs, *ends).SerializeToString()


@pytest.mark.parametrize("computed", [True, False])
def test_uint8_tensors_that_nodes_of_the_host_read(
    computed: bool, rng: np.random.Generator
) -> None:
    model = of_uint8(rng, computed)
    feeds = {"x": rng.normal(size=(1, 8, 4, 4)).astype(np.float32) * 3}
    artifact = daedal.compile(model, "tiny", host=None)
    check = check_layers(artifact, model, feeds)
    assert check.passed
    assert {item.launch for item in check.tensors if item.layer is not None} == {0, 1}
    expected = run_onnxruntime(onnx.load_from_string(model), feeds)
    # Behind the convolutions, a unit of what the host read may be several.
    for found, wanted in list(zip(check.result.outputs.values(), expected, strict=True))[:4]:
        assert np.abs(found - wanted).max() <= 0.11
