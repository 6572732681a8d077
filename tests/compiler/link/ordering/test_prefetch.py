"""LOADs that fill the time in which LOAD waits: what conflicts keeps its order."""

import daedal
from daedal.compiler.link.ordering.prefetch import prefetch
from daedal.compiler.link.placement.hazards import hazards
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.table import LoadMemory, instruction_bytes
from tests.support.decoders import SmallDecoder
from tests.support.placed_layers import layers, load, program_of


def prefetched(items: list[PlacedInstruction]) -> list[PlacedInstruction]:
    """The items in their new order."""
    return prefetch(program_of(items))[0].items


def test_weights_are_loaded_while_a_result_is_awaited() -> None:
    items = layers(4, row_step=4)
    found = prefetched(items)
    assert sorted(map(id, found)) == sorted(map(id, items))
    assert found[0] is items[0], "nothing waits at the start"
    # Before the second layer's activations are those of its weights, and of later ones.
    place = found.index(items[4])
    early = [item for item in found[:place] if item in (items[5], items[9], items[13])]
    assert items[5] in early and len(early) > 1


def test_weights_wait_for_their_rows() -> None:
    """All layers have the same rows. A LOAD that moved would wait for them, and what is behind it
    with it: so none moves."""
    items = layers(4, row_step=0)
    found = prefetched(items)
    assert list(map(id, found)) == list(map(id, items))
    places = {id(item): place for place, item in enumerate(found)}
    for number in range(4, 16, 4):
        assert places[id(items[number + 1])] > places[id(items[number - 2])]


def test_loads_into_the_same_rows_keep_their_order() -> None:
    """The last layer's weights come in two LOADs, of which the second overwrites a row."""
    items = layers(4, row_step=4)
    items.insert(14, load(LoadMemory.WGT, 12, 1))
    places = {id(item): place for place, item in enumerate(prefetched(items))}
    assert places[id(items[13])] < places[id(items[14])] < places[id(items[15])]


def test_a_load_stays_behind_one_that_it_overwrites() -> None:
    """The last layer's weights come in two LOADs. The first one also waits for rows of the third
    layer; nothing else reads the row that the second one overwrites."""
    items = layers(4, row_step=4)
    items[13:14] = [load(LoadMemory.WGT, 8, 8), load(LoadMemory.WGT, 12, 1)]
    places = {id(item): place for place, item in enumerate(prefetched(items))}
    assert places[id(items[10])] < places[id(items[13])] < places[id(items[14])]


def test_the_estimate_counts_what_waits_and_what_the_bus_moves() -> None:
    program = program_of(layers(4, row_step=4))
    _, alone = prefetch(program)
    _, twice = prefetch(program_of(layers(8, row_step=4)))
    fetched = len(program.items) * instruction_bytes(program.variant) / program.variant.bus_bytes
    assert twice > alone > fetched


def test_conflicts_keep_their_order(rng) -> None:
    items = layers(12, row_step=3)
    found = prefetched(items)
    places = {id(item): place for place, item in enumerate(found)}
    for number, needed in enumerate(hazards(program_of(items)).tolist()):
        for other in needed:
            assert other < 0 or places[id(items[other])] < places[id(items[number])]


def test_other_programs_keep_their_order(monkeypatch) -> None:
    """Only programs with states are changed: one for each part of PAR that constants may take."""
    calls = []
    monkeypatch.setattr(
        "daedal.compiler.link.linker.prefetch",
        lambda program, memory: calls.append(program) or prefetch(program, memory),
    )
    model = SmallDecoder(layers=1).quantized()
    for states, count in (({}, 0), ({"k_cache_0": "k_new_0", "v_cache_0": "v_new_0"}, 2)):
        daedal.compile(model, "attention", states=states, cache=False, cpu_levels=())
        assert len(calls) == count
