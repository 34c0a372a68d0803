"""The shape of the repository: which way imports go, and what is shipped."""

import ast
import functools
import graphlib
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kerasrec" / "_src"

# A module imports from its own folder and from folders and modules before it.
ORDER = [
    "options",
    "ops",
    "graph",
    "trace",
    "datatypes",
    "transform",
    "schedule",
    "emit",
    "waves",
    "memo",
    "scalar",
    "frames",
    "engine",
    "inspect",
    "function",
    "compile",
    "recursive",
    "public",
    "layers",
    "datasets",
    "training",
]
# The same within datasets.
ORDER_OF_DATASETS = [
    "validation",
    "trees",
    "readers",
    "encode",
    "batch",
    "files",
    "treebank",
    "plotting",
]
# Any module may import these; they import nothing else of kerasrec.
SHARED = {
    "autograph",
    "errors",
    "half_precision",
    "host",
    "int_range",
    "links",
    "powers_of_two",
    "private",
    "row_ids",
    "short_repr",
    "shuffling",
    "sparse_gradients",
    "text",
}
# These folders import no more than this: datasets and training are independent of compiler and
# layers, and layers is written with the names that a user has, and with the facts of schemas about
# fields.
ALONE = {
    "datasets": {
        "autograph",
        "int_range",
        "links",
        "powers_of_two",
        "row_ids",
        "short_repr",
        "shuffling",
        "text",
    },
    "training": SHARED,
    "layers": {"public", "datatypes", *SHARED},
}
# With these exceptions. Graphs of whole programs draw themselves. Layers declare what their methods
# return, whether a cell draws random numbers, and whether it mixes tree nodes.
EXCEPTIONS = {
    "graph/graph.py": {"kerasrec._src.inspect.drawable", "kerasrec._src.inspect.scopes"},
    "layers/*.py": {
        "kerasrec._src.engine.choice",
        "kerasrec._src.graph.graph",
        "kerasrec._src.inspect.run_trace",
    },
    "layers/cell.py": {"kerasrec._src.trace.tracer"},
    "layers/inputs.py": {
        "kerasrec._src.graph.nodes",
        "kerasrec._src.trace.functions",
    },
}
# The only module of a folder that others import.
DOORS = {"scalar": "kerasrec._src.scalar.scalar_run"}
# Folders that use kerasrec as a user does.
OUTSIDE = ["models", "examples", "benchmarks", "data"]
# The modules that may reach into TensorFlow or Keras where there is no public way. The benchmark
# asks TensorFlow which kernels it has.
PRIVATE_ALLOWED = {"kerasrec/_src/private.py", "benchmarks/copies.py"}
# The names that kerasrec itself writes onto objects that are not its own: the methods of a user's
# object, and a mark on a mask. And the end of a folder's name that TensorFlow's checkpoints leave.
OWN_STRINGS = {"_is_of_tree_nodes", "_recursive_methods", "_temp"}


def imports(source: str, package: str) -> Iterator[tuple[int, str, str]]:
    """Yields (line, module, name) for each import in `source`, a module of `package`.

    `import a.b` has no name; `from a import b` has the name b.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ""
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                yield node.lineno, ".".join(base), alias.name


def modules_of(folder: Path) -> dict[str, Path]:
    """The modules in a package, by name."""
    names = {path: path.relative_to(ROOT).with_suffix("") for path in folder.rglob("*.py")}
    return {".".join(name.parts).removesuffix(".__init__"): path for path, name in names.items()}


def imported(source: str, package: str, modules: Collection[str]) -> set[str]:
    """Which of `modules` a module imports, also inside functions."""
    found = {(f"{module}.{name}", module) for _, module, name in imports(source, package)}
    return {full if full in modules else module for full, module in found} & set(modules)


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other, the first one last again; empty if none do."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def wrong_way(
    source: str, package: str, folder: str = "", excepted: Collection[str] = ()
) -> Iterator[tuple[int, str]]:
    """Imports in a folder of kerasrec, or in a module next to the folders, against `ORDER`."""
    folder = folder or package.split(".")[2]
    before = ALONE.get(folder, {*SHARED, *ORDER[: ORDER.index(folder)]})
    for line, module, name in imports(source, package):
        parts = [*module.split("."), name]
        is_public = parts[0] == "kerasrec" and parts[1] != "_src"
        is_later = parts[:2] == ["kerasrec", "_src"] and parts[2] not in {folder, *before}
        if is_public or (is_later and module not in excepted):
            yield line, f"{folder} must not import {'.'.join(filter(None, parts))}"


def around_the_door(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Imports of modules behind the door of another folder."""
    for line, module, name in imports(source, package):
        for folder, door in DOORS.items():
            of_folder = f"kerasrec._src.{folder}"
            is_inside = f"{module}.{name}.".startswith(f"{of_folder}.")
            if package != of_folder and is_inside and door not in (module, f"{module}.{name}"):
                yield line, f"{module} {name}".rstrip() + f" stands behind {door}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def not_public(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Uses of kerasrec beyond `kerasrec.Name` and `kerasrec.folder.Name`."""
    for line, module, name in imports(source, package):
        parts = module.split(".")
        if parts[0] == "kerasrec" and (
            len(parts) > 2 or name == "*" or any(is_private(part) for part in [*parts, name])
        ):
            yield line, f"{module} {name}".rstrip() + " is not public"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            attribute = ast.unparse(node)
            if attribute.startswith("kerasrec."):
                yield node.lineno, f"{attribute} is not public"


