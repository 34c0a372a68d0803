import pytest

from kerasrec.datasets import check_tree

NONE = [-1, -1]


def test_takes_trees_of_any_arity_with_padding():
    check_tree([0, 2, 3, 0], [[1, 2], NONE, NONE, NONE], [4, 0, -1, -1], num_classes=5)
    check_tree([2, 3, 4, 5], [[1, 2, 3], [-1] * 3, [-1] * 3, [-1] * 3])
    check_tree([0, 0, 3], [[-1, 1], [2, -1], NONE])


@pytest.mark.parametrize(
    ("tokens", "children", "labels", "reason"),
    [
        ([], [], None, r"children is float64 \[0\]; expected integers \[nodes, arity\]"),
        ([0], [NONE], None, "Empty tree"),
        ([[[2]]], [NONE], None, r"tokens is int64 \[1, 1, 1\].* without a batch axis"),
        ([2.0], [NONE], None, r"tokens is float64 \[1\]; expected integers"),
        ([2, 3], [NONE], None, "tokens has 2 tree nodes but children has 1"),
        ([2, -3], [[1, -1], NONE], None, "Token -3 of tree node 1 is negative"),
        ([0, 2], [[1, 2], NONE], None, "Child 1 of tree node 0 is 2, out of range; .* 1 to 1"),
        ([0, 2], [[1, -2], NONE], None, "Child 1 of tree node 0 is -2, out of range"),
        ([2, 0], [NONE, [0, -1]], None, "node 0 must be the root, but .* child of tree node 1"),
        ([0, 2], [[0, 1], NONE], None, "node 0 must be the root, but .* child of tree node 0"),
        ([0, 0, 2], [[1, 2], [2, -1], NONE], None, "node 2 is a child of tree nodes 0 and 1"),
        ([0, 2], [[1, 1], NONE], None, "node 1 is a child of tree nodes 0 and 0"),
        ([2, 0, 0], [NONE, [2, -1], [1, -1]], None, "Tree nodes [12] -> [12] -> [12] form a cycle"),
        ([2, 0, 0, 3], [NONE, [1, -1], NONE, NONE], None, "Tree nodes 1 -> 1 form a cycle"),
        ([0, 2, 3], [[1, -1], NONE, NONE], None, "Tree node 2 cannot be reached"),
        ([0, 0, 3], [[2, -1], NONE, NONE], None, "Tree node 1 cannot be reached.* padding"),
        ([0, 2, 0], [[1, -1], NONE, NONE], [0, 0, 0], "Tree node 2 cannot be reached"),
        (
            [0, 2],
            [[1, -1], NONE],
            [0, 5],
            "Label 5 of tree node 1 is out of range; expected 0 to 4",
        ),
        ([0, 2], [[1, -1], NONE], [-2, 0], "Label -2 of tree node 0"),
        ([0, 2], [[1, -1], NONE], [0.5, 1e300], "Label 1e.300 of tree node 1 is out of range"),
        ([[0.5], [-1e300]], [[1, -1], NONE], None, "feature of tree node 1 is not a finite number"),
        ([0, 2], [[1, -1], NONE], [0], "labels has 1 tree nodes but tokens has 2"),
    ],
)
def test_names_tree_node_and_value(tokens, children, labels, reason):
    with pytest.raises(ValueError, match=reason):
        check_tree(tokens, children, labels, num_classes=5)
