"""The store of segments and linked programs: the same programs, and no entry but a whole one of
this compiler, for this network."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import onnx
import pytest

import daedal
from daedal.compiler import pipeline, version
from daedal.compiler.codegen.segment import Segment
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.layers import launch, layer_code, segment_store
from daedal.compiler.layers.program_builder import ProgramBuilder
from daedal.compiler.layers.segment_store import SegmentStore, default_store
from daedal.compiler.pipeline import compile_graph
from daedal.isa.program import Program
from daedal.isa.variant import load_variant
from tests.support.owners import give_away

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"
TINY = load_variant("tiny")
NO_CODE = Segment("layer", ())


@pytest.fixture
def lowered() -> Iterator[mock.Mock]:
    """`lower_node`, whose calls are counted."""
    with mock.patch.object(layer_code, "lower_node", wraps=layer_code.lower_node) as found:
        yield found


@pytest.fixture
def linked() -> Iterator[mock.Mock]:
    """`link_code`, whose calls are counted."""
    with mock.patch.object(launch, "link_code", wraps=launch.link_code) as found:
        yield found


def compiled(store: SegmentStore | None, variant: daedal.Variant = TINY) -> bytes:
    return compile_graph(
        load_onnx(DIGITS.read_bytes()), variant, store=store
    ).launch.program.to_bytes()


def files(folder: Path, suffix: str = "segment") -> list[Path]:
    return sorted(folder.rglob(f"*.{suffix}"))


def without_programs(folder: Path) -> None:
    """Remove the linked programs, so that segments are read."""
    for path in files(folder, "program"):
        path.unlink()


def test_kept_layers_are_not_scheduled_again(tmp_path: Path, lowered: mock.Mock) -> None:
    expected = compiled(None)
    once = lowered.call_count
    store = SegmentStore(tmp_path / "segments")
    assert compiled(store) == expected
    assert lowered.call_count == 2 * once and len(files(tmp_path)) == once
    without_programs(tmp_path)
    assert compiled(SegmentStore(tmp_path / "segments")) == expected
    assert lowered.call_count == 2 * once


def test_another_machine_or_another_compiler_has_its_own(
    tmp_path: Path, lowered: mock.Mock
) -> None:
    store = SegmentStore(tmp_path)
    compiled(store)
    once = lowered.call_count
    compiled(store, TINY.replace("wider", inp_bytes=2 * TINY.memory.inp_bytes))
    assert lowered.call_count == 2 * once
    with mock.patch.object(segment_store, "compiler_version", lambda: "another"):
        compiled(store)
    assert lowered.call_count == 3 * once
    compiled(store)
    assert lowered.call_count == 3 * once


DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda data: b"",
    lambda data: data[:20],
    lambda data: data[: len(data) // 2],
    lambda data: data[:-1],
    lambda data: data + b"\0",
    lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_written_again(
    tmp_path: Path, lowered: mock.Mock, damage: Callable[[bytes], bytes]
) -> None:
    expected = compiled(SegmentStore(tmp_path))
    once = lowered.call_count
    whole = {path: path.read_bytes() for path in files(tmp_path)}
    victim = files(tmp_path)[0]
    victim.write_bytes(damage(whole[victim]))
    without_programs(tmp_path)
    assert compiled(SegmentStore(tmp_path)) == expected
    assert lowered.call_count == once + 1
    assert {path: path.read_bytes() for path in files(tmp_path)} == whole


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_linked_program_is_written_again(
    tmp_path: Path, linked: mock.Mock, damage: Callable[[bytes], bytes]
) -> None:
    expected = compiled(SegmentStore(tmp_path))
    (victim,) = files(tmp_path, "program")
    whole = victim.read_bytes()
    victim.write_bytes(damage(whole))
    assert compiled(SegmentStore(tmp_path)) == expected
    assert linked.call_count == 2 and victim.read_bytes() == whole


def test_an_unchanged_network_is_neither_scheduled_nor_linked_again(
    tmp_path: Path, lowered: mock.Mock, linked: mock.Mock
) -> None:
    expected = compiled(None)
    once = lowered.call_count
    assert compiled(SegmentStore(tmp_path)) == expected
    assert (lowered.call_count, linked.call_count) == (2 * once, 2)
    for path in files(tmp_path):
        path.unlink()
    assert compiled(SegmentStore(tmp_path)) == expected
    assert (lowered.call_count, linked.call_count) == (2 * once, 2)


def digits_with(change: Callable[[onnx.TensorProto], np.ndarray | None]) -> bytes:
    """The network with other values of some initializers."""
    model = onnx.load_from_string(DIGITS.read_bytes())
    changed = 0
    for tensor in model.graph.initializer:
        values = change(tensor)
        if values is not None:
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
            changed += 1
    assert changed
    return bytes(model.SerializeToString())


def program_of(model: bytes, store: SegmentStore | None) -> Program:
    return compile_graph(load_onnx(model), TINY, store=store).launch.program


def test_other_weights_share_the_linked_program(tmp_path: Path, linked: mock.Mock) -> None:
    def reversed_weights(tensor: onnx.TensorProto) -> np.ndarray | None:
        values = onnx.numpy_helper.to_array(tensor)
        return values[..., ::-1].copy() if values.ndim == 4 and values.dtype == np.int8 else None

    model = digits_with(reversed_weights)
    expected = program_of(model, None)
    store = SegmentStore(tmp_path)
    before = program_of(DIGITS.read_bytes(), store)
    assert linked.call_count == 2
    found = program_of(model, store)
    assert linked.call_count == 2 and found.to_bytes() == expected.to_bytes()
    assert found.constants != before.constants and found.encode() == before.encode()


def test_other_zero_points_do_not(tmp_path: Path, linked: mock.Mock) -> None:
    def shifted(tensor: onnx.TensorProto) -> np.ndarray | None:
        values = onnx.numpy_helper.to_array(tensor)
        is_zero_point = values.ndim == 0 and values.dtype == np.int8
        return np.asarray(values // 2 + 3, np.int8) if is_zero_point else None

    model = digits_with(shifted)
    expected = program_of(model, None)
    store = SegmentStore(tmp_path)
    before = program_of(DIGITS.read_bytes(), store)
    assert linked.call_count == 2
    found = program_of(model, store)
    assert linked.call_count == 3 and found.to_bytes() == expected.to_bytes()
    assert found.encode() != before.encode()


def test_other_names_or_another_order_of_rows_are_other_programs(
    tmp_path: Path, linked: mock.Mock
) -> None:
    """Names tell which bytes of the constants are whose, and renaming decides on rows."""
    store = SegmentStore(tmp_path)
    compiled(store)
    model = onnx.load_from_string(DIGITS.read_bytes())
    first, *rest = model.graph.node
    for tensor in model.graph.initializer:
        if tensor.name in first.input:
            for node in (first, *rest):
                for place, name in enumerate(node.input):
                    if name == tensor.name:
                        node.input[place] = f"other {name}"
            tensor.name = f"other {tensor.name}"
    data = model.SerializeToString()
    assert program_of(data, store).to_bytes() == program_of(data, None).to_bytes()
    with mock.patch.object(pipeline, "ProgramBuilder", partial(ProgramBuilder, renaming=False)):
        assert compiled(store) == compiled(None)


def test_the_files_stay_below_the_limit_and_the_unused_ones_go(tmp_path: Path) -> None:
    size = 50
    with mock.patch.object(segment_store, "segment_to_bytes", lambda _: bytes(size - 32)):
        store = SegmentStore(tmp_path, limit_bytes=10 * size)
        for number in range(10):
            store.get(f"key {number}", lambda: NO_CODE)
            os.utime(store.path(f"key {number}"), (number, number))
        assert len(files(tmp_path)) == 10
        os.utime(store.path("key 0"))
        for number in range(10, 40):
            store.get(f"key {number}", lambda: NO_CODE)
            assert sum(path.stat().st_size for path in files(tmp_path)) <= 10 * size
            assert store.path(f"key {number}").is_file()
            if number == 10:
                assert store.path("key 0").is_file() and not store.path("key 1").exists()
        # One that another process has filled meanwhile.
        other = SegmentStore(tmp_path, limit_bytes=3 * size)
        other.get("another", lambda: NO_CODE)
        assert sum(path.stat().st_size for path in files(tmp_path)) <= 3 * size
        SegmentStore(tmp_path / "none", limit_bytes=size - 1).get("large", lambda: NO_CODE)
        assert not (tmp_path / "none").exists()


def test_use_keeps_a_file(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path)
    store.get("key", lambda: NO_CODE)
    os.utime(store.path("key"), (1, 1))
    store.get("key", lambda: pytest.fail("it is there"))
    assert store.path("key").stat().st_mtime > 1


@pytest.mark.parametrize("where", ["folder", "file"])
def test_code_of_another_user_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    store, ours = SegmentStore(tmp_path / "store"), Segment("ours", ())
    assert store.get("a", lambda: NO_CODE) == store.get("a", lambda: ours) == NO_CODE
    give_away(store.path("a") if where == "file" else tmp_path / "store", monkeypatch)
    assert store.get("a", lambda: ours) == ours


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SegmentStore(tmp_path / "file")
    assert compiled(store) == compiled(None)


def test_what_is_dumped_is_built(tmp_path: Path) -> None:
    store = SegmentStore(tmp_path / "segments")
    compiled(store)
    graph = load_onnx(DIGITS.read_bytes())
    compile_graph(graph, TINY, store=store, dump_dir=tmp_path / "dump")
    assert list((tmp_path / "dump").glob("*.tir.txt"))


def test_it_can_be_turned_off(
    tmp_path: Path, lowered: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    daedal.compile(DIGITS, TINY, cache=False)
    # Whose machine code it is, is recorded: without that it would not run from a file.
    kept = {path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*") if path.is_file()}
    assert kept == {("daedal", "own_code")}
    daedal.compile(DIGITS, TINY)
    once = lowered.call_count // 2
    assert len(files(tmp_path / "daedal" / "segments")) == once > 0
    without_programs(tmp_path)
    daedal.compile(DIGITS, TINY)
    assert lowered.call_count == 2 * once


def test_nothing_is_kept_while_the_compiler_is_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_store() is not None
    monkeypatch.setattr(version, "_IMPORTED", 0.0)
    assert default_store() is None