def reaches_inside(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Imports of private names of TensorFlow and Keras."""
    for line, module, name in imports(source, package):
        if f"{module}.{name}.".startswith(("tensorflow.python.", "keras.src.")):
            yield line, f"{module} {name}".rstrip() + " is private"


def own_private_names(files: list[Path]) -> set[str]:
    """Private names that kerasrec gives its classes and objects, and those of named tuples."""
    own = {"_asdict", "_fields", "_replace", *OWN_STRINGS}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(getattr(node, "ctx", None), ast.Store):
                if isinstance(node, ast.Name):
                    own.add(node.id)
                elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                    own.add(node.attr)
    return own


def reaches_into_objects(source: str, package: str, own: set[str]) -> Iterator[tuple[int, str]]:
    """Private names that are not kerasrec's own: attributes `x._name`, and strings `"_name"`."""
    tree = ast.parse(source)
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {part for node in formatted for part in node.values}
    for node in ast.walk(tree):
        if node in parts:
            continue
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "value", None)
        is_name = isinstance(name, str) and re.fullmatch(r"_[A-Za-z]\w*", name)
        if is_name and is_private(name) and name not in own:
            yield node.lineno, f"{name} is private"


def names_inside(source: str) -> set[str]:
    """The names of TensorFlow and Keras that are not public, in `private.py`: what it imports, the
    attributes of that, private attributes, and strings that name attributes or ops of XLA."""
    imported = {
        name
        for _, module, name in imports(source, "kerasrec")
        if module.startswith(("tensorflow.python.", "keras.src."))
    }
    found = set(imported)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            of_imported = isinstance(node.value, ast.Name) and node.value.id in imported
            if of_imported or is_private(node.attr):
                found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"^(?:_[a-z]\w*|outer_graph|Xla\w+)$", node.value))
    return found


@functools.cache
def names_of_ops() -> frozenset[str]:
    """The names of TensorFlow's ops. "For" is a word of Python's own grammar."""
    import tensorflow as tf

    return frozenset(name for name in dir(tf.raw_ops) if name[0].isupper()) - {"For"}


