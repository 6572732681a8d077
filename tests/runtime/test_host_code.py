"""Machine code of the host's parts: what it computes, what it refuses, and which of it runs."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.artifact.code import codes_from_json, codes_json, codes_members
from daedal.artifact.host_code import LEVEL_MACHINES, HostCode, Join
from daedal.artifact.parts import HostPart
from daedal.common.errors import ArtifactError, ModelError
from daedal.compiler.artifact.host_code import best_levels, compile_host_model, linked
from daedal.compiler.cpu.build import build_host_code
from daedal.native.codegen import compile_text
from daedal.native.levels import LEVELS, level_cpu
from daedal.runtime import host_code
from daedal.runtime.host import HostModel
from daedal.runtime.host_code import HostProgram
from daedal.runtime.host_parts import CodeTrust, CompiledPart, load_host_part
from tests.support.host_models import SHAPE, one_model, small_floats, zeroed

X = np.array([[1, -2, 3], [0.5, 0, 1]], np.float32)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was compiled before a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def from_file(codes: Sequence[HostCode]) -> tuple[HostCode, ...]:
    return codes_from_json(codes_json(codes), codes_members(codes))


def compiled(model: bytes, levels: tuple[str, ...] | None = None) -> HostPart:
    return HostPart(model, (), compile_host_model(model, levels or best_levels()))


def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostPart:
    """A part from a file that another machine compiled."""
    part = compiled(small_floats())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    return replace(part, codes=from_file(part.codes))


def test_code_computes_what_the_model_means() -> None:
    part = compiled(small_floats())
    found = load_host_part(part, "part 0")
    assert isinstance(found, CompiledPart)
    expected = HostModel(part.model, "part 0").run({"x": X})
    np.testing.assert_allclose(found.run({"x": X})["y"], expected["y"], rtol=1e-6)
    assert found.run({"x": X.astype(np.int64)})["y"].dtype == np.float32
    assert found.zeros()["x"].shape == SHAPE


@pytest.mark.parametrize("is_compiled", [False, True])
def test_inputs_that_do_not_fit_have_the_same_sentence_with_and_without_code(
    is_compiled: bool,
) -> None:
    part = compiled(small_floats())
    loaded = load_host_part(part if is_compiled else replace(part, codes=()), "part 0")
    for values, sentence in (
        ({}, r"^a run must give the model's input 'x' of shape \(2, 3\); it got nothing$"),
        ({"x": X[:1]}, r"^input 'x' must have shape \(2, 3\), not \(1, 3\)$"),
        ({"x": X + 1j}, "^input 'x' must be float32, not complex64; convert the array$"),
        ({"x": X.astype(np.float64) * 1e300}, "^input 'x' must fit float32"),
    ):
        with pytest.raises(ModelError, match=sentence):
            loaded.run(values)


def quantizing(scale: float) -> bytes:
    constants = [
        numpy_helper.from_array(np.float32(scale), "scale"),
        numpy_helper.from_array(np.int8(3), "zero"),
    ]
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    return one_model([node], constants, (TensorProto.FLOAT, TensorProto.INT8))


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("scale", [1.0, 1e-40, 1e30])
@pytest.mark.parametrize("value", [np.inf, -np.inf, 3e38, -3e38, 2.0**31, 2e9])
def test_values_beyond_all_integers_saturate(value: float, scale: float, is_compiled: bool) -> None:
    """As ONNX says: infinities, too."""
    part = compiled(quantizing(scale))
    loaded = load_host_part(part if is_compiled else replace(part, codes=()), "part 0")
    x = X.copy()
    x[0, 0] = value
    with np.errstate(over="ignore"):
        steps = np.rint(np.float32(value) / np.float32(scale))
    assert loaded.run({"x": x})["y"][0, 0] == np.clip(steps + 3, -128, 127)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_nan_that_is_quantized_is_refused(is_compiled: bool) -> None:
    part = compiled(quantizing(1))
    loaded = load_host_part(part if is_compiled else replace(part, codes=()), "part 0")
    with pytest.raises(
        ModelError, match=r"^input 'x' is quantized, and must not have NaN; clean it$"
    ):
        loaded.run({"x": X * np.nan})


def test_code_from_a_file_runs_where_it_was_compiled() -> None:
    part = compiled(small_floats())
    read = replace(part, codes=from_file(part.codes))
    assert isinstance(load_host_part(read, "part 0"), CompiledPart)


def test_other_code_is_refused_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = foreign(tmp_path, monkeypatch)
    with pytest.raises(ArtifactError) as error:
        load_host_part(part, "part 0")
    assert str(error.value) == (
        "machine code from a file must be made on this machine, and part 0 has machine code that "
        "was not compiled here; compile the model here, or run it with `daedal run --trust`"
    )
    trusted = load_host_part(part, "part 0", CodeTrust(trust_file=True))
    assert isinstance(trusted, CompiledPart)
    assert trusted.run({"x": X})["y"].shape == SHAPE


def test_other_code_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = foreign(tmp_path, monkeypatch)
    said: list[str] = []
    models: list[bytes] = []

    def again(model: bytes) -> Sequence[HostCode]:
        models.append(model)
        return compile_host_model(model, best_levels())

    loaded = load_host_part(part, "part 0", CodeTrust(False, again, said.append))
    assert isinstance(loaded, CompiledPart) and models == [part.model]
    assert said == [
        "part 0 has machine code that was not compiled here; its ONNX model is compiled again"
    ]
    # It is the same code, so that it is known from now on.
    assert isinstance(load_host_part(part, "part 0", CodeTrust()), CompiledPart)


def test_other_code_is_interpreted_where_it_cannot_be_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = foreign(tmp_path, monkeypatch)
    interpreted = load_host_part(part, "part 0", CodeTrust(compile_model=lambda _: ()))
    assert isinstance(interpreted, HostModel)


def test_code_with_another_model_or_other_numbers_is_not_what_was_compiled(
    tmp_path: Path,
) -> None:
    part = compiled(small_floats())
    (code,) = from_file(part.codes)
    for changed in (
        HostPart(part.model + b"\x22\x00", (), (code,)),
        HostPart(part.model, (), (zeroed(code),)),
        HostPart(part.model, (), (replace(code, memory_bytes=code.memory_bytes + 64),)),
    ):
        with pytest.raises(ArtifactError, match="was not compiled here"):
            load_host_part(changed, "part 0")


def test_a_damaged_model_is_refused_before_it_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = replace(foreign(tmp_path, monkeypatch), model=b"\xff")
    with pytest.raises(ArtifactError, match="must be a valid ONNX model"):
        load_host_part(part, "part 0", CodeTrust(compile_model=pytest.fail))


def test_code_for_other_processors_is_compiled_again() -> None:
    (best,) = best_levels()
    other = next(level for level in LEVELS if LEVEL_MACHINES[level] != LEVEL_MACHINES[best])
    part = compiled(small_floats(), (other,))
    with pytest.raises(ArtifactError, match=f"part 0 has code for {other}, not for this one"):
        load_host_part(part, "part 0")
    again = CodeTrust(compile_model=lambda model: compile_host_model(model, best_levels()))
    assert isinstance(load_host_part(part, "part 0", again), CompiledPart)


def test_a_level_that_lacks_a_function_is_left_out() -> None:
    """One of a compiler's library, which a process need not have."""
    call = "declare float @__absent(float)\n\n%y = call float @__absent(float %x)"
    declared, called = call.split("\n\n")
    head, end = "define float @f(float %x) {\n", "\nret float %y\n}\n"
    lacking, whole = f"{declared}\n{head}{called}{end}", f"{head}%y = fadd float %x, %x{end}"
    objects = {
        "x86-64": (compile_text(lacking, level_cpu("x86-64")),),
        "x86-64-v3": (compile_text(whole, level_cpu("x86-64-v3")),),
    }
    said: list[str] = []
    assert list(linked(objects, said.append)) == ["x86-64-v3"]
    assert said == ["level x86-64 is left out: it lacks __absent"]


