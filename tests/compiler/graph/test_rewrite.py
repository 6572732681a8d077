"""The rewriter: fixpoint, order, names, users, dead nodes, and rules that do not end."""

import pytest

from daedal.compiler.graph import Graph, Node, verify
from daedal.compiler.graph.dataflow import first_behind, is_read_once, producer_of, sole_producer
from daedal.compiler.graph.parser import parse_graph
from daedal.compiler.graph.rewrite import Rewriter, Rule, rewrite, walk

F = "float32[2]"
SOFTMAX = {"axes": (0,)}


def graph_of(*lines: str, outputs: str = "y") -> Graph:
    """A graph with an input ``x``, of nodes ``name = op(operands)`` that are all `F`."""
    nodes = (line.replace(" =", f": {F} =", 1) for line in lines)
    ends = (f"output {name}" for name in outputs.split())
    return parse_graph("\n".join(("graph g {", f"input x: {F}", *nodes, *ends, "}")))


def rewritten(graph: Graph, **rules: Rule) -> list[str]:
    """The nodes after these rules, as `graph_of` has them."""
    return shown(rewrite(graph, rules))


def shown(graph: Graph) -> list[str]:
    verify(graph)
    lines = [line.strip() for line in str(graph).splitlines()]
    return [line.replace(f": {F} =", " =") for line in lines if " = " in line]


def join_relus(graph: Rewriter, node: Node) -> None:
    """relu(relu(x)) becomes relu(x)."""
    inner = producer_of(graph, node.inputs[0], ("relu",))
    if inner is not None:
        graph.replace(node, inner.inputs)


def drop(graph: Rewriter, node: Node) -> None:
    """The readers of a node read its operand."""
    if node.output not in graph.outputs:
        graph.substitute(node.output, node.inputs[0])


def split_add(graph: Rewriter, node: Node) -> None:
    """a + b becomes relu(a * b), of which the difference from itself is taken on the way."""
    product = graph.add("mul", node.inputs, output=graph.fresh_name(f"{node.output}.part"))
    middle = graph.add("sub", [product, product], output=graph.fresh_name(f"{node.output}.part"))
    graph.add("relu", [middle], output=node.output, name=node.name)


def test_a_chain_is_rewritten_to_its_end_and_dead_nodes_go() -> None:
    graph = graph_of("a = relu(x)", "b = relu(a)", "c = relu(b)", "y = relu(c)")
    assert rewritten(graph, relu=join_relus) == ["y = relu(x)"]


def test_nodes_that_others_or_the_outputs_need_stay() -> None:
    graph = graph_of("a = relu(x)", "b = relu(a)", "y = add(a, b)", outputs="y b")
    assert rewritten(graph, relu=join_relus) == ["a = relu(x)", "b = relu(x)", "y = add(a, b)"]


def test_new_nodes_stand_where_the_old_one_did_and_its_result_keeps_its_name() -> None:
    graph = graph_of("a = relu(x)", "b = add(a, x)", "c = softmax(x) axes=0", "y = mul(b, c)")
    assert rewritten(graph, add=split_add) == [
        "a = relu(x)",
        "b.part = mul(a, x)",
        "b.part_1 = sub(b.part, b.part)",
        "b = relu(b.part_1)",
        "c = softmax(x) axes=0",
        "y = mul(b, c)",
    ]


def test_what_replaces_a_new_node_stays_in_order() -> None:
    """The rules see each other's nodes at once, before those behind."""
    graph = graph_of("b = add(x, x)", "y = add(b, x)")
    seen: list[str] = []

    def note(graph: Rewriter, node: Node) -> None:
        seen.append(node.output)
        drop(graph, node)

    assert rewritten(graph, add=split_add, sub=note) == [
        "b.part = mul(x, x)",
        "b = relu(b.part)",
        "y.part = mul(b, x)",
        "y = relu(y.part)",
    ]
    assert seen == ["b.part_1", "y.part_1"]


def test_a_name_of_a_model_is_not_given_again() -> None:
    """A result that is gone may be in the views that were noted."""
    graph = graph_of("b.part = relu(x)", "a = add(x, x)", "b = add(a, b.part)", "y = relu(b)")
    once = rewrite(graph, {"relu": drop})
    assert shown(once) == ["a = add(x, x)", "b = add(a, x)", "y = relu(b)"]
    assert "b.part_1 = mul(a, x)" in rewritten(once, add=split_add)


def test_readers_are_looked_at_again_when_a_user_goes() -> None:
    """`a` is read once only after `b`, which stands behind `y`, reads something else."""
    graph = graph_of("a = softmax(x) axes=0", "c = relu(a)", "b = sub(a, a)", "y = mul(c, b)")

    def fuse(graph: Rewriter, node: Node) -> None:
        if sole_producer(graph, node.inputs[0], ("softmax",)):
            graph.replace(node, ["x"], SOFTMAX, op="softmax")

    def leave(graph: Rewriter, node: Node) -> None:
        if "x" not in node.inputs:
            graph.replace(node, ["x", "x"])

    assert rewritten(graph, relu=fuse, sub=leave) == [
        "c = softmax(x) axes=0",
        "b = sub(x, x)",
        "y = mul(c, b)",
    ]


def test_users_and_types_follow_every_change() -> None:
    graph = graph_of("a = relu(x)", "b = add(a, a)", "c = softmax(b) axes=0", "y = mul(c, x)")
    rewriter = Rewriter(graph)
    found = rewriter.run({"add": split_add, "softmax": drop})
    assert shown(found)[-2:] == ["b = relu(b.part_1)", "y = mul(b, x)"]
    assert rewriter.users == dict(found.users) and rewriter.types == dict(found.types)
    assert rewriter.producers == dict(found.producers)