def names_ops(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Strings of names of TensorFlow's ops, and of how such names begin or end."""
    tree = ast.parse(source)
    values = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        words = node.value.split() if isinstance(getattr(node, "value", None), str) else []
        if words and names_of_ops().issuperset(words):
            yield node.lineno, f"{words[0]} is an op: ops/table.py has its facts"
        for part in _compared_parts(node, values):
            if part[:1].isupper() and any(part in name for name in names_of_ops()):
                yield node.lineno, f"{part} is part of ops' names: ops/table.py has their facts"


def _compared_parts(node: ast.AST, values: dict[str, ast.AST]) -> Iterator[str]:
    """Strings that other strings are tested to begin or end with, or to hold."""
    compared: list[ast.AST] = []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        methods = ("startswith", "endswith", "removeprefix", "removesuffix", "find", "count")
        compared = node.args if node.func.attr in methods else []
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        compared = [node.left]
    for argument in compared:
        known = values.get(argument.id) if isinstance(argument, ast.Name) else argument
        for part in ast.walk(known) if known else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


REACHES_INTO = functools.partial(reaches_into_objects, own={"_own"})


def offences(rule, files: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {message}"
        for path in files
        for line, message in rule(
            path.read_text(encoding="utf-8"), ".".join(path.relative_to(ROOT).parts[:-1])
        )
    ]


def python_files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def test_every_folder_and_module_has_its_place_in_the_order():
    paths = [path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.glob("**/*.py")]
    others = {"__init__", "keras_backend", *SHARED}
    assert {path.parts[0] for path in paths} == {*ORDER, *others}


@pytest.mark.many
def test_imports_go_one_way():
    for path in python_files(PACKAGE):
        folder = path.relative_to(PACKAGE).with_suffix("").parts[0]
        patterns = [pattern for pattern in EXCEPTIONS if path.match(pattern)]
        excepted = set().union(*(EXCEPTIONS[pattern] for pattern in patterns))
        if folder in ORDER:
            rule = functools.partial(wrong_way, folder=folder, excepted=excepted)
            assert offences(rule, [path]) == []


@pytest.mark.many
def test_imports_within_datasets_go_one_way():
    for path in python_files(PACKAGE / "datasets"):
        part = path.relative_to(PACKAGE / "datasets").with_suffix("").parts[0]
        modules = {module for _, module, _ in imports(path.read_text("utf-8"), "")}
        inside = "kerasrec._src.datasets."
        imported = {name.split(".")[3] for name in modules if name.startswith(inside)}
        if part != "__init__":
            before = ORDER_OF_DATASETS[: ORDER_OF_DATASETS.index(part)]
            assert imported <= {part, *before}, path


@pytest.mark.parametrize(
    ("pattern", "module"),
    [(pattern, name) for pattern, names in EXCEPTIONS.items() for name in sorted(names)],
)
def test_exceptions_are_needed(pattern, module):
    others = functools.partial(wrong_way, excepted=EXCEPTIONS[pattern] - {module})
    assert offences(others, sorted(PACKAGE.glob(pattern))) != []


@pytest.mark.many
def test_folders_are_entered_by_their_door():
    assert offences(around_the_door, python_files(PACKAGE)) == []


def test_what_all_may_import_imports_nothing_else():
    for name in SHARED:
        source = (PACKAGE / f"{name}.py").read_text(encoding="utf-8")
        found = imported(source, "kerasrec", modules_of(PACKAGE))
        assert found <= {f"kerasrec._src.{other}" for other in SHARED}


@pytest.mark.many
def test_facts_about_ops_are_in_one_place():
    folders = ORDER[ORDER.index("ops") + 1 : ORDER.index("public")]
    files = [path for path in python_files(PACKAGE) if _is_in(path, folders)]
    assert offences(names_ops, files) == []


def _is_in(path: Path, folders: Collection[str]) -> bool:
    return path.relative_to(PACKAGE).with_suffix("").parts[0] in folders


@pytest.mark.many
def test_no_modules_import_each_other():
    modules = modules_of(PACKAGE)
    packages = {name: ".".join(path.relative_to(ROOT).parts[:-1]) for name, path in modules.items()}
    found = {
        name: imported(path.read_text("utf-8"), packages[name], modules)
        for name, path in modules.items()
    }
    assert cycle(found) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from kerasrec._src.graph import graph", ["kerasrec._src.graph.graph"]),
        ("from kerasrec._src.graph.graph import Node", ["kerasrec._src.graph.graph"]),
        ("def f():\n    import kerasrec._src.graph.graph", ["kerasrec._src.graph.graph"]),
        ("from . import graph, other", ["kerasrec._src.graph", "kerasrec._src.graph.graph"]),
        ("import tensorflow as tf", []),
    ],
)
def test_imports_are_found(line, expected):
    modules = {"kerasrec._src.graph", "kerasrec._src.graph.graph"}
    assert sorted(imported(line, "kerasrec._src.graph", modules)) == expected


def test_cycles_are_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert sorted(cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}})) == ["b", "b", "c"]


@pytest.mark.many
def test_models_examples_benchmarks_and_data_use_public_names():
    assert offences(not_public, python_files(*(ROOT / folder for folder in OUTSIDE))) == []


@pytest.mark.many
def test_tensorflow_and_keras_are_used_by_their_public_names():
    files = python_files(PACKAGE, *(ROOT / folder for folder in OUTSIDE))
    allowed = {ROOT / name for name in PRIVATE_ALLOWED}
    assert offences(reaches_inside, [path for path in files if path not in allowed]) == []


