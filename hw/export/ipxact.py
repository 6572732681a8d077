"""IP-XACT of the accelerator: component.xml, as Vivado's IP catalogue reads it.

Input: a variant and the path of its Verilog. Output: XML after IEEE Std 1685-2009 with Xilinx's bus
definitions and extensions. Source: the standard's schema (order of elements); UG1118 for what
Vivado expects beyond it: names of views and file sets, `coreExtensions`.
"""

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from daedal.hw.emit import TOP_MODULE
from daedal.hw.export.identity import CoreIdentity, core_identity
from daedal.hw.export.interfaces import (
    CONTROL,
    MEMORY,
    BusInterface,
    Pin,
    bus_interfaces,
    pins,
)
from daedal.isa.registers import CONTROL_ADDRESS_BITS, REGISTERS
from daedal.isa.variant import Variant

__all__ = ["REGISTER_BLOCK", "SPIRIT", "component_xml"]

SPIRIT = "http://www.spiritconsortium.org/XMLSchema/SPIRIT/1685-2009"
_XILINX = "http://www.xilinx.com"

REGISTER_BLOCK = "Reg"
"""Name of the only address block of the control registers."""

_VIEWS = {
    "xilinx_anylanguagesynthesis": ":vivado.xilinx.com:synthesis",
    "xilinx_anylanguagebehavioralsimulation": ":vivado.xilinx.com:simulation",
}

_FAMILIES = ("zynq", "zynquplus", "artix7", "kintex7", "virtex7", "kintexuplus", "virtexuplus")


def component_xml(variant: Variant, verilog_path: str) -> str:
    """The component; `verilog_path` is relative to the folder of component.xml."""
    ElementTree.register_namespace("spirit", SPIRIT)
    ElementTree.register_namespace("xilinx", _XILINX)
    identity = core_identity(variant)
    root = Element(_name("component"))
    for tag in ("vendor", "library", "name", "version"):
        _text(root, tag, getattr(identity, tag))
    interfaces = _child(root, "busInterfaces")
    for item in bus_interfaces(variant):
        _add_interface(interfaces, item)
    _add_address_space(root, variant)
    _add_memory_map(root)
    _add_model(root, pins(variant))
    _add_files(root, verilog_path)
    _text(
        root,
        "description",
        f"Daedal accelerator, variant {variant.name}, fingerprint {variant.fingerprint}",
    )
    parameter = _child(_child(root, "parameters"), "parameter")
    _text(parameter, "name", "Component_Name")
    value = _text(parameter, "value", identity.name)
    value.set(_name("resolve"), "user")
    value.set(_name("id"), "PARAM_VALUE.Component_Name")
    _add_extensions(root, identity)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


def _name(tag: str) -> str:
    return f"{{{SPIRIT}}}{tag}"


def _child(parent: Element, tag: str) -> Element:
    return SubElement(parent, _name(tag))


def _text(parent: Element, tag: str, value: object) -> Element:
    element = _child(parent, tag)
    element.text = str(value)
    return element


def _number(parent: Element, tag: str, value: int) -> Element:
    element = _text(parent, tag, value)
    element.set(_name("format"), "long")
    return element


def _add_interface(parent: Element, item: BusInterface) -> None:
    interface = _child(parent, "busInterface")
    _text(interface, "name", item.name)
    for tag, name in (("busType", item.kind), ("abstractionType", f"{item.kind}_rtl")):
        reference = _child(interface, tag)
        vlnv = {"vendor": "xilinx.com", "library": item.library, "name": name, "version": "1.0"}
        for part, text in vlnv.items():
            reference.set(_name(part), text)
    mode = _child(interface, "master" if item.is_master else "slave")
    if item.name == MEMORY:
        _child(mode, "addressSpaceRef").set(_name("addressSpaceRef"), MEMORY)
    elif item.name == CONTROL:
        _child(mode, "memoryMapRef").set(_name("memoryMapRef"), CONTROL)
    maps = _child(interface, "portMaps")
    for logical, port in item.ports.items():
        pair = _child(maps, "portMap")
        _text(_child(pair, "logicalPort"), "name", logical)
        _text(_child(pair, "physicalPort"), "name", port)
    parameters = _child(interface, "parameters")
    for name, setting in item.parameters.items():
        parameter = _child(parameters, "parameter")
        _text(parameter, "name", name)
        value = _text(parameter, "value", setting)
        value.set(_name("id"), f"BUSIFPARAM_VALUE.{item.name.upper()}.{name}")