def test_a_rule_that_changes_nothing_leaves_no_trace() -> None:
    graph = graph_of("a = reshape(x) shape=2", "y = add(a, x)")

    def begin(graph: Rewriter, node: Node) -> None:
        output = graph.fresh_name("part")
        graph.add("reshape", [node.inputs[0]], {"shape": (1, 2)}, output=output)

    assert rewrite(graph, {"add": begin}) is graph
    found = rewrite(graph, {"add": begin, "reshape": drop})
    assert shown(found) == ["y = add(x, x)"]
    assert found.views == graph.views and found.names == graph.names


def test_nodes_that_nothing_read_before_stay() -> None:
    graph = graph_of("dead = softmax(x) axes=0", "a = relu(x)", "y = relu(a)")
    assert rewritten(graph, relu=join_relus) == ["dead = softmax(x) axes=0", "y = relu(x)"]


def test_constants_that_nothing_reads_any_more_go() -> None:
    text = "graph g {\ninput x: float32[2]\nconst c: float32[2] = [1.0, 2.0]\n"
    text += "a: float32[2] = add(x, c)\ny: float32[2] = relu(a)\noutput y\n}"

    def more(graph: Rewriter, node: Node) -> None:
        if graph.is_constant(node.inputs[1]):
            two = graph.fresh_constant("c", 2 * graph.constant(node.inputs[1]))
            graph.replace(node, [node.inputs[0], two], op="mul")

    found = rewrite(parse_graph(text), {"add": more})
    verify(found)
    assert dict(found.constants).keys() == {"c_1"}
    assert found.constant("c_1").tolist() == [2, 4]


def test_a_walk_looks_at_each_node_of_the_graph_once() -> None:
    """The rule would change its own results for ever; nodes that go before are not looked at."""
    graph = graph_of("a = relu(x)", "b = softmax(a) axes=0", "y = relu(b)")
    seen: list[str] = []

    def double(graph: Rewriter, node: Node) -> None:
        seen.append(node.output)
        source = "x" if node.output == "y" else node.inputs[0]
        name = graph.add_fresh("relu", [source], base=node.output)
        graph.replace(node, [name])

    assert shown(walk(graph, {"relu": double, "softmax": drop})) == [
        "y_1 = relu(x)",
        "y = relu(y_1)",
    ]
    assert seen == ["a", "y"]
    assert walk(graph, {"add": double}) is graph


def test_a_replacement_by_the_same_node_changes_nothing() -> None:
    graph = graph_of("a = softmax(x) axes=0", "y = relu(a)")

    def same(graph: Rewriter, node: Node) -> None:
        graph.replace(node, list(node.inputs), dict(node.attrs))

    assert rewrite(graph, {"softmax": same, "relu": same}) is graph


@pytest.mark.parametrize("grows", [False, True])
def test_rules_that_do_not_end_are_named(grows: bool) -> None:
    graph = graph_of("a = softmax(x) axes=0", "y = relu(a)")

    def swap(graph: Rewriter, node: Node) -> None:
        name = node.inputs[0]
        if grows:
            name = graph.add("relu", [name], output=graph.fresh_name("a"))
        if node.op == "softmax":
            graph.replace(node, [name], {}, op="relu")
        else:
            graph.replace(node, [name], SOFTMAX, op="softmax")

    text = (
        r"the rule for (relu|softmax) of pass test_rewrite stopped after more than 6 changes; the "
    )
    with pytest.warns(RuntimeWarning, match=text + "result is right"):
        found = rewrite(graph, {"relu": swap, "softmax": swap}, max_rewrites=3)
    verify(found)


def test_replacements_must_have_the_type_of_the_result_and_not_read_it() -> None:
    def resize(graph: Rewriter, node: Node) -> None:
        graph.add("reshape", ["x"], {"shape": (1, 2)}, output=node.output)

    def repeat(graph: Rewriter, node: Node) -> None:
        graph.replace(node, [graph.add("relu", [node.output], output="a")])

    graph = graph_of("y = relu(x)")
    with pytest.raises(AssertionError, match=r"'y' is float32\[2\], and its replacement float32"):
        rewrite(graph, {"relu": resize})
    with pytest.raises(AssertionError, match="the replacement of 'y' reads it"):
        rewrite(graph, {"relu": repeat})


def test_readers_must_stand_behind_what_they_are_given() -> None:
    graph = graph_of("a = relu(x)", "b = softmax(a) axes=0", "y = mul(a, b)")

    def cycle(graph: Rewriter, node: Node) -> None:
        graph.substitute("a", "b")

    with pytest.raises(AssertionError, match="operator softmax stands before 'b'"):
        rewrite(graph, {"mul": cycle})


def test_edges_of_a_graph() -> None:
    graph = graph_of(
        "a = relu(x)", "b = relu(a)", "c = softmax(b) axes=0", "y = add(c, a)", outputs="y c"
    )
    assert first_behind(graph, "c", ("relu", "softmax")) == "x"
    assert first_behind(graph, "c", ("softmax",)) == "b"
    assert [is_read_once(graph, name) for name in "xabcy"] == [True, False, True, False, False]
    assert producer_of(graph, "a", ("softmax",)) is None is producer_of(graph, "x", ("relu",))
    found = sole_producer(graph, "b", ("relu",))
    assert found is not None and found.inputs == ("a",)
    assert sole_producer(graph, "a", ("relu",)) is None
