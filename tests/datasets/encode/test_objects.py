"""Trees of Python objects to arrays: what comes out, and which node an error names."""

import ast
import itertools
import sys
import traceback
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies

from kerasrec._src.datasets.encode.walk import add_to_message
from kerasrec.datasets import (
    DependencyTree,
    Vocabulary,
    check_tree,
    encode_dependencies,
    encode_objects,
    tree_batches,
    walk_tree,
)
from tests.datasets.helpers import any_heads, few

# Lists of a number and of further lists.
numbered = strategies.recursive(
    strategies.builds(lambda number: [number], strategies.integers(1, 9)),
    lambda below: strategies.builds(
        lambda number, trees: [number, *trees],
        strategies.integers(0, 9),
        strategies.lists(below, max_size=4),
    ),
    max_leaves=12,
)
FORMULA = {"op": "+", "args": [{"op": "x"}, {"op": "*", "args": [{"op": "x"}, {"op": "y"}]}]}


def below(node):
    return node[1:]


def arguments(node):
    return node.get("args", [])


def symbol(node):
    return " +*xy".index(node["op"])


def again(tree, number=0):
    """The same nested lists, from the arrays."""
    return [int(tree.tokens[number]), *(again(tree, child) for child in tree.children[number])]


def copied(tree):
    """A tree in which no list stands twice, as one that was drawn may have."""
    return [tree[0], *map(copied, tree[1:])]


@few
@given(numbered)
def test_arrays_hold_the_tree(drawn):
    root = copied(drawn)
    if root == [0]:
        root = [1]
    tree = encode_objects(root, children_of=below, token_of=lambda node: node[0])
    check_tree(*tree)
    assert again(tree) == root
    assert tree.tokens.dtype == np.int32
    assert (tree.labels == -1).all()


@few
@given(any_heads())
def test_words_as_encode_dependencies_has_them(heads):
    sentence = DependencyTree([f"w{word}" for word in range(len(heads))], heads)
    vocabulary = Vocabulary(sentence.words)
    tree = encode_objects(
        sentence.root,
        children_of=lambda word: sentence.dependents[word],
        token_of=lambda word: sentence.words[word],
        label_of=lambda word: word,
        vocabulary=vocabulary,
    )
    other = encode_dependencies(sentence, vocabulary, list(range(len(heads))))
    # The two number nodes in different orders: compare by word, which is the label here.
    mine, theirs = (
        {
            labels[node]: (token, [labels[child] for child in children[node] if child >= 0])
            for node, token in enumerate(tokens)
        }
        for tokens, children, labels in (tree, other)
    )
    assert mine == theirs


@pytest.mark.many
def test_a_tree_of_any_height():
    deep = [1]
    for number in range(50_000):
        deep = [number % 7, deep]
    tree = encode_objects(deep, children_of=below, token_of=lambda node: node[0], arity=1)
    assert len(tree.tokens) == 50_001
    assert tree.children[:3].tolist() == [[1], [2], [3]]
    check_tree(*tree)


def test_nodes_of_other_libraries():
    root = ast.parse("x * (y + 1)", mode="eval").body
    tree = encode_objects(
        root,
        children_of=lambda node: [
            of for of in ast.iter_child_nodes(node) if isinstance(of, ast.expr)
        ],
        token_of=lambda node: 1 + (ast.BinOp, ast.Name, ast.Constant).index(type(node)),
    )
    assert tree.tokens.tolist() == [1, 2, 1, 2, 3]
    assert tree.children.tolist() == [[1, 2], [], [3, 4], [], []]


def test_what_nodes_read():
    ids = encode_objects(FORMULA, children_of=arguments, token_of=lambda node: (symbol(node), 7))
    assert ids.tokens.tolist() == [[1, 7], [3, 7], [2, 7], [3, 7], [4, 7]]
    vectors = encode_objects(
        FORMULA,
        children_of=arguments,
        features_of=lambda node: [0.5, len(arguments(node))] if arguments(node) else None,
    )
    assert vectors.tokens.dtype == np.float32
    assert vectors.tokens.tolist() == [[0.5, 2], [0, 0], [0.5, 2], [0, 0], [0, 0]]
    both = encode_objects(
        FORMULA, children_of=arguments, token_of=symbol, features_of=lambda _: [1.0]
    )
    assert [of.shape for of in both.tokens] == [(5,), (5, 1)]
    none = encode_objects(
        FORMULA,
        children_of=arguments,
        token_of=lambda node: None if arguments(node) else symbol(node),
    )
    assert none.tokens.tolist() == [0, 3, 0, 3, 4]
    for tree in (ids, vectors, both, none):
        check_tree(*tree)


