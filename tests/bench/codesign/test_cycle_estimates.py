"""The comparison of estimates with the ledger: which entries it takes, and its bars."""

import pytest

from bench.codesign.cycle_estimates import VIT, Estimated, _machine_and_memory, met


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("vta", ("vta", "ddr")),
        ("ecp5_ulx3s", ("ecp5", "ulx3s")),
        ("ecp5_transformers_ideal", ("ecp5_transformers", "ideal")),
        ("vta_data_bits_128", ("vta_data_bits_128", "ddr")),
        ("ecp5_ddr_on_ulx3s", (None, "ddr")),
        ("ecp5_block_ram", (None, "ddr")),
    ],
)
def test_machines_and_memories(name: str, found: tuple[str | None, str]) -> None:
    assert _machine_and_memory(name) == found


def test_bars_are_those_of_the_zoo() -> None:
    def errors(*sizes: float, network: str = "resnet18") -> list[Estimated]:
        return [Estimated(network, "vta", "ddr", 100, size) for size in sizes]

    assert met(errors(0.01, -0.09))
    assert not met(errors(0.01, -0.11))
    assert not met(errors(0.06, -0.06))
    assert met([*errors(0.01), *errors(0.5, network=VIT)])