@pytest.mark.many
def test_objects_of_tensorflow_and_keras_are_used_by_their_public_names():
    files = python_files(PACKAGE)
    rule = functools.partial(reaches_into_objects, own=own_private_names(files))
    allowed = {ROOT / name for name in PRIVATE_ALLOWED}
    assert offences(rule, [path for path in files if path not in allowed]) == []


def test_the_names_that_are_not_public_are_listed():
    listed = (ROOT / "docs/releasing.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\w+", listed.partition("### Names that are not public")[2]))
    names = names_inside((PACKAGE / "private.py").read_text(encoding="utf-8"))
    assert {"in_stateless_scope", "stop_recording", "_keras_mask", "XlaDynamicSlice"} <= names
    assert names - listed == set()


@pytest.mark.parametrize(
    ("rule", "package", "good", "bad"),
    [
        (
            wrong_way,
            "kerasrec._src.trace",
            "from kerasrec._src.graph import Node",
            "import kerasrec._src.engine",
        ),
        (
            wrong_way,
            "kerasrec._src.trace",
            "from kerasrec._src import errors",
            "from kerasrec import cond",
        ),
        (wrong_way, "kerasrec._src.trace", "from ..graph import Node", "from .. import engine"),
        (wrong_way, "kerasrec._src.trace", "from . import tracer", "import kerasrec"),
        (wrong_way, "kerasrec._src.datasets", "import keras", "from kerasrec._src import errors"),
        (
            wrong_way,
            "kerasrec._src.training",
            "from kerasrec._src import errors",
            "from .. import layers",
        ),
        (
            wrong_way,
            "kerasrec._src.layers",
            "from ..public import cond",
            "from ..trace import collect",
        ),
        (
            around_the_door,
            "kerasrec",
            "import kerasrec._src.scalar.scalar_run",
            "import kerasrec._src.scalar",
        ),
        (
            around_the_door,
            "kerasrec._src",
            "from .scalar import scalar_run",
            "from .scalar.ops import OPS",
        ),
        (not_public, "models", "import kerasrec", "import kerasrec._src.layers.tree_lstm"),
        (not_public, "models", "from kerasrec import cond", "from kerasrec import _cond"),
        (not_public, "models", "from kerasrec.layers import RNTN", "from kerasrec.layers import *"),
        (not_public, "models", "kerasrec.cond()", "kerasrec.layers._cells.RNTN()"),
        (names_ops, "kerasrec", "kind == 'MERGE'", "kind == 'AddV2'"),
        (names_ops, "kerasrec", "'Switch to Relu'", "_OPS = 'Relu Relu6'.split()"),
        (names_ops, "kerasrec", "name.endswith('_grad')", "name.endswith('V2')"),
        (names_ops, "kerasrec", "'Stateless draws' in text", "'Stateless' in name"),
        (
            names_ops,
            "kerasrec",
            "_PATHS = ('/usr',)\nname.startswith(_PATHS)",
            "_DRAWS = ('Stateless',)\nname.startswith(_DRAWS)",
        ),
        (REACHES_INTO, "kerasrec", "x._own", "x._other = 1"),
        (REACHES_INTO, "kerasrec", "getattr(x, '_own')", "getattr(x, '_other', None)"),
        (REACHES_INTO, "kerasrec", "attributes['_own']", "attributes = {'_other': True}"),
        (reaches_inside, "models", "import keras", "from keras.src import ops"),
        (reaches_inside, "models", "import keras.ops", "import keras.src"),
        (reaches_inside, "models", "import tensorflow", "from tensorflow import python"),
    ],
)
def test_rules_tell_good_from_bad(rule, package, good, bad):
    assert list(rule(good, package)) == []
    assert len(list(rule(bad, package))) == 1


@pytest.mark.slow
def test_the_wheel_holds_kerasrec_and_its_treebank_alone(tmp_path):
    pytest.importorskip("hatchling", reason="pyproject.toml asks for it")
    wheel = f"-m pip wheel --quiet --no-deps --no-index --no-build-isolation -w {tmp_path} {ROOT}"
    subprocess.run([sys.executable, *wheel.split()], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    folders = {path.name for path in (tmp_path / "installed").iterdir()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"kerasrec"}
    code = "import kerasrec.datasets as d; print(d.__file__, len(d.load_treebank().train))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
    )
    file, size = done.stdout.split()
    assert file.startswith(str(tmp_path)) and size == "4000"
