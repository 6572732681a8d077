"""`daedal compile --state` and `daedal generate`: texts, counts, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from daedal.runtime.decoder import Decoder
from daedal.runtime.vocabulary import Vocabulary
from tests.support.command_line import Run, refuses
from tests.support.decoders import SmallDecoder

DECODER = SmallDecoder(layers=1, rows=9)
STATES = ("--state", "k_cache_*=k_new_*", "--state", "v_cache_0=v_new_0")
LETTERS = tuple(bytes([97 + number]) for number in range(DECODER.vocabulary - 2))
VOCABULARY = Vocabulary((b"<s>", b" ", *LETTERS), (0.0,) * DECODER.vocabulary, begin=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quantized decoder, and its description with and without a vocabulary."""
    path = tmp_path_factory.mktemp("decoder")
    (path / "model.onnx").write_bytes(DECODER.quantized())
    for name, vocabulary in (("letters", VOCABULARY), ("ids", None)):
        np.savez(path / f"{name}.npz", **Decoder(DECODER.tables(), vocabulary).to_arrays())
    return path


@pytest.fixture
def compiled(folder: Path, run: Run) -> Path:
    path = folder / "model.daedal"
    if not path.exists():
        options = ("--target", "attention", *STATES, "-o", path)
        status, out, _ = run("compile", folder / "model.onnx", *options)
        assert status == 0 and "in one launch" in out
    return path


def test_a_prompt_is_continued(compiled: Path, folder: Path, run: Run) -> None:
    options = ("--decoder", folder / "letters.npz", "--prompt", "ba", "--tokens", 3)
    status, out, err = run("generate", compiled, *options, "--device", "timing", "--mhz", 50)
    assert status == 0
    assert len(out.strip("\n")) == 5 and out.startswith("ba")
    assert "timing: 6 tokens, " in err and "tokens per second at 50 MHz" in err
    status, plain, err = run("generate", compiled, *options)
    assert (status, plain) == (0, out)
    assert "cycles" not in err, "the functional simulator counts none"


def test_json_has_all_figures(compiled: Path, folder: Path, run: Run) -> None:
    options = ("--decoder", folder / "ids.npz", "--ids", "3,4", "--json", "--device", "timing")
    status, out, _ = run("generate", compiled, *options)
    found = json.loads(out)
    assert status == 0 and found["text"] is None
    assert found["tokens"][:2] == [3, 4] and found["num_prompt"] == 2
    assert len(found["tokens"]) == DECODER.rows + 1 == len(found["cycles"]) + 1
    assert found["cycles_per_token"] == sum(found["cycles"]) / DECODER.rows
    assert found["tokens_per_second"] == pytest.approx(100e6 / found["cycles_per_token"])


def test_a_seed_repeats_what_is_drawn(compiled: Path, folder: Path, run: Run) -> None:
    def drawn(seed: int) -> str:
        options = ("--decoder", folder / "ids.npz", "--ids", 3, "--temperature", 5, "--seed", seed)
        status, out, _ = run("generate", compiled, *options)
        assert status == 0
        return out

    assert drawn(1) == drawn(1)
    assert len({drawn(seed) for seed in range(4)}) > 1


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--ids", "3,x"), ["--ids must be numbers with commas between them, not '3,x'"]),
        (("--ids", "3", "--prompt", "a"), ["give one of --prompt and --ids"]),
        (("--prompt", "a"), ["without a vocabulary must be given its prompt with --ids"]),
        ((), ["without a vocabulary must be given its prompt with --ids"]),
        (("--ids", ",".join("3" * 10)), ["1 to 9 tokens, as the states have 9 rows, not 10"]),
        (("--ids", "3,20"), ["of the decoder's tokens, 0 to 19, and 20 is none"]),
        (("--ids=-1",), ["of the decoder's tokens, 0 to 19, and -1 is none"]),
        (("--ids", "3", "--device", "none"), ["a device is one of"]),
    ],
)
def test_wrong_prompts_are_refused(
    compiled: Path, folder: Path, run: Run, options: tuple[str, ...], parts: list[str]
) -> None:
    refuses(run("generate", compiled, "--decoder", folder / "ids.npz", *options), *parts)


def test_another_file_is_no_decoder(compiled: Path, built: Path, run: Run) -> None:
    wrong = ("--decoder", built / "images.npz", "--ids", 3)
    refuses(run("generate", compiled, *wrong), "a decoder must be arrays as")
    wrong = ("--decoder", built / "digits.daedal", "--ids", 3)
    refuses(run("generate", compiled, *wrong), "must be a .npz of arrays by name")


def test_an_artifact_without_states_does_not_generate(built: Path, folder: Path, run: Run) -> None:
    options = ("--decoder", folder / "ids.npz", "--ids", 3)
    refuses(run("generate", built / "digits.daedal", *options), "compile a decoder with --state")


@pytest.mark.parametrize(
    ("state", "part"),
    [
        ("k_cache_0", "a state must be INPUT=OUTPUT, an input of the model and the output"),
        ("k_cache_0=", "a state must be INPUT=OUTPUT"),
        ("x=k_new_0", "a state must be an input of the model, and none is 'x'"),
        ("k_cache_0=v_new_0", "'k_cache_0' is not with 'v_new_0'; give the output that is"),
    ],
)
def test_wrong_states_are_refused(
    folder: Path, tmp_path: Path, run: Run, state: str, part: str
) -> None:
    options = ("--target", "attention", "--state", state, "-o", tmp_path / "x.daedal")
    refuses(run("compile", folder / "model.onnx", *options), part)
    assert not (tmp_path / "x.daedal").exists()


def test_a_run_takes_one_position_after_the_other(
    compiled: Path, folder: Path, tmp_path: Path, run: Run
) -> None:
    tokens = [3, 5, 7]
    tables = {name: table[:3, 0] for name, table in DECODER.tables().items()}
    np.savez(tmp_path / "in.npz", token=np.array(tokens)[:, None], **tables)
    status, _, _ = run("run", compiled, "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
    assert status == 0
    options = ("--decoder", folder / "ids.npz", "--ids", "3,5,7", "--tokens", 1, "--json")
    _, out, _ = run("generate", compiled, *options)
    with np.load(tmp_path / "out.npz") as found:
        assert found["logits"][-1].argmax() == json.loads(out)["tokens"][-1]
