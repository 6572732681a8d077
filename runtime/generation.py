"""`generate`: a decoder writes tokens, one launch each; its states stay on the device."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ModelError
from daedal.isa.profile import Profile
from daedal.runtime.decoder import Decoder
from daedal.runtime.executor import Executor

__all__ = ["Step", "generate"]


@dataclass(frozen=True)
class Step:
    """One run of a decoder.

    Attributes
    ----------
    position : of the token that was fed, from 0.
    token : the next one.
    is_given : whether the prompt has it; then the decoder's own choice does not count.
    logits : (vocabulary,) of the next token.
    profile : of the launches.
    """

    position: int
    token: int
    is_given: bool
    logits: npt.NDArray[np.float64]
    profile: Profile


def generate(
    executor: Executor,
    decoder: Decoder,
    prompt: Sequence[int],
    *,
    max_tokens: int | None = None,
    temperature: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Iterator[Step]:
    """Run a decoder from its first position: first through the prompt, then on by itself.

    Parameters
    ----------
    executor : of an artifact with states; they are cleared.
    prompt : token ids, at least one.
    max_tokens : that are chosen; by default until the states or the decoder's tables are full.
    temperature : 0 takes the most likely token; else one is drawn from the logits divided by it.
    rng : draws; needed for a temperature.

    Raises ModelError for an artifact that is no decoder, and a prompt or a temperature that it
    cannot have.
    """
    name, output, rows = _ends(executor, decoder)
    if temperature < 0 or (temperature > 0 and rng is None):
        raise ModelError(f"a temperature must be 0, or above with a generator, not {temperature:g}")
    if not 1 <= len(prompt) <= rows:
        raise ModelError(
            f"a prompt must have 1 to {rows} tokens, as the states have {rows} rows, not "
            f"{len(prompt)}"
        )
    known = math.prod(executor.artifact.outputs[0].shape)
    unknown = [token for token in prompt if not 0 <= token < known]
    if unknown:
        raise ModelError(
            f"a prompt must be of the decoder's tokens, 0 to {known - 1}, and {unknown[0]} is none"
        )
    shape = executor.input_shapes[name]
    last = rows if max_tokens is None else min(rows, len(prompt) - 1 + max_tokens)
    executor.clear()
    token = prompt[0]
    for position in range(last):
        feed = {name: np.full(shape, token, dtype=np.int64), **decoder.inputs_at(position)}
        result = executor.run(feed, position)
        logits = result.outputs[output].reshape(-1).astype(np.float64)
        is_given = position + 1 < len(prompt)
        token = prompt[position + 1] if is_given else _choose(logits, temperature, rng)
        yield Step(position, token, is_given, logits, result.profile)
        if not is_given and token in decoder.ends:
            return


def _ends(executor: Executor, decoder: Decoder) -> tuple[str, str, int]:
    """The input of the token, the output with the logits, and how many tokens the states hold."""
    artifact = executor.artifact
    if not artifact.states or len(artifact.outputs) != 1:
        raise ModelError(
            "an artifact that generates must have states and one output besides their new rows, "
            f"the logits, and this one has {len(artifact.states)} states and "
            f"{len(artifact.outputs)} outputs; compile a decoder with --state"
        )
    rows = [state.rows for state in artifact.states]
    rows += [len(table) for table in decoder.tables.values()]
    return decoder.token_input(artifact), artifact.outputs[0].name, min(rows)


def _choose(
    logits: npt.NDArray[np.float64], temperature: float, rng: np.random.Generator | None
) -> int:
    if temperature == 0 or rng is None:
        return int(logits.argmax())
    scaled = (logits - logits.max()) / temperature
    weights: npt.NDArray[Any] = np.exp(scaled)
    return int(rng.choice(len(weights), p=weights / weights.sum()))
