"""Programs from files pass the verifier, and what passed is not verified again."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import daedal
from daedal.artifact.artifact import Artifact, Launch
from daedal.common.errors import ArtifactError
from daedal.isa import verified_programs
from daedal.isa.assembly import assemble
from daedal.isa.own_digests import OwnDigests
from daedal.isa.program import Program
from daedal.isa.table import BASES, Opcode
from daedal.isa.variant import load_variant
from daedal.isa.verified_programs import check_verified

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return daedal.compile(DIGITS, "tiny", from_tensors=["input_q"], to_tensors=["conv1_q"])


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Program]:
    """The programs that were verified, with a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found: list[Program] = []
    real = verified_programs.verify

    def verify(program: Program) -> object:
        found.append(program)
        return real(program)

    monkeypatch.setattr(verified_programs, "verify", verify)
    return found


def changed(artifact: Artifact, change: Callable[[Program], Program]) -> bytes:
    """The file with other programs, its hashes computed anew."""
    parts = tuple(
        replace(part, program=change(part.program)) if isinstance(part, Launch) else part
        for part in artifact.parts
    )
    return replace(artifact, parts=parts).to_bytes()


def without_tokens(program: Program) -> Program:
    items = tuple(item.replace(pop=0, push=0) for item in program.instructions)
    return replace(program, instructions=items)


def with_unread(program: Program) -> Program:
    """With a STORE that stores nothing, and as many planes in the checks' form that none exist."""
    (store,) = assemble("STORE base=workspace cols=2 rows=1")
    items = (store, *program.instructions)
    return replace(program, instructions=items, unread={0: 400})


def with_setup(program: Program) -> Program:
    """Whose first instructions, which others overwrite, are said to stay on chip."""
    return replace(program, setup=2)


def with_written_constants(program: Program) -> Program:
    """Whose last STORE goes to the begin of the constants."""
    items = list(program.instructions)
    number = max(n for n, item in enumerate(items) if item.opcode is Opcode.STORE)
    items[number] = items[number].replace(base=BASES.index("constants"), offset_beats=0)
    return replace(program, instructions=tuple(items))


def with_unread_constants(program: Program) -> Program:
    """The same, by a STORE that nothing reads: it stores no planes but in the checks' form."""
    items = list(with_written_constants(program).instructions)
    number = max(n for n, item in enumerate(items) if item.opcode is Opcode.STORE)
    unread = {number: items[number].blocks}
    items[number] = items[number].replace(blocks=0)
    return replace(program, instructions=tuple(items), unread=unread)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (with_written_constants, "(STORE): STORE must not write constants"),
        (with_unread_constants, "(STORE): STORE must not write constants"),
        (without_tokens, "must be ordered by tokens"),
        (with_setup, "the setup of a program must be LOADs of constants without tokens"),
        (with_unread, "instruction 0 (STORE): STORE must stay"),
    ],
)
def test_a_program_that_breaks_a_rule_is_refused(
    artifact: Artifact, change: Callable[[Program], Program], rule: str
) -> None:
    with pytest.raises(ArtifactError) as caught:
        Artifact.from_bytes(changed(artifact, change), source="'x.daedal'")
    text = str(caught.value)
    assert text.startswith("program 1 of 'x.daedal' must pass the verifier, and it does not: ")
    assert rule in text and text.endswith("; compile the model again")


def test_each_program_is_verified_once(artifact: Artifact, verified: list[Program]) -> None:
    data = artifact.to_bytes()
    assert Artifact.from_bytes(data) == Artifact.from_bytes(data) == artifact
    assert len(verified) == 1
    other = changed(artifact, lambda program: replace(program, constants=program.constants + b"0"))
    Artifact.from_bytes(other)
    assert len(verified) == 2


def test_what_failed_is_verified_again(artifact: Artifact, verified: list[Program]) -> None:
    data = changed(artifact, without_tokens)
    for number in (1, 2):
        with pytest.raises(ArtifactError):
            Artifact.from_bytes(data)
        assert len(verified) == number


def test_other_rules_verify_again(
    verified: list[Program], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = OwnDigests(tmp_path / "known")
    finish = Program(load_variant("tiny"), tuple(assemble("FINISH")))
    for _ in range(2):
        check_verified(finish, b"data", "it", known)
    assert len(verified) == 1
    monkeypatch.setattr(verified_programs, "_rules", lambda: b"others")
    check_verified(finish, b"data", "it", known)
    assert len(verified) == 2


def test_without_a_home_nothing_is_remembered(
    artifact: Artifact, verified: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    for number in (1, 2):
        Artifact.from_bytes(artifact.to_bytes())
        assert len(verified) == number
