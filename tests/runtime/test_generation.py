"""Generation: the prompt goes first, the likeliest token follows, states and tables end a text."""

from typing import Any

import numpy as np
import pytest

from daedal.artifact.artifact import Artifact, HostPart, Value
from daedal.artifact.states import State
from daedal.common.errors import ModelError
from daedal.isa.profile import Profile
from daedal.runtime.decoder import Decoder
from daedal.runtime.executor import RunResult
from daedal.runtime.generation import Step, generate

ROWS, VOCABULARY = 6, 5


class Counting:
    """Stands in for an executor: after token t, t + 1 is likeliest, and t + 2 comes next."""

    def __init__(self, outputs: tuple[str, ...] = ("logits",), states: int = 1) -> None:
        self.artifact = Artifact(
            (HostPart(b""),),
            (Value("ids", (1, 1)), Value("place", (1,))),
            tuple(Value(name, (1, 1, VOCABULARY)) for name in outputs),
        )
        kept = tuple(State(f"s{number}", "", "t", 2, ROWS, 16) for number in range(states))
        object.__setattr__(self.artifact, "states", kept)
        self.input_shapes = {item.name: item.shape for item in self.artifact.inputs}
        self.fed: list[tuple[int, int, int]] = []

    def clear(self) -> None:
        self.fed.clear()

    def run(self, inputs: dict[str, Any], position: int) -> RunResult:
        token = int(inputs["ids"][0, 0])
        self.fed.append((token, int(inputs["place"][0]), position))
        logits = np.zeros((1, 1, VOCABULARY), dtype=np.float32)
        logits[..., (token + 1) % VOCABULARY] = 2
        logits[..., (token + 2) % VOCABULARY] = 1
        return RunResult({"logits": logits}, {}, (Profile(device="none"),), {})


def decoder(rows: int = ROWS, ends: tuple[int, ...] = ()) -> Decoder:
    return Decoder({"place": np.arange(rows).reshape(-1, 1)}, ends=ends)


def steps(prompt: list[int], executor: Any = None, **options: Any) -> list[Step]:
    described = options.pop("decoder", decoder())
    return list(generate(executor or Counting(), described, prompt, **options))


def test_the_prompt_goes_first_and_the_likeliest_token_follows() -> None:
    executor = Counting()
    found = steps([3, 0], executor, max_tokens=3)
    assert [(step.token, step.is_given) for step in found] == [
        (0, True),
        (1, False),
        (2, False),
        (3, False),
    ]
    assert executor.fed == [(3, 0, 0), (0, 1, 1), (1, 2, 2), (2, 3, 3)]


def test_states_and_tables_end_a_text() -> None:
    assert len(steps([0])) == ROWS
    assert len(steps([0], decoder=decoder(rows=4))) == 4
    assert len(steps([0] * ROWS)) == ROWS


def test_an_end_ends_a_text_but_not_a_prompt() -> None:
    found = steps([4, 4, 1], decoder=decoder(ends=(4,)))
    assert [step.token for step in found] == [4, 1, 2, 3, 4]


def test_a_temperature_draws_by_seed() -> None:
    def drawn(seed: int) -> list[int]:
        rng = np.random.default_rng(seed)
        return [step.token for step in steps([0], temperature=2.0, rng=rng)]

    assert drawn(0) == drawn(0)
    assert len({tuple(drawn(seed)) for seed in range(5)}) > 1
    cold = steps([0], temperature=1e-3, rng=np.random.default_rng(0))
    assert [step.token for step in cold] == [step.token for step in steps([0])]


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([], {}, "1 to 6 tokens, as the states have 6 rows, not 0"),
        ([0] * 7, {}, "1 to 6 tokens, as the states have 6 rows, not 7"),
        ([0, 5], {}, "of the decoder's tokens, 0 to 4, and 5 is none"),
        ([0], {"temperature": -1.0}, "a temperature must be 0, or above with a generator, not -1"),
        ([0], {"temperature": 1.0}, "a temperature must be 0, or above with a generator, not 1"),
        ([0], {"executor": Counting(states=0)}, "has 0 states and 1 outputs"),
        ([0], {"executor": Counting(("a", "b"))}, "has 1 states and 2 outputs"),
    ],
)
def test_what_does_not_generate_is_refused(
    prompt: list[int], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        steps(prompt, **options)
