"""`select`: the whole network decides which layers take their tuned configurations."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.common.errors import TuningError
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import load_variant
from daedal.tuning import accelerator
from daedal.tuning.accelerator import TARGET, recorded_configs, variant_place
from daedal.tuning.selection import check_recorded, select
from daedal.tuning.target import NANOSECONDS, NetworkCycles, Setting
from daedal.tuning.whole_network import WholeNetwork

TINY = load_variant("tiny")
BEST = {name: Config.of(tile=number) for number, name in enumerate("abc")}


class FakeNetwork:
    """Cycles of a network by the kinds that are tuned; 100 for each kind by default."""

    def __init__(self, tuned: Mapping[str, int], extra: Mapping[str, int]) -> None:
        self._tuned = tuned
        self._extra = extra
        self.counted: list[str] = []

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        chosen = "".join(sorted(configs))
        self.counted.append(chosen)
        kinds = {name: self._tuned[name] if name in configs else 100 for name in BEST}
        return NetworkCycles(sum(kinds.values()) + self._extra.get(chosen, 0), kinds)


def test_all_are_taken_where_all_gain() -> None:
    network = FakeNetwork({"a": 90, "b": 80, "c": 99}, {})
    found = select(network, BEST)
    assert found.configs == BEST and network.counted == ["", "abc"]
    assert (found.before.total, found.after.total) == (300, 269)


def test_a_kind_that_loses_in_the_network_keeps_its_default() -> None:
    found = select(FakeNetwork({"a": 90, "b": 120, "c": 99}, {}), BEST)
    assert set(found.configs) == {"a", "c"}
    assert (found.tuned.total, found.after.total) == (309, 289)


def test_it_is_taken_if_the_network_is_slower_without_it() -> None:
    found = select(FakeNetwork({"a": 90, "b": 101, "c": 90}, {"ac": 50}), BEST)
    assert found.configs == BEST and found.after.total == 281


def test_kinds_are_tried_alone_where_all_together_gain_nothing() -> None:
    network = FakeNetwork({"a": 99, "b": 80, "c": 90}, {"abc": 40, "bc": 30, "ab": 5})
    found = select(network, BEST)
    assert set(found.configs) == {"b"} and found.after.total == 280
    assert found.tuned.total == 309
    assert network.counted == ["", "abc", "b", "bc", "ab"], "the largest gain first"
    noisy = select(network, BEST, unit=NANOSECONDS)
    assert noisy.configs == {}, "where counts have noise, the best of many would be chance"


def test_nothing_is_taken_where_the_network_gains_nothing() -> None:
    extra = {"abc": 3, "a": 1, "b": 1, "c": 1}
    found = select(FakeNetwork({"a": 99, "b": 99, "c": 99}, extra), BEST)
    assert found.configs == {} and found.after == found.before
    assert found.tuned.total == 300


def test_what_is_remembered_is_kept_if_it_is_better_and_replays() -> None:
    network = FakeNetwork({"a": 90, "b": 95, "c": 90}, {"abc": 20})
    old = {"a": BEST["a"]}
    assert select(network, BEST).after.total == 295
    assert select(network, BEST, (old, 290)).configs == old
    with pytest.raises(TuningError, match="the network takes 290 cycles, not 200 as recorded"):
        select(network, BEST, (old, 200))


def test_a_database_without_records_of_the_variant_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    workload = Workload.of("matmul", attributes={}, shapes={}, layouts={})

    def record(fingerprint: str, memory: str, cycles: int | None, target: str = TARGET) -> Record:
        return Record(workload, fingerprint, memory, target, Config.of(tile=1), cycles)

    with Database(path) as database:

        def refusal() -> str:
            with pytest.raises(TuningError, match="must have records of the variant") as caught:
                check_recorded(Setting(variant_place(TINY), database), path)
            return str(caught.value)

        assert f"here tiny ({TINY.fingerprint}) with memory ddr; {str(path)!r}" in refusal()
        assert "has no measured layer; tune with" in refusal()
        database.add([record(TINY.fingerprint, "ddr", None)])
        database.add([record(TINY.fingerprint, "ddr", 5, "network")])
        assert "has no measured layer; tune with" in refusal()
        database.add([record(name, "ddr", 7) for name in "abcde"])
        assert "has records of a, b, c and 2 more only; choose the variant" in refusal()
        database.add([record(TINY.fingerprint, "slow", 9)])
        assert "of it with memory slow only; give --memory slow, or tune with" in refusal()
        mine = MemoryModel("mine", 20, 4, 8, 8, shared_bus=True)
        with pytest.raises(TuningError, match=r"with memory mine-[0-9a-f]{12}; .* slow only"):
            check_recorded(Setting(variant_place(TINY, mine), database), path)
        database.add([record(TINY.fingerprint, "ddr", 3)])
        check_recorded(Setting(variant_place(TINY), database), path)


def layer_record(key: str, config: Config, cycles: int | None) -> Record:
    """Of a kind of layer with the key `key`, measured alone."""
    kind = Workload.of(key, attributes={}, shapes={}, layouts={})
    return Record(kind, TINY.fingerprint, "ddr", TARGET, config, cycles)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "records.db") as opened:
        yield opened


def test_records_that_do_not_help_a_network_are_not_used_for_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a model that was never tuned: each is the best of its layer alone."""
    records = [layer_record(name, config, 10) for name, config in BEST.items()]
    records.append(layer_record("d", Config.of(tile=9), 1))  # no layer of this network
    database.add(records)
    keys = {name: record.workload.key for name, record in zip("abcd", records, strict=True)}
    best = {key: Config.of(tile=n) for key, n in zip(keys.values(), (0, 1, 2, 9), strict=True)}
    assert recorded_configs(database, TINY) == best

    class Network:
        """`a` helps, `b` does not."""

        gain = 5

        def __init__(self, *_: object) -> None:
            self.kinds = [keys[name] for name in "aabc"]

        def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
            assert set(configs) <= set(self.kinds)
            gains = {keys["a"]: self.gain, keys["b"]: -20, keys["c"]: 0}
            kinds = {key: 100 - (gains[key] if key in configs else 0) for key in self.kinds}
            return NetworkCycles(sum(kinds.values()), kinds)

    monkeypatch.setattr(accelerator, "WholeNetwork", Network)
    helpful = recorded_configs(database, TINY, model=b"a model")
    assert helpful == {keys[name]: best[keys[name]] for name in "ac"}
    monkeypatch.setattr(Network, "gain", 0)
    assert recorded_configs(database, TINY, model=b"a model") == {}


def test_a_record_that_lies_about_a_layer_makes_no_network_slower(database: Database) -> None:
    """The slowest schedule of a convolution, recorded as the fastest; then a good one."""
    net = QdqModel()
    x = net.requantized(net.input("x", (1, 8, 4, 4)), 0.05, 0)
    weights = np.ones((16, 8, 1, 1), np.int8)
    y = net.op("Conv", x, net.weights(weights, 0.01))
    model = net.model(net.requantized(y, 0.05, 0)).SerializeToString()
    network = WholeNetwork(model, TINY)
    ((graph, node),), (key,) = network.layers, network.kinds
    space = space_of(graph, node, TINY)
    assert space is not None
    table = space.all()
    slow = space.configs(table)[int(np.argmax(space.cycles(table)))]
    default = network.count({}).total
    assert network.count({key: slow}).total > default

    def recorded(config: Config, cycles: int) -> Record:
        return Record(workload_of(graph, node), TINY.fingerprint, "ddr", TARGET, config, cycles)

    database.add([recorded(slow, 1)])
    assert recorded_configs(database, TINY) == {key: slow}
    assert recorded_configs(database, TINY, model=model) == {}
