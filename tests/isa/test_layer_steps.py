"""Steps of layers: counted by first STOREs."""

from daedal.isa.layer_steps import layer_steps
from daedal.isa.table import Opcode

OPCODES = {"<": Opcode.LOAD, ">": Opcode.STORE}


def steps(text: str) -> dict[int, tuple[int, int]]:
    """Of "0< 0>": layer 0 loads and stores."""
    return layer_steps((int(word[0]), OPCODES[word[1]]) for word in text.split())


def test_layers_one_after_the_other_have_a_step_each() -> None:
    assert steps("0< 0> 0> 1< 1> 2< 2>") == {0: (0, 0), 1: (1, 1), 2: (2, 2)}


def test_a_layer_lasts_until_its_last_store() -> None:
    assert steps("0< 0> 1> 2> 1> 0> 3>") == {0: (0, 2), 1: (1, 2), 2: (2, 2), 3: (3, 3)}


def test_an_early_load_begins_no_step() -> None:
    assert steps("0< 1< 0> 0> 1>") == {0: (0, 0), 1: (1, 1)}


def test_layers_without_stores_have_the_step_of_their_last_load() -> None:
    assert steps("0< 1> 1> 2> 0< 3<") == {0: (1, 1), 1: (0, 0), 2: (1, 1), 3: (1, 1)}
    assert steps("0<") == {0: (0, 0)}