def test_float16_has_code_for_all_levels() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["h", "h"], ["k"]),
        helper.make_node("Cast", ["k"], ["y"], to=TensorProto.FLOAT),
    ]
    said: list[str] = []
    model = one_model(nodes)
    onnx.checker.check_model(model)
    codes = compile_host_model(model, ("x86-64", "x86-64-v3"), said.append)
    assert [level for code in codes for level in code.objects] == ["x86-64", "x86-64-v3"]
    assert not said


def test_nothing_to_compile() -> None:
    assert not compile_host_model(b"", best_levels())
    assert not compile_host_model(small_floats(), ())


def ran(nodes: list[onnx.NodeProto], outputs: dict[str, tuple[int, ...] | None]) -> HostProgram:
    """A program with input x and integer inputs s and e, whose shapes are static."""
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 8)),
        *(helper.make_tensor_value_info(name, TensorProto.INT64, (1,)) for name in "se"),
    ]
    results = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in outputs.items()
    ]
    graph = helper.make_graph(nodes, "views", values, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (code,) = compile_host_model(model.SerializeToString(), best_levels())
    return HostProgram(code)


def bounds(start: int, end: int) -> dict[str, np.ndarray]:
    return {"s": np.array([start]), "e": np.array([end])}


def test_results_of_interpreted_nodes_are_no_views_of_the_memory() -> None:
    """A slice with bounds of the run is one; the work after it takes the memory of its operand."""
    node = helper.make_node
    program = ran(
        [
            node("Relu", ["x"], ["a"]),
            node("Slice", ["a", "s", "e"], ["part"]),
            node("Mul", ["x", "x"], ["b"]),
            node("Mul", ["b", "b"], ["c"]),
            node("Softmax", ["c"], ["other"]),
        ],
        {"part": None, "other": (4, 8)},
    )
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    first = program.run({"x": x, **bounds(1, 3)})["part"]
    np.testing.assert_array_equal(first, np.maximum(x, 0)[1:3])
    program.run({"x": x + 5, **bounds(1, 3)})
    np.testing.assert_array_equal(first, np.maximum(x, 0)[1:3])


def test_sequences_of_interpreted_nodes_hold_no_views_of_the_memory() -> None:
    node = helper.make_node
    program = ran(
        [
            node("Relu", ["x"], ["a"]),
            node("Slice", ["a", "s", "e"], ["part"]),
            node("SequenceConstruct", ["a", "a"], ["both"]),
            node("Mul", ["x", "x"], ["b"]),
            node("Mul", ["b", "b"], ["c"]),
            node("Softmax", ["c"], ["other"]),
            node("ConcatFromSequence", ["both"], ["again"], axis=0),
        ],
        {"part": None, "other": (4, 8), "again": None},
    )
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    found = program.run({"x": x, **bounds(0, 2)})["again"]
    np.testing.assert_array_equal(found, np.tile(np.maximum(x, 0), (2, 1)))


@pytest.mark.parametrize(
    ("node", "gives"),
    [
        ("b = ReduceSum <keepdims = 0> (x, axis)", r"\(3,\)"),  # numpy would repeat it
        ("b = SequenceConstruct (x)", "list"),
    ],
)
def test_an_interpreted_node_gives_the_shape_of_its_buffer(node: str, gives: str) -> None:
    (code,) = compiled(small_floats()).codes
    other = onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["": 21]>
        node (float[2, 3] x) => (float[3] b) <int64[1] axis = {{0}}> {{ {node} }}
    """)
    (old,) = code.interpreted
    new = replace(old, model=other.SerializeToString())
    program = HostProgram(replace(code, steps=[new if x is old else x for x in code.steps]))
    sentence = rf"^an operator must give .*, \(2, 3\), and Bernoulli gives {gives} for 'b'; export"
    with pytest.raises(ModelError, match=sentence):
        program.run({"x": X})


@pytest.mark.parametrize("more_bytes", [0, 16, 32, 48, 1 << 20])
def test_tensors_begin_at_lines_of_the_cache(more_bytes: int) -> None:
    """Wherever the memory is that numpy gives."""
    (code,) = compiled(small_floats()).codes
    programs = [
        HostProgram(replace(code, memory_bytes=code.memory_bytes + more_bytes)) for _ in range(4)
    ]
    for program in programs:
        for number, buffer in enumerate(code.buffers):
            assert (program.array(number).ctypes.data - buffer.offset) % 64 == 0


FORKED = """
import os, queue, sys
from daedal.runtime import host_code

def answer():
    done = queue.SimpleQueue()
    host_code._TEAM.start(lambda number: done.put(2 + number), 2)
    return done.get(timeout=10)

assert answer() == 3
child = os.fork()
if not child:
    os._exit(answer())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_that_was_forked_has_threads_of_its_own() -> None:
    """A fork copies the team, but not its threads: what it is given then never runs."""
    assert subprocess.run([sys.executable, "-c", FORKED], timeout=60, check=False).returncode == 3


@pytest.mark.parametrize(("microseconds", "threads"), [(0, 1), (300, 1), (500, 3), (20_000, 16)])
def test_short_programs_have_one_thread(microseconds: int, threads: int) -> None:
    """What a thread has computed is in the caches of its own processor: others wait for it."""
    assert host_code.num_threads(microseconds * 1000, 16) == threads
    assert host_code.num_threads(microseconds * 1000, 2) == min(threads, 2)


@pytest.mark.parametrize("threads", [1, 2, None])
@pytest.mark.parametrize("axis", [0, 1, 3])
def test_joins_are_part_of_the_calls(
    axis: int, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where threads share them, as large ones are."""
    monkeypatch.setattr(host_code, "SPLIT_WORK", 1)
    monkeypatch.setattr(host_code, "PARALLEL_WORK", 1)
    monkeypatch.setattr(host_code, "LEAST_WORK", 1)
    shape = (2, 6, 5, 9)
    node = helper.make_node
    parts = ["x", "a"] * 5
    graph = helper.make_graph(
        [
            node("Relu", ["x"], ["a"]),
            node("Concat", parts, ["b"], axis=axis),
            node("Neg", ["b"], ["y"]),
        ],
        "joins",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    code = build_host_code(made)
    assert any(isinstance(step, Join) for step in code.steps)
    program = HostProgram(code, threads)
    assert len(program._steps) == 1
    x = np.random.default_rng(axis).normal(size=shape).astype(np.float32)
    (found,) = program.run({"x": x}).values()
    np.testing.assert_array_equal(found, -np.concatenate([x, np.maximum(x, 0)] * 5, axis))