def test_labels_of_nodes_and_of_the_tree():
    def labels(label_of, **options):
        tree = encode_objects(
            FORMULA, children_of=arguments, token_of=symbol, label_of=label_of, **options
        )
        check_tree(*tree)
        return tree.labels

    sizes = labels(lambda node: len(arguments(node)) or None)
    assert sizes.dtype == np.int32
    assert sizes.tolist() == [2, -1, 2, -1, -1]
    scores = labels(lambda node: 0.5 if arguments(node) else None)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, [0.5, np.nan, 0.5, np.nan, np.nan])
    assert labels(lambda _: 3, labels="root") == 3
    assert labels(lambda _: 3, labels="root").dtype == np.int32
    assert labels(lambda _: 0.25, labels="root") == np.float32(0.25)
    asked = []
    labels(lambda node: asked.append(node) or 1, labels="root")
    assert asked == [FORMULA]


def test_empty_slots():
    def halves(node):
        return list(node[1]) if len(node) > 1 else []

    tree = encode_objects(
        ["a", (None, ["b"])], children_of=halves, token_of=lambda node: "ab".index(node[0]) + 1,
        arity=2,
    )  # fmt: skip
    assert tree.children.tolist() == [[-1, 1], [-1, -1]]


def test_values_may_stand_in_several_places():
    same = "x"
    tree = encode_objects(
        ("+", same, same, ("+", same)),
        children_of=lambda node: node[1:] if isinstance(node, tuple) else [],
        token_of=lambda node: 1 if node == "x" else 2,
    )
    assert tree.tokens.tolist() == [2, 1, 1, 2, 1]


def test_children_may_be_made_as_they_are_asked_for():
    """Objects that nothing else holds are different nodes, also if they had the same `id`."""
    root = [0, [1] * 50]

    def children(node):
        return [[node[0] + 1, []] for _ in node[1]]

    tree = encode_objects(root, children_of=children, token_of=lambda node: node[0])
    assert tree.tokens.tolist() == [0] + [1] * 50


shared = {"op": "x"}
cyclic = {"op": "+"}
cyclic["args"] = [{"op": "x"}, {"op": "*", "args": [cyclic]}]


@pytest.mark.parametrize(
    ("root", "options", "message"),
    [
        (cyclic, {}, "root/child 1/child 0 is the same node as root, which stands above .* cycle"),
        (
            {"op": "+", "args": [shared, {"op": "*", "args": [shared]}]},
            {},
            "root/child 1/child 0 is the same node as root/child 0; .* one parent",
        ),
        (FORMULA, {"children_of": lambda node: node.get("args")}, "None for root/child 0; .*Give"),
        (FORMULA, {"children_of": lambda node: node}, r"for root; .*Give list\(node.values\(\)\)"),
        (FORMULA, {"children_of": lambda _: "ab"}, "children_of gives 'ab' for root"),
        (FORMULA, {"children_of": lambda _: 3}, "children_of gives 3 for root"),
        (FORMULA, {"children_of": lambda _: [None]}, "Child 0 of root is None. .*pass arity="),
        (FORMULA, {"arity": 1}, "root has 2 children, but arity is 1"),
        (FORMULA, {"token_of": lambda node: node["op"]}, "token of root is '.'; .*no vocabulary="),
        (FORMULA, {"token_of": lambda _: -1}, "token of root is -1; expected a word, an integer"),
        (FORMULA, {"token_of": lambda _: 2**31}, "token of root is 2147483648; expected"),
        (FORMULA, {"token_of": lambda _: 1.0}, "token of root is 1.0; expected"),
        (FORMULA, {"token_of": lambda _: True}, "token of root is True; expected"),
        (
            FORMULA,
            {"token_of": lambda node: (1,) * (1 + len(node))},
            r"token of root/child 0 is \(1, 1\); expected 3 integers",
        ),
        (
            FORMULA,
            {"token_of": lambda node: 1 if arguments(node) else "x", "vocabulary": Vocabulary([])},
            "token of root/child 0 is 'x'; expected an integer, as",
        ),
        (
            FORMULA,
            {"features_of": lambda node: [1.0] * len(node)},
            r"features of root/child 0 is \[1.0\]; expected 2 numbers",
        ),
        (FORMULA, {"features_of": lambda _: [[1.0]]}, "features of root is .* list of numbers"),
        (FORMULA, {"features_of": lambda _: "x"}, "features of root is 'x'; .* list of numbers"),
        (
            FORMULA,
            {"features_of": lambda node: [1.0, 0.0 if node["op"] != "y" else float("inf")]},
            "features of root/child 1/child 1 is .* finite numbers",
        ),
        (FORMULA, {"features_of": lambda _: None}, "features_of gives None for all nodes"),
        (
            FORMULA,
            {"label_of": lambda node: 1 if arguments(node) else 1.5},
            "label of root/child 0 is 1.5; expected a class",
        ),
        (FORMULA, {"label_of": lambda _: "good"}, "label of root is 'good'; expected a class"),
        (FORMULA, {"label_of": lambda _: True}, "label of root is True; expected a class"),
        (FORMULA, {"label_of": lambda _: float("nan")}, "label of root is nan; .* finite number"),
        (FORMULA, {"labels": "all"}, "labels is 'all'"),
        (FORMULA, {"token_of": None}, "Pass token_of, features_of or both"),
        ({"op": "x"}, {"token_of": lambda _: None}, "root has neither a token nor children"),
    ],
)
def test_errors_name_the_node(root, options, message):
    given = {"children_of": arguments, "token_of": symbol, **options}
    with pytest.raises(ValueError, match=message):
        encode_objects(root, **given)


