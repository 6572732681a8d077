"""``daedal generate``: a decoder tells a story."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from daedal.artifact.artifact import Artifact
from daedal.commands.npz import load_arrays
from daedal.commands.options import ArtifactFile, ArtifactMemory, Json, Simulator, complete_device
from daedal.common.errors import UserError
from daedal.reports.console import make_console, print_json, show_progress

if TYPE_CHECKING:  # devices load slowly, and other commands need none
    from daedal.runtime.decoder import Decoder
    from daedal.runtime.generation import Step

__all__ = ["generate_command"]

_out = make_console()
_err = make_console(stderr=True)

_TAIL = 40
"""Characters of the text that the live line shows."""


def generate_command(
    artifact: ArtifactFile,
    decoder: Annotated[
        Path,
        typer.Option(
            help="A .npz of the inputs at every position, and of the vocabulary "
            "(docs/generation.md)."
        ),
    ],
    prompt: Annotated[
        str | None, typer.Option(help="The text to continue.  [default: none]")
    ] = None,
    ids: Annotated[
        str | None, typer.Option(metavar="IDS", help="The text as token ids, such as 1,403,407.")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens to add.  [default: as many as the states hold]"),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            min=0.0,
            help="0: the most likely token; above 0: random samples, with 1 by the probabilities "
            "of the model.",
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the samples.")] = 0,
    device: Annotated[
        str,
        typer.Option(
            metavar="DEVICE",
            autocompletion=complete_device,
            help="functional, timing, rtl, or the machine on a board: uio or uart.",
        ),
    ] = "functional",
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the device as NAME=VALUE: for uart, port=/dev/ttyUSB0.",
        ),
    ] = None,
    memory: ArtifactMemory = None,
    simulator: Annotated[Simulator | None, typer.Option(help="rtl: the simulator.")] = None,
    mhz: Annotated[float, typer.Option(min=0.001, help="The clock for tokens per second.")] = 100.0,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Run the machine code in ARTIFACT, as for `daedal run`."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Generate text with a decoder that was compiled with --state: one launch for each token."""
    from daedal.api import code_trust
    from daedal.devices import open_device, takes_option, text_options
    from daedal.runtime.decoder import Decoder
    from daedal.runtime.executor import Executor
    from daedal.runtime.generation import generate
    from daedal.runtime.unmarked import without_marks

    loaded = Artifact.load(artifact)
    timing = loaded.memory_or(memory)
    described = Decoder.from_arrays(load_arrays(decoder))
    given = _prompt(described, prompt, ids)
    rng = np.random.default_rng(seed)
    steps: list[Step] = []
    with show_progress(_err) as report:
        options: dict[str, Any] = text_options(device, option or ())
        if device in ("rtl", "timing"):
            options["timing"] = timing
        if takes_option(device, "report"):
            options["report"] = report
        if device == "rtl":
            options["simulator"] = simulator
        opened = open_device(device, loaded.variant, **options)
        executor = Executor(
            without_marks(loaded),
            opened,
            code_trust(trust_file=trust, report=lambda x: _err.print(escape(x))),
        )
        for step in generate(
            executor, described, given, max_tokens=tokens, temperature=temperature, rng=rng
        ):
            steps.append(step)
            tail = _text(described, given, steps)[-_TAIL:].replace("\n", " ")
            report(f"{device}: {_speed(steps, mhz)} | {tail}")
    if as_json:
        print_json(_json(described, given, steps, mhz))
        return
    _out.print(escape(_text(described, given, steps)))
    _err.print(escape(f"{device}: {_speed(steps, mhz)}"))


def _prompt(decoder: "Decoder", prompt: str | None, ids: str | None) -> list[int]:
    """The token ids of the prompt."""
    if prompt is not None and ids is not None:
        raise UserError("a prompt is a text or token ids; give one of --prompt and --ids")
    if ids is None:
        if decoder.vocabulary is None:
            raise UserError("a decoder without a vocabulary must be given its prompt with --ids")
        return decoder.vocabulary.encode(prompt or "")
    try:
        return [int(index) for index in ids.split(",")]
    except ValueError as error:
        raise UserError(
            f"--ids must be numbers with commas between them, not {ids[:80]!r}"
        ) from error


def _text(decoder: "Decoder", prompt: Sequence[int], steps: "Iterable[Step]") -> str:
    """The prompt and what follows, without what ends it."""
    ids = [prompt[0], *(step.token for step in steps)]
    if decoder.vocabulary is None:
        return ",".join(map(str, ids))
    if ids[-1] in decoder.ends:
        ids.pop()
    return decoder.vocabulary.decode(ids)


def _speed(steps: "Sequence[Step]", mhz: float) -> str:
    """Tokens so far, cycles of each, and tokens per second."""
    cycles = _cycles(steps)
    if cycles is None:
        return f"{len(steps)} tokens"
    return (
        f"{len(steps)} tokens, {cycles:,.0f} cycles per token, "
        f"{mhz * 1e6 / cycles:,.0f} tokens per second at {mhz:g} MHz"
    )


def _cycles(steps: "Sequence[Step]") -> float | None:
    """Mean cycles of a token; None on a device that counts none."""
    counts = [step.profile.cycles for step in steps]
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if known and len(known) == len(counts) else None


def _json(
    decoder: "Decoder", prompt: Sequence[int], steps: "Sequence[Step]", mhz: float
) -> dict[str, Any]:
    cycles = _cycles(steps)
    return {
        "text": _text(decoder, prompt, steps) if decoder.vocabulary is not None else None,
        "tokens": [prompt[0], *(step.token for step in steps)],
        "num_prompt": len(prompt),
        "cycles": [step.profile.cycles for step in steps],
        "cycles_per_token": cycles,
        "tokens_per_second": None if cycles is None else mhz * 1e6 / cycles,
        "mhz": mhz,
    }
