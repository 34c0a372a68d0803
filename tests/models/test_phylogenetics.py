"""Likelihoods of trees: against closed forms, sums over states, a plain loop and differences."""

import itertools
import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import phylogenetics
from kerasrec.datasets import parse_newick
from phylogeny import pruning
from phylogeny.alignments import align, read_fasta
from phylogeny.fitting import climb, fit, start, totals
from phylogeny.neighbor_joining import distances, neighbor_joining
from phylogeny.picture import draw
from phylogeny.substitution import Substitution
from phylogeny.tree_likelihood import Phylogeny
from phylogeny.unrooted_trees import as_arrays, interchanges, unrooted
from tests.parameters import few_of

# Columns that are the same, that tell apes from others, and rodents, only of the hen, and mixed.
SEQUENCES = {
    "human": "ACGTACGTACGTACGT" + "CCTT" + "ATGC" + "AGAT" + "NA-C",
    "chimp": "ACGTACGTACGTACGT" + "CCTT" + "ATGC" + "AGAT" + "RACT",
    "mouse": "ACGTACGTACGTACGT" + "GAAC" + "TGCA" + "AGAT" + "GACC",
    "rat": "ACGTACGTACGTACGT" + "GAAC" + "TGCA" + "AGAT" + "?ACC",
    "hen": "ACGTACGTACGTACGT" + "GAAC" + "ATGC" + "GTCA" + "TGCY",
}
NEWICK = "((human:0.02,chimp:0.03):0.1,(mouse:0.05,rat:0.08):0.06,hen:0.4);"
ALIGNMENT = align(SEQUENCES)
TREE = parse_newick(NEWICK)


def make_model(newick=NEWICK, general=True, categories=4, sequences=SEQUENCES):
    """A model of one tree, with weights that are not those at the beginning."""
    model = Phylogeny(len(sequences), 1, general, categories)
    model.assign([as_arrays(parse_newick(newick), list(sequences))])
    if general:
        model.substitution.log_exchanges.assign([0.1, 1.2, -0.3, 0.2, 1.5, 0.0])
        model.substitution.logits.assign([0.3, -0.2, 0.1, 0.0])
    if categories > 1:
        model.substitution.log_shape.assign(np.log(0.5))
    return model


def stays(length):
    """That a state is the same at both ends, by Jukes and Cantor 1969."""
    return 0.25 + 0.75 * math.exp(-4 / 3 * length)


@pytest.mark.slow
def test_two_taxa_have_a_closed_form():
    sequences = {"a": "AACG", "b": "ATCN"}
    model = make_model("(a:0.1,b:0.25);", False, 1, sequences)
    alignment = align(sequences)
    same, other = math.log(stays(0.35) / 4), math.log((1 - stays(0.35)) / 3 / 4)
    # An N tells nothing, so only the G is left.
    np.testing.assert_allclose(
        totals(model, alignment), [2 * same + other + math.log(0.25)], rtol=1e-13
    )


@pytest.mark.slow
def test_the_best_length_between_two_taxa_is_the_distance():
    sequences = {"a": "ACGTACGTAC", "b": "ACGTACGTGT"}
    alignment = align(sequences)
    model = make_model("(a:0.1,b:0.1);", False, 1, sequences)
    fit(model, alignment, 150, 0.1)
    expected = -0.75 * math.log(1 - 4 / 3 * 0.2)
    np.testing.assert_allclose(np.sum(model.lengths), expected, rtol=1e-5)
    np.testing.assert_allclose(distances(alignment), expected * (1 - np.eye(2)), rtol=1e-12)


