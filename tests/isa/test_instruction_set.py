"""The table of instructions is a part of every fingerprint."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from daedal.isa import instruction_set as module
from daedal.isa.table import (
    HEADER,
    INSTRUCTIONS,
    MICRO_OPS,
    Field,
    Opcode,
    Unit,
    instruction_layout,
    micro_op_layout,
)
from daedal.isa.variant import load_variant

VARIANTS = [load_variant(name) for name in ("tiny", "attention", "vta")]
NOW = [variant.fingerprint for variant in VARIANTS]
CACHES = (module.instruction_set, instruction_layout, micro_op_layout)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Nothing of a changed table stays in the caches of the real one."""
    for cached in CACHES:
        cached.cache_clear()
    yield
    for cached in CACHES:
        cached.cache_clear()


def with_fields(
    monkeypatch: pytest.MonkeyPatch, opcode: Opcode, fields: tuple[Field, ...]
) -> list[bool]:
    """Per variant, whether its fingerprint changes with the fields of an instruction."""
    monkeypatch.setitem(INSTRUCTIONS, opcode, replace(INSTRUCTIONS[opcode], fields=fields))
    return [old != variant.fingerprint for old, variant in zip(NOW, VARIANTS, strict=True)]


def test_machines_that_were_built_keep_their_fingerprints() -> None:
    assert module.instruction_set() == ""
    assert NOW == ["983b286ac14b1a0e", "37e6dc94513e5302", "8795ad941c72cfb5"]


def test_a_new_field_of_all_machines_changes_every_fingerprint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = Field("fresh", lambda _variant: 1, "")
    fields = INSTRUCTIONS[Opcode.STORE].fields
    assert all(with_fields(monkeypatch, Opcode.STORE, (*fields, new)))


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.GEMM, Opcode.ALU, Opcode.STORE])
def test_a_change_of_any_field_changes_every_fingerprint(
    opcode: Opcode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *others = INSTRUCTIONS[opcode].fields
    for fields in (
        (second, first, *others),
        (replace(first, name="other"), second, *others),
        (replace(first, signed=True), second, *others),
        (replace(first, width=lambda variant: first.width(variant) + 1), second, *others),
        (replace(first, choices=None, offered=None), second, *others),
    ):
        for cached in CACHES:
            cached.cache_clear()
        assert all(with_fields(monkeypatch, opcode, fields))


def test_a_new_choice_changes_every_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new operation, as a machine of today's parameters would decode it."""
    first, *others = INSTRUCTIONS[Opcode.ALU].fields
    assert first.name == "operation" and first.offered is not None
    offered = first.offered
    twice = replace(first, offered=lambda variant: (*offered(variant), offered(variant)[0]))
    assert all(with_fields(monkeypatch, Opcode.ALU, (twice, *others)))


def test_micro_ops_and_the_header_count(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = MICRO_OPS[Unit.ALU]
    monkeypatch.setitem(MICRO_OPS, Unit.ALU, (*fields[1:], fields[0]))
    assert module.instruction_set()
    monkeypatch.undo()
    for cached in CACHES:
        cached.cache_clear()
    monkeypatch.setattr("daedal.isa.table.HEADER", (HEADER[0], *HEADER[2:]))
    assert module.instruction_set()


def test_what_only_a_new_option_brings_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = Field("fresh", lambda _variant: 1, "", present=lambda _variant: False)
    fields = INSTRUCTIONS[Opcode.ALU].fields
    assert not any(with_fields(monkeypatch, Opcode.ALU, (*fields, new)))


def test_another_meaning_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEANING", 2)
    assert [old != variant.fingerprint for old, variant in zip(NOW, VARIANTS, strict=True)] == [
        True
    ] * 3
