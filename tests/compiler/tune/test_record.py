"""`Workload` and `Record`: keys, plain data, and what is no record."""

import dataclasses
import hashlib
import json
import re

import pytest

from daedal.common.errors import TuningError, UserError
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload, parse_json

WORKLOAD = Workload.of(
    "conv2d",
    attributes={"strides": (1, 2), "relu": True},
    shapes={"data": (1, 4, 8, 8, 16), "weight": (2, 4, 3, 3, 16, 16)},
    layouts={"data": "NCHW16c"},
)
RECORD = Record(
    WORKLOAD, "0123456789abcdef", "ddr", "accelerator", Config.of(height=2, width=5), 1234, "1", 7
)


def changed(**fields: object) -> dict:
    return {**RECORD.to_json(), **fields}


def test_the_key_is_the_hash_of_the_canonical_description():
    text = json.dumps(WORKLOAD.description, sort_keys=True, separators=(",", ":"))
    assert WORKLOAD.key == hashlib.sha256(text.encode()).hexdigest()
    assert WORKLOAD.description["attributes"] == {"relu": True, "strides": [1, 2]}


def test_the_key_does_not_depend_on_the_order_of_names():
    turned = Workload.from_json(dict(reversed(WORKLOAD.description.items())))
    assert turned == WORKLOAD and turned.key == WORKLOAD.key


@pytest.mark.parametrize("field", ["operator", "attributes", "shapes", "layouts"])
def test_the_key_depends_on_every_part(field):
    other = Workload.from_json({**WORKLOAD.description, field: "another"})
    assert other.key != WORKLOAD.key


@pytest.mark.parametrize("cycles", [1234, None])
def test_records_survive_json(cycles):
    record = dataclasses.replace(RECORD, cycles=cycles)
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_record_knows_kit_and_time_by_itself():
    record = Record(WORKLOAD, "f", "ddr", "accelerator", Config.of(height=2), 1)
    assert record.kit and record.when > 1_500_000_000


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "a record must be an object with workload, description, fingerprint"),
        ([], "a record must be an object"),
        ({}, "a record must be an object"),
        (changed(more=1), "a record must be an object"),
        (changed(workload="0" * 64), "workload must be the SHA-256 of its description"),
        (changed(workload=None), "workload must be the SHA-256 of its description"),
        (changed(description=[]), "must be described by an object of plain JSON data"),
        (changed(description={"a": float("nan")}), "must be described by an object of plain JSON"),
        (changed(description={"a": {1: 2}}), "must be described by an object of plain JSON data"),
        (changed(description={"a": b"x"}), "must be described by an object of plain JSON data"),
        (changed(description={"a": "x" * 17000}), "must have at most 16384 bytes, not 17008"),
        (changed(fingerprint=3), "fingerprint must be 1 to 100 printable ASCII characters, not 3"),
        (changed(memory=""), "memory must be 1 to 100 printable ASCII characters"),
        (changed(target="a\n"), "target must be 1 to 100 printable ASCII characters"),
        (changed(kit="x" * 101), "kit must be 1 to 100 printable ASCII characters"),
        (changed(config=[1]), "must be an object with an integer for each knob"),
        (changed(config={}), "config must have 1 to 64 knobs"),
        (changed(config={"a": 1 << 64}), "values of 64 bits"),
        (changed(config={str(n): n for n in range(65)}), "config must have 1 to 64 knobs"),
        (changed(cycles=0), "cycles must be an integer from 1 to 9223372036854775807, not 0"),
        (changed(cycles=1.5), "cycles must be an integer from 1"),
        (changed(cycles=True), "cycles must be an integer from 1"),
        (changed(cycles=1 << 63), "cycles must be an integer from 1"),
        (changed(when=-1), "when must be an integer from 0"),
        (changed(when=None), "when must be an integer from 0"),
        (changed(failure="crashed"), "failure must be at most 100 printable ASCII characters, and"),
        (changed(cycles=None, failure="a\n"), "failure must be at most 100 printable ASCII"),
        (changed(cycles=None, failure="x" * 101), "failure must be at most 100 printable ASCII"),
        (changed(cycles=None, failure=None), "failure must be at most 100 printable ASCII"),
        (changed(limit_seconds=-1), "limit_seconds must be a number from 0, not -1"),
        (changed(limit_seconds=float("nan")), "limit_seconds must be a number from 0"),
        (changed(limit_seconds=True), "limit_seconds must be a number from 0, not True"),
    ],
)
def test_anything_else_is_refused(data, message):
    with pytest.raises(TuningError, match=re.escape(message)) as caught:
        Record.from_json(data)
    assert isinstance(caught.value, UserError) and len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text", ["", "{", "{'a': 1}", '{"a": NaN}', "[" * 60_000, b"\xff", None, "9" * 5000]
)
def test_a_text_that_is_no_json_is_refused(text):
    with pytest.raises(TuningError, match="a record must be JSON, not"):
        parse_json(text)


def test_deep_descriptions_are_refused_or_kept():
    for depth in (10, 5000):
        data: dict = {}
        for _ in range(depth):
            data = {"a": data}
        if depth == 10:
            assert Workload.from_json(data).description == data
        else:
            with pytest.raises(TuningError, match="must be described by an object of plain JSON"):
                Workload.from_json(data)