@pytest.mark.slow
def test_it_sums_over_the_states_of_inner_nodes():
    model = make_model(general=False, categories=1)
    may_be = (ALIGNMENT.columns[..., np.newaxis] >> np.arange(4)) & 1
    matrix = {
        length: np.where(np.eye(4), stays(length), (1 - stays(length)) / 3)
        for length in TREE.lengths[1:]
    }
    expected = 0.0
    for root, apes, rodents in itertools.product(range(4), repeat=3):
        ways = 0.25 * matrix[0.1][root, apes] * matrix[0.06][root, rodents]
        for taxon, (above, length) in enumerate(
            [(apes, 0.02), (apes, 0.03), (rodents, 0.05), (rodents, 0.08), (root, 0.4)]
        ):
            ways = ways * (may_be[:, taxon] @ matrix[length][above])
        expected = expected + ways
    found = model.predict_on_batch(ALIGNMENT.columns)[:, 0]
    np.testing.assert_allclose(found, np.log(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("general", "categories"),
    few_of([(False, 1), (False, 4), (True, 1), (True, 4)], many=[(True, 4)]),
)
def test_it_is_what_a_plain_loop_finds(general, categories):
    model = make_model(general=general, categories=categories)
    assert pruning.difference(model, ALIGNMENT.columns) < 1e-9
    wrong = model.lengths[0] * 1.00001
    found = model.predict_on_batch(ALIGNMENT.columns)[:, 0]
    numbers = model.substitution.numbers()
    other = pruning.log_likelihoods(
        ALIGNMENT.columns, model.children.numpy()[0], wrong.numpy(), *numbers
    )
    assert np.max(np.abs(found / other - 1)) > 1e-9


@pytest.mark.slow
def test_gradients_are_those_of_differences():
    model = make_model()
    counts = tf.constant(ALIGNMENT.counts)

    def value():
        return tf.reduce_sum(counts * model(ALIGNMENT.columns)[:, 0])

    weights = [weight.value for weight in model.trainable_weights]
    assert len(weights) == 4
    with tf.GradientTape() as tape:
        total = value()
    gradients = tape.gradient(total, weights)
    rng = np.random.default_rng(1)
    for weight, gradient in zip(weights, gradients, strict=True):
        before, direction = weight.numpy(), rng.standard_normal(weight.shape)
        ends = []
        for step in (1e-5, -1e-5):
            weight.assign(before + step * direction)  # minus infinity stays so
            ends.append(value().numpy())
        weight.assign(before)
        along = np.sum(gradient * direction)
        np.testing.assert_allclose(along, (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-7)
        assert abs(along) > 1e-3


def test_rates_are_those_that_are_published():
    layer = Substitution(categories=4)
    layer.build(None)
    layer.log_shape.assign(np.log(0.5))
    # Of shape 0.5, as the PAML manual and many programs since print them.
    np.testing.assert_allclose(layer.rates(), [0.033388, 0.251916, 0.820268, 2.894428], atol=1e-6)


@pytest.mark.many
@pytest.mark.parametrize("shape", [0.05, 0.7, 3.0, 40.0])
def test_rates_depend_on_the_shape_as_differences_say(shape):
    layer = Substitution(categories=4)
    layer.build(None)

    def rates(log_shape):
        layer.log_shape.assign(log_shape)
        return layer.rates().numpy()

    found = rates(np.log(shape))
    np.testing.assert_allclose(found.mean(), 1.0, rtol=1e-12)
    with tf.GradientTape() as tape:
        of_layer = layer.rates()
    slopes = tape.jacobian(of_layer, layer.log_shape.value)
    wanted = (rates(np.log(shape) + 1e-4) - rates(np.log(shape) - 1e-4)) / 2e-4
    np.testing.assert_allclose(slopes, wanted, rtol=1e-5, atol=1e-7)


def test_general_model_with_equal_numbers_is_jukes_and_cantor():
    layer = Substitution(categories=1)
    layer.build(None)
    lengths = np.array([0.0, 1e-6, 0.3, 5.0])
    found = layer(tf.constant(lengths)).numpy()[:, 0]
    for matrix, length in zip(found, lengths, strict=True):
        expected = np.where(np.eye(4), stays(length), (1 - stays(length)) / 3)
        np.testing.assert_allclose(matrix, expected, rtol=1e-9, atol=1e-16)


@pytest.mark.slow
def test_a_likelihood_that_is_too_small_for_a_float():
    taxa = [f"t{i}" for i in range(900)]
    rng = np.random.default_rng(1)
    sequences = {name: "".join(rng.choice(list("ACGT"), 2)) for name in taxa}
    newick = taxa[0]
    for name in taxa[1:]:  # a chain
        newick = f"({newick}:0.05,{name}:0.05)"
    model = make_model(f"{newick};", sequences=sequences)
    columns = align(sequences).columns
    assert np.all(model.predict_on_batch(columns) < np.log(np.finfo(np.float64).tiny))
    assert pruning.difference(model, columns) < 1e-9


@pytest.mark.slow
def test_where_the_root_is_changes_nothing():
    rooted = "(((human:0.02,chimp:0.03):0.1,(mouse:0.05,rat:0.08):0.06):0.3,hen:0.1);"
    star = "(human:0.2,chimp:0.1,mouse:0.3,rat:0.1,hen:0.1);"
    nested = "((((human:0.2,chimp:0.1):0,mouse:0.3):0,rat:0.1):0,hen:0.1);"
    for one, other in ((NEWICK, rooted), (star, nested)):
        pair = [totals(make_model(newick), ALIGNMENT) for newick in (one, other)]
        np.testing.assert_allclose(*pair, rtol=1e-12)
    tree = unrooted(parse_newick(rooted))
    assert [len(row[row >= 0]) for row in tree.children] == [3, 2, 0, 0, 2, 0, 0, 0]
    assert sorted(tree.lengths[1:]) == sorted(TREE.lengths[1:])


@pytest.mark.parametrize(
    ("newick", "lengths"),
    [
        ("((A:0.1):0.4,B:0.2);", [0.5, 0.2]),
        ("(B:0.2,((A:0.1):0.4):0.25);", [0.75, 0.2]),
        ("((A):0.4,B);", [0.4, 0.0]),  # A missing length counts as 0 in the sum.
        ("((A:0.1),(((B:0.5))):1);", [0.1, 1.5]),
        ("(((A:0.1,B:0.2):7):7):7;", [0.1, 0.2]),  # There is no branch above the root.
        ("((A),B);", [0.0, 0.0]),
    ],
)
def test_lengths_along_a_chain_add(newick, lengths):
    tree = parse_newick(newick)
    children, found, places = as_arrays(tree, ["A", "B"])
    np.testing.assert_allclose(found, [*lengths, 0.0], rtol=1e-15)
    assert sorted(children[2]) == [0, 1] and (children[:2] == -1).all()
    assert [places[tree.names.index(name)] for name in "AB"] == [0, 1]


def test_lengths_of_chains_that_are_missing_become_the_shortest():
    arrays = as_arrays(parse_newick("(((A),C:0.1):2,(B:0.1):0.2);"), list("ABC"), 10.0, 0.5)
    # The leaves, the node above A and C, and the root.
    np.testing.assert_allclose(arrays.lengths, [0.5, 3.0, 1.0, 20.0, 0.0], rtol=1e-15)


def test_a_fitted_tree_shares_lengths_along_its_chains(tmp_path):
    tree = parse_newick("((((A:0.1):0.3,C:0.1):0.2,((B))):7);")
    arrays = as_arrays(tree, list("ABC"))
    fitted = arrays.fitted(tree, np.array([0.8, 0.6, 0.5, 0.4, 0.0]))
    assert (fitted.names, fitted.parents.tolist()) == (tree.names, tree.parents.tolist())
    # The root, the node below it, that above A and C, the chain of A, C, and the chain of B.
    wanted = [np.nan, np.nan, 0.4, 0.6, 0.2, 0.5, 0.2, 0.2, 0.2]
    np.testing.assert_allclose(fitted.lengths, wanted, rtol=1e-14)
    draw(fitted, "a stem without a length", tmp_path / "tree.png")
    assert (tmp_path / "tree.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("newick", "wanted"),
    [
        ("((A:.1,C:.1),B:.05);", "(A:.1,C:.1,B:.05);"),
        ("((A:.1,C:.1):.2,B);", "(A:.1,C:.1,B:.2);"),
        ("((A:.1,C:.1),B);", "(A:.1,C:.1,B);"),
        ("((A,C),B);", "(A,C,B);"),
        ("((A:.1,C:.1):.2,B:.05):9;", "(A:.1,C:.1,B:.25);"),
        ("(((A:.1,C:.1):.2):.1,((B:.05)):.5);", "(A:.1,C:.1,B:.85);"),  # chains below the root
        ("(((A:.1,C:.1):.2,B:.05):1);", "(A:.1,C:.1,B:.25);"),  # a root with one child
        ("(((A:.1,(C:.2):.1,B:.3):1):1);", "(A:.1,C:.3,B:.3);"),
        ("((A:.1,C:.1,D:.1):.2,(B:.05,E:.1):.2);", "(A:.1,C:.1,D:.1,(B:.05,E:.1):.4);"),
        ("(A:.1,(B:.2):.3);", "(A:.1,B:.5);"),
        ("((A:.1):.2);", "A;"),
    ],
)
def test_no_length_is_lost_where_the_root_was(newick, wanted):
    tree, wanted = unrooted(parse_newick(newick)), parse_newick(wanted)
    found, expected = branches(tree), branches(wanted)
    assert found.keys() == expected.keys() and len(tree.names) == len(wanted.names)
    for sides, length in expected.items():
        np.testing.assert_allclose(found[sides], length, rtol=1e-14)


def branches(tree):
    """The length of each branch, by the taxa on both sides of it."""
    below = [{name} - {""} for name in tree.names]
    for _ in tree.names:
        for node, parent in enumerate(tree.parents):
            if parent >= 0:
                below[parent] |= below[node]
    return {
        frozenset([frozenset(some), frozenset(set(tree.taxa) - some)]): length
        for some, length, parent in zip(below, tree.lengths, tree.parents, strict=True)
        if parent >= 0
    }


def clades(tree):
    """Of each branch, the taxa on that side where hen is not."""
    below = [{name} - {""} for name in tree.names]
    for _ in tree.names:
        for node, parent in enumerate(tree.parents):
            if parent >= 0:
                below[parent] |= below[node]
    return {frozenset(SEQUENCES.keys() - some if "hen" in some else some) for some in below}


def test_neighbors_differ_in_one_branch():
    found = list(interchanges(TREE))
    assert len({frozenset(clades(tree)) for tree in found}) == len(found) == 4
    assert all(len(clades(tree) & clades(TREE)) == len(clades(TREE)) - 1 for tree in found)


def test_neighbor_joining_finds_the_tree_of_its_distances():
    between = np.zeros([5, 5])
    taxa = list(SEQUENCES)
    children, lengths, _ = as_arrays(TREE, taxa)
    paths = [set() for _ in taxa]  # branches between a taxon and the root
    for taxon, path in enumerate(paths):
        node = taxon
        while node < len(children) - 1:
            path.add(node)
            node = int(np.flatnonzero((children == node).any(1))[0])
    for i, j in itertools.product(range(5), repeat=2):
        between[i, j] = sum(lengths[node] for node in paths[i] ^ paths[j])
    tree = neighbor_joining(between, taxa)
    assert clades(tree) == clades(TREE)
    np.testing.assert_allclose(np.sort(tree.lengths[1:]), np.sort(TREE.lengths[1:]), atol=1e-12)


@pytest.mark.slow
def test_many_trees_in_one_batch_and_others_without_a_trace():
    trees = [TREE, *interchanges(TREE)]
    model = Phylogeny(5, len(trees), False, 1)
    arrays = [as_arrays(tree, ALIGNMENT.taxa) for tree in trees]
    model.assign(arrays)
    found = totals(model, ALIGNMENT)
    traces = model.num_traces
    model.assign(arrays[::-1])
    np.testing.assert_allclose(totals(model, ALIGNMENT), found[::-1], rtol=1e-13)
    assert model.num_traces == traces
    numbers = model.substitution.numbers()
    for total, (children, lengths, _) in zip(found, arrays, strict=True):
        columns = pruning.log_likelihoods(ALIGNMENT.columns, children, lengths, *numbers)
        np.testing.assert_allclose(total, ALIGNMENT.counts @ columns, rtol=1e-9)
    assert len(set(found.round(6))) == len(trees)


@pytest.mark.slow
def test_the_climb_ends_at_the_true_tree():
    wrong = next(interchanges(TREE))
    model = Phylogeny(5, 3, False, 1)  # five trees, so in two batches
    steps, traces = [], []
    for tree, total, _ in climb(model, wrong, ALIGNMENT, 40, 0.1):
        steps.append((clades(tree), total))
        traces.append(model.num_traces)
    assert steps[0][0] == clades(TREE) != clades(wrong)
    assert len(steps) == 2 and steps[1][1] >= steps[0][1]
    assert traces[0] == traces[1]


@pytest.mark.slow
def test_the_scale_of_lengths_in_years_is_found():
    years = TREE._replace(lengths=TREE.lengths * 1000)
    model = Phylogeny(5)
    start(model, years, ALIGNMENT)
    np.testing.assert_allclose(np.max(model.lengths), 0.4, rtol=1e-6)


@pytest.mark.many
def test_mistakes_in_files(tmp_path):
    path = tmp_path / "some.fasta"
    path.write_text(">a comment\nAC\ngt\n\n>b\nACGN\n")
    assert read_fasta(path) == {"a": "ACgt", "b": "ACGN"}
    alignment = align(read_fasta(path))
    assert alignment.columns.tolist() == [[1, 1], [2, 2], [4, 4], [8, 15]]
    np.testing.assert_allclose(alignment.frequencies, np.array([2, 2, 2, 1]) / 7)
    path.write_text("ACGT\n>a\n")
    with pytest.raises(ValueError, match="line 1: expected '>'"):
        read_fasta(path)
    path.write_text(">a\nAC\n>a\nAC\n")
    with pytest.raises(ValueError, match="line 3: a second sequence named 'a'"):
        read_fasta(path)
    path.write_text(">\nAC\n")
    with pytest.raises(ValueError, match="line 1: expected a name after '>'"):
        read_fasta(path)
    path.write_text(">a\nAC\n>b\n>c\nAC\n")
    with pytest.raises(ValueError, match="no letters of 'b'"):
        read_fasta(path)
    path.write_text("\n")
    with pytest.raises(ValueError, match="no letters at all"):
        read_fasta(path)
    with pytest.raises(ValueError, match="have one length"):
        align({"a": "AC", "b": "A"})


@pytest.mark.parametrize(
    ("taxa", "differences"),
    [
        ("ABCD", "not in the {}: 'D'"),
        ("AABC", "more than once: 'A'"),
        ("AB", "missing: 'C'"),
        ("AABD", "missing: 'C'; not in the {}: 'D'; more than once: 'A'"),
        ("DEFGH", "missing: 'A', 'B', 'C'; not in the {}: 'D', 'E', 'F', ... 5 in all"),
        ("", "missing: 'A', 'B', 'C'"),
        ([1, "B", "C", "A"], "not in the {}: 1"),
    ],
)
def test_taxa_of_a_tree_or_an_alignment_are_its_names_once(taxa, differences):
    for source, call in (
        ("tree", lambda taxa: as_arrays(parse_newick("((A:1,B:1):1,C:1);"), taxa)),
        ("alignment", lambda taxa: align(dict.fromkeys("BAC", "ACGT"), taxa)),
    ):
        wanted = f"The taxa are not those of the {source}; {differences.format(source)}. Pass"
        with pytest.raises(ValueError) as error:
            call(list(taxa))
        found = str(error.value).replace("'B', 'A', 'C'", "'A', 'B', 'C'")
        assert found.startswith(wanted)


def test_a_taxon_twice_in_a_tree():
    tree = parse_newick("(A,B,C);")._replace(names=["", "A", "A", "C"])
    with pytest.raises(ValueError, match="the tree; more than once: 'A'"):
        as_arrays(tree, ["A", "C"])


def test_a_number_of_distances_per_taxon():
    for taxa, shape in (("ABCD", (5, 5)), ("ABCDE", (5, 4)), ("AB", (2, 2)), ("", (0, 0))):
        with pytest.raises(ValueError, match=r"expected \[taxa, taxa\] of three taxa or more"):
            neighbor_joining(np.ones(shape), list(taxa))
    with pytest.raises(ValueError, match="a second leaf 'A'"):
        neighbor_joining(np.ones([3, 3]), ["A", "A", "B"])


@pytest.mark.parametrize(
    ("sequences", "reason"),
    [
        ({}, r"sequences is \{\}; expected a dict of letters by name"),
        (["AC", "AC"], r"sequences is \['AC', 'AC'\]; expected a dict"),
        ("AC", "sequences is 'AC'; expected a dict"),
        ({1: "AC"}, r"The name 1 has the type int; expected a str\. Pass str\(name\)"),
        ({b"a": "AC"}, "The name b'a' has the type bytes"),
        ({"a": ["A", "C"]}, r"of 'a' is \['A', 'C'\] \(type list\); .* as ''\.join\(letters\)"),
        ({"a": b"AC"}, r"of 'a' is b'AC' \(type bytes\); .* Pass bytes as letters\.decode\(\)"),
        ({"b": "AC", "a": None}, r"of 'a' is None \(type NoneType\)"),
        ({"a": "", "b": ""}, "No letter of the alignment is known: it is empty, or has only gaps"),
        ({"a": "NN?", "b": "--x"}, "No letter of the alignment is known"),
        ({"a": "N"}, r"Pass sequences with A, C, G, T or U\."),
        (
            {"a": "AC", "b": "A", "c": "GT"},
            r"there are 2 of 2 letters \(such as 'a'\), 1 of 1 letters \(such as 'b'\)\. Align",
        ),
    ],
)
def test_anything_but_aligned_sequences_is_named(sequences, reason):
    with pytest.raises(ValueError, match=reason):
        align(sequences)


def test_messages_and_reprs_of_many_taxa_are_short():
    sequences = {f"taxon number {place}": "ACGT" for place in range(900)}
    alignment = align(sequences)
    assert repr(alignment) == (
        "Alignment(taxa=['taxon number 0', 'taxon number 1', 'taxon number 2', ... 900 in all], "
        "columns=<int32 [4, 900]>, counts=<float64 [4]>)"
    )
    tree = parse_newick(f"({','.join(map(repr, sequences))});")
    assert repr(as_arrays(tree, alignment.taxa)) == (
        "TreeArrays(children=<int32 [1799, 2]>, lengths=<float64 [1799]>, places=<int32 [901]>)"
    )
    with pytest.raises(ValueError, match=r"others of 897 more lengths\. Align") as error:
        align({name: "A" * place for place, name in enumerate(sequences)})
    assert len(str(error.value)) < 300
    with pytest.raises(ValueError, match=r"missing: .* 900 in all; not in") as error:
        as_arrays(tree, [name + 10_000 * "x" for name in sequences])
    assert len(str(error.value)) < 400
    # Whether the few letters that are known count, and those of only one taxon.
    assert align({"a": "NNA", "b": "---"}).frequencies.tolist() == [1, 0, 0, 0]


def test_comments_of_fasta_are_left_out(tmp_path):
    path = tmp_path / "some.fasta"
    path.write_bytes(b"; a file\r\n>a x\r\n;of a: EFIL\r\nAC\r\n; inside\r\ngt\r\n>b\r\nACGN\r\n;")
    assert read_fasta(path) == {"a": "ACgt", "b": "ACGN"}
    # The first lines of the oldest files: a name after ';'.
    path.write_text(";a\n;of a\nACGT\n")
    with pytest.raises(ValueError, match=r"line 3: expected '>' and a name .* ';' is a comment"):
        read_fasta(path)
    path.write_text(">a\n;ACGT\n")
    with pytest.raises(ValueError, match="no letters of 'a'"):
        read_fasta(path)


@pytest.mark.parametrize(
    "written",
    [
        b"\xef\xbb\xbf>a first\nAC\ngt\n>b\nACGN\n",
        b">a\r\nAC\r\ngt\r\n>b\r\nACGN\r\n",
        b">a\rAC\rgt\r>b\rACGN\r",
        b"\xef\xbb\xbf>a\r\n ACgt\r\n\r\n>b\r\nA C\tG N",
    ],
)
def test_fasta_of_any_system(tmp_path, written):
    path = tmp_path / "some.fasta"
    path.write_bytes(written)
    assert read_fasta(path) == {"a": "ACgt", "b": "ACGN"}


def test_every_code_of_nucleotides():
    codes = "ACGTU" + "RYMKSWBDHV" + "NX?-.~"
    # Bits of A, C, G and T, by IUPAC's list.
    wanted = [1, 2, 4, 8, 8, 5, 10, 3, 12, 6, 9, 14, 13, 11, 7] + 6 * [15]
    for letters in (codes, codes.lower()):
        for letter, bits in zip(letters, wanted, strict=True):
            alignment = align({"a": "AAAA" + letter, "b": "AAAAA"})
            assert sorted(alignment.columns[:, 0]) == sorted({1, bits})


def test_proteins_are_refused(tmp_path):
    path = tmp_path / "proteins.fasta"
    path.write_text(">a\nMKV-\nATEW\n>b\nmkvl\nATFW\n")
    with pytest.raises(ValueError, match=r"'E' \(line 3\), 'l' \(line 5\), 'F' \(line 6\).*DNA"):
        read_fasta(path)
    with pytest.raises(ValueError, match=r"'\*' \(column 4 of 'b'\), 'E' \(column 3 of 'b'\)"):
        align({"a": "ACGT", "b": "ACE*"})
    with pytest.raises(ValueError, match="'é'"):
        align({"a": "ACé"})
    # All of these letters are also codes of nucleotides.
    with pytest.warns(UserWarning, match=r"D, H, K, M, R, S, V\) stand for several nucleotides"):
        align({"a": "MKVSTAR", "b": "MKVSDAH"})


@pytest.mark.filterwarnings("error")
def test_no_warning_for_gaps_and_some_ambiguous_codes():
    align({"a": "NNNN-ACGTR", "b": "????XACGTY"})


def test_half_a_surrogate_is_refused_at_reading(tmp_path):
    path = tmp_path / "some.fasta"
    for line in (b">b\xed\xa0\x80", b"A\xed\xb0\x80", b">b\xff"):
        path.write_bytes(b">a\nAC\n" + line + b"\nAC\n")
        with pytest.raises(ValueError, match=r"some\.fasta, line 3: bytes that are not UTF-8"):
            read_fasta(path)
    with pytest.raises(ValueError, match=r"'b\\ud800' contains an unpaired surrogate"):
        align({"a": "AC", "b\ud800": "AC"})
    with pytest.raises(ValueError, match=r"'\\udc00' \(column 2 of 'a'\)"):
        align({"a": "A\udc00", "b": "AC"})


@pytest.mark.slow
def test_from_end_to_end(tmp_path):
    for name in ("given", "searched"):
        text = "".join(f">{taxon}\n{letters}\n" for taxon, letters in SEQUENCES.items())
        (tmp_path / f"{name}.fasta").write_text(text)
    (tmp_path / "given.nwk").write_text(NEWICK)
    options = f"--data {tmp_path} --steps 60 --at-once 4 --output {tmp_path / 'out'}"
    run = {}
    for more in ("--names searched --models JC69", "--names given --models GTR+G"):
        some = phylogenetics.main(f"{options} {more}".split())
        assert json.loads((tmp_path / "out" / "results.json").read_text()) == some
        run |= some
    assert list(run) == ["searched, JC69", "given, GTR+G"]
    for row in run.values():
        assert row["after"] > row["before"]
        assert row["from NumPy"] < 1e-9
    folder = tmp_path / "out" / "given" / "GTR+G"
    model = keras.models.load_model(folder / "model.keras")
    np.testing.assert_allclose(totals(model, ALIGNMENT), run["given, GTR+G"]["after"], rtol=1e-9)
    served = tf.saved_model.load(folder / "export")
    longer = 2 * model.lengths
    np.testing.assert_allclose(
        served.log_likelihoods(ALIGNMENT.columns, longer),
        model.log_likelihoods(ALIGNMENT.columns, longer),
        rtol=1e-9,
    )
    assert (folder / "tree.png").stat().st_size > 1000
