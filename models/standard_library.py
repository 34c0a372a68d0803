"""Functions of Python's standard library, and whether they return from inside a loop."""

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

Labeled = tuple[ast.FunctionDef, bool]  # a function, and the property
Example = tuple[str, ast.FunctionDef, bool]  # its module, its tree, and the property
LOOPS = (ast.For, ast.While, ast.AsyncFor)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def functions(folder: Path) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The module and the tree of each function in the Python files of a folder."""
    for file in sorted(folder.rglob("*.py")):
        name = str(file.relative_to(folder))
        if any(part in name for part in ("test", "site-packages", "idlelib", "lib2to3")):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(file.read_text(encoding="utf-8", errors="ignore"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield name, node


def returns_in_a_loop(node: ast.AST, in_loop: bool = False) -> tuple[bool, bool, bool]:
    """Whether a function has a loop, a `return`, and one inside a loop; not in inner functions."""
    is_loop, is_return = isinstance(node, LOOPS), isinstance(node, ast.Return)
    found = [(is_loop, is_return, is_return and in_loop)]
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            found.append(returns_in_a_loop(child, in_loop or is_loop))
    has_loop, has_return, has_both = map(any, zip(*found, strict=True))
    return has_loop, has_return, has_both


def examples(folder: Path, most_nodes: int) -> list[Example]:
    """Functions with a loop and a `return`: module, tree, and the property."""
    found = []
    for module, tree in functions(folder):
        has_loop, has_return, label = returns_in_a_loop(tree)
        if has_loop and has_return and sum(1 for _ in ast.walk(tree)) <= most_nodes:
            found.append((module, tree, label))
    return found


def read(folder: Path, most_nodes: int) -> tuple[list[Labeled], list[Labeled]]:
    """Functions to train on, and functions to test on, which are of a fifth of the modules."""
    found = examples(folder, most_nodes)
    modules = sorted({module for module, *_ in found})
    tested = set(np.random.default_rng(0).permutation(modules)[: len(modules) // 5])
    train = [(tree, label) for module, tree, label in found if module not in tested]
    return train, [(tree, label) for module, tree, label in found if module in tested]
