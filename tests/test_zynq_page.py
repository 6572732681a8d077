"""docs/zynq.md: its addresses, options and files are those of the code."""

import inspect
import re
from pathlib import Path

from daedal.hw.export.vivado import vivado_files
from daedal.isa.variant import load_variant
from daedal.runtime.devices.uio import UioDevice
from tests.support.exported import emitted

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "zynq.md").read_text()


def test_addresses_are_those_of_the_script() -> None:
    tiny = load_variant("tiny")
    texts = vivado_files(tiny, emitted(tiny))
    addresses = [text.lower() for text in re.findall(r"set registers (\w+)", texts["build.tcl"])]
    assert len(addresses) == 2
    for address in addresses:
        assert f"| registers, 4 KiB | {addresses[0]}, " in PAGE
        assert f"daedal@{address.removeprefix('0x')}" in PAGE
        assert re.search(rf"reg = <(0x0 )?{address} (0x0 )?0x1000>", PAGE)
    listed = set(re.findall(r"^\| `([\w/]+\.\w+)` \|", PAGE, re.MULTILINE))
    assert listed == texts.keys() - {"README.md"}


def test_options_are_those_of_the_device() -> None:
    parameters = inspect.signature(UioDevice).parameters
    defaults = {
        name: item.default for name, item in parameters.items() if item.kind is item.KEYWORD_ONLY
    }
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    assert rows.pop("interrupt") == "that of the registers"
    assert defaults.pop("interrupt") is None
    assert {name: rows.get(name) for name in defaults} == {
        name: value if isinstance(value, str) else f"{value:g}" for name, value in defaults.items()
    }


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", PAGE):
        assert (ROOT / "docs" / target).is_file(), target