def failing(of_root):
    """A function that gives something for the root and raises for the others."""
    return lambda node: of_root if node is FORMULA else node["none"]


def generating(node):
    yield from node["args"]
    yield {}["none"]


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ({"children_of": failing(FORMULA["args"])}, "children_of raised this at root/child 0."),
        ({"children_of": generating}, "children_of raised this at root."),
        ({"token_of": failing(1)}, "token_of raised this at root/child 0."),
        ({"features_of": failing([1.0])}, "features_of raised this at root/child 0."),
        ({"label_of": failing(1)}, "label_of raised this at root/child 0."),
    ],
)
def test_what_a_function_raises_stays_and_names_the_node(options, note):
    with pytest.raises(KeyError) as error:
        encode_objects(FORMULA, **{"children_of": arguments, "token_of": symbol, **options})
    if sys.version_info >= (3, 11):
        assert error.value.args == ("none",) and error.value.__notes__ == [note]
    else:
        assert str(error.value) == f"'none'\n{note}"


@pytest.mark.many
def test_nodes_of_names_the_node_where_a_function_fails():
    with pytest.raises(KeyError) as error:
        list(walk_tree(FORMULA, lambda node: node["args"]))
    assert "".join(traceback.format_exception(error.value)).endswith(
        "KeyError: 'args'\nchildren_of raised this at root/child 0.\n"
    )


@pytest.mark.many
def test_errors_without_notes():
    """As before Python 3.11."""
    for error, text in (
        (KeyError("a"), "'a'\nhere"),
        (ValueError("two\nlines"), "two\nlines\nhere"),
        (ZeroDivisionError(), ""),
        (FileNotFoundError(2, "No such file", "x"), "[Errno 2] No such file: 'x'"),
    ):
        add_to_message(error, "here")
        assert str(error) == text
        assert traceback.format_exception_only(error)[-1].strip().endswith(text[-4:])


def test_nodes_of_visits_as_encode_numbers():
    assert [node["op"] for node in walk_tree(FORMULA, arguments)] == ["+", "x", "*", "x", "y"]
    endless = walk_tree(0, lambda number: [number + 1])
    assert list(itertools.islice(endless, 3)) == [0, 1, 2]


def test_trees_of_different_kinds_are_no_batch():
    one = encode_objects(FORMULA, children_of=arguments, token_of=symbol, label_of=lambda _: 1)
    for options, message in [
        (
            {"features_of": lambda _: [1.0]},
            r"\[1\] has tokens of .*float \[nodes, 1\], but trees",
        ),
        ({"label_of": lambda _: 1.0}, r"\[1\] has labels of the kind float \[nodes\]"),
        ({"label_of": lambda _: 1, "labels": "root"}, r"\[1\] has labels of .*\(of the tree\)"),
    ]:
        other = encode_objects(FORMULA, children_of=arguments, token_of=symbol, **options)
        with pytest.raises(ValueError, match=message):
            tree_batches([one, other], 2)


@pytest.mark.parametrize(
    "features",
    [["1"], [True, False], [1.0, True], ("a",), np.array([True]), np.array(["1"]), [1e39], [-1e39]],
)
def test_features_are_finite_numbers(features):
    """Neither texts nor truth values, and no warning of NumPy next to the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"The vector of features of root is .*; expected"):
            encode_objects(0, children_of=lambda _: [], features_of=lambda _: features)
        with pytest.raises(ValueError, match=r"The label of root is 1e\+39; expected a finite"):
            encode_objects(
                0, children_of=lambda _: [], token_of=lambda _: 1, label_of=lambda _: 1e39
            )


@pytest.mark.parametrize(
    "features", [[1, 2.5], (np.int64(1), np.float64(2.5)), np.array([1, 2.5], object)]
)
def test_features_may_be_numbers_of_any_type(features):
    found = encode_objects(0, children_of=lambda _: [], features_of=lambda _: features)
    np.testing.assert_array_equal(found.tokens, np.float32([[1, 2.5]]))