def _add_address_space(root: Element, variant: Variant) -> None:
    space = _child(_child(root, "addressSpaces"), "addressSpace")
    _text(space, "name", MEMORY)
    _number(space, "range", 1 << variant.bus.address_bits)
    _number(space, "width", variant.bus.data_bits)


def _add_memory_map(root: Element) -> None:
    memory_map = _child(_child(root, "memoryMaps"), "memoryMap")
    _text(memory_map, "name", CONTROL)
    block = _child(memory_map, "addressBlock")
    _text(block, "name", REGISTER_BLOCK)
    _text(block, "baseAddress", "0x0")
    _number(block, "range", 1 << CONTROL_ADDRESS_BITS)
    _number(block, "width", 32)
    _text(block, "usage", "register")
    _text(block, "access", "read-write")
    for item in REGISTERS:
        register = _child(block, "register")
        _text(register, "name", item.name)
        _text(register, "description", item.doc)
        _text(register, "addressOffset", f"{item.offset:#x}")
        _number(register, "size", 32)
        _text(register, "access", "read-write" if item.writable else "read-only")


def _add_model(root: Element, ports: Sequence[Pin]) -> None:
    model = _child(root, "model")
    views = _child(model, "views")
    for name, environment in _VIEWS.items():
        view = _child(views, "view")
        _text(view, "name", name)
        _text(view, "envIdentifier", environment)
        _text(view, "language", "Verilog")
        _text(view, "modelName", TOP_MODULE)
        _text(_child(view, "fileSetRef"), "localName", f"{name}_view_fileset")
    parent = _child(model, "ports")
    for pin in ports:
        port = _child(parent, "port")
        _text(port, "name", pin.name)
        wire = _child(port, "wire")
        _text(wire, "direction", "out" if pin.is_output else "in")
        if pin.width > 1:
            vector = _child(wire, "vector")
            _number(vector, "left", pin.width - 1)
            _number(vector, "right", 0)
        kind = _child(_child(wire, "wireTypeDefs"), "wireTypeDef")
        _text(kind, "typeName", "wire")
        for name in _VIEWS:
            _text(kind, "viewNameRef", name)


def _add_files(root: Element, verilog_path: str) -> None:
    sets = _child(root, "fileSets")
    for name in _VIEWS:
        files = _child(sets, "fileSet")
        _text(files, "name", f"{name}_view_fileset")
        file = _child(files, "file")
        _text(file, "name", verilog_path)
        _text(file, "fileType", "verilogSource")


def _add_extensions(root: Element, identity: CoreIdentity) -> None:
    core = SubElement(_child(root, "vendorExtensions"), f"{{{_XILINX}}}coreExtensions")
    families = SubElement(core, f"{{{_XILINX}}}supportedFamilies")
    for name in _FAMILIES:
        family = SubElement(families, f"{{{_XILINX}}}family")
        family.set(f"{{{_XILINX}}}lifeCycle", "Beta")
        family.text = name
    taxonomies = SubElement(core, f"{{{_XILINX}}}taxonomies")
    SubElement(taxonomies, f"{{{_XILINX}}}taxonomy").text = "/UserIP"
    SubElement(core, f"{{{_XILINX}}}displayName").text = identity.name
    SubElement(core, f"{{{_XILINX}}}definitionSource").text = "package_project"
    SubElement(core, f"{{{_XILINX}}}coreRevision").text = str(identity.revision)
