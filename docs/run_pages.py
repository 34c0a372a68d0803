"""Runs the Python blocks of the pages; a text block right after one must be its output.

    python docs/run_pages.py [--seconds] [PAGE ...]

runs all pages, or those that are named, two at a time. The ```python blocks of a page share one
namespace, and run in a separate process, in the root of the repository.
KERASREC_UPDATE_GOLDEN=1 writes the printed lines into the pages instead of checking them.
"""

import argparse
import contextlib
import difflib
import gc
import io
import multiprocessing
import os
import re
import sys
import tempfile
import time
import traceback
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<text>.*?)```\n)?", re.DOTALL)
# Answers are to be the same on every machine, so no GPU is used.
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "KERAS_BACKEND": "tensorflow",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
# A page should take five seconds on an idle machine; one that takes this long hangs.
MAX_SECONDS = 300


def pages() -> list[str]:
    """The pages with Python blocks, by their paths from the root; long pages begin first."""
    found = [ROOT / "README.md", ROOT / "data/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found.sort(key=lambda page: page.stat().st_size, reverse=True)
    return [str(page.relative_to(ROOT)) for page in found if BLOCK.search(_read(page))]


def run(page: str, folder: Path) -> tuple[str, dict]:
    """Runs the blocks of a page in this process.

    Args:
        page: its path from the root of the repository.
        folder: for Python files of the blocks, which tracebacks show. A block that begins with a
            comment such as `# power.py` is in a file of that name; all others are in one file, at
            the lines where they are in the page.

    Returns:
        The page with the printed lines, and the namespace of its blocks.
    """
    content = _read(ROOT / page)
    # Dataclasses look for the module that a class is declared in.
    module = sys.modules["page"] = types.ModuleType("page")
    namespace = vars(module)
    (folder / "page.py").write_text(_code_alone(content), encoding="utf-8")

    def run_block(match: re.Match) -> str:
        code = match["code"]
        named = re.match(r"# (\w+\.py)\n", code)
        if named:
            file = folder / named[1]
            file.write_text(code, encoding="utf-8")
        else:
            file = folder / "page.py"
            code = "\n" * content.count("\n", 0, match.start("code")) + code
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(file), "exec"), namespace)
        if match["text"] is None:
            return match[0]
        start = match.start("text") - match.start()
        return match[0][:start] + printed.getvalue() + match[0][start + len(match["text"]) :]

    return BLOCK.sub(run_block, content), namespace


def check(page: str, tells_seconds: bool) -> None:
    """Runs a page and ends the process: with an error if the page has other printed lines."""
    start = time.monotonic()
    # Imported modules stay, and graphs are many objects that live on: looking through them for
    # garbage as often as Python does by default takes 10% of the time.
    gc.freeze()
    gc.set_threshold(200_000, 20, 20)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as messages:
        os.dup2(messages.fileno(), sys.stderr.fileno())  # TensorFlow's; shown if the page fails
        try:
            found, namespace = run(page, Path(folder))
            if page == "README.md":
                check_readme(namespace)
        except BaseException:
            messages.seek(0)
            print(f"{messages.read()}\n{traceback.format_exc()}")
            print(f"{page} fails; lines of page.py are lines of the page.", flush=True)
            sys.exit(1)
    if tells_seconds:
        seconds = f"{time.monotonic() - start:5.1f} s ({time.process_time():5.1f} s of CPU)"
        print(f"{seconds}  {page}", flush=True)
    content = _read(ROOT / page)
    if os.environ.get("KERASREC_UPDATE_GOLDEN"):
        (ROOT / page).write_text(found, encoding="utf-8")
    elif found != content:
        lines = [text.splitlines(keepends=True) for text in (content, found)]
        print("".join(difflib.unified_diff(*lines, page, "what its blocks print")), flush=True)
        sys.exit(1)


def check_readme(namespace: dict) -> None:
    """The figures of the README's model depend on the machine, but not by this much."""
    batches = namespace["treebank"].batches("dev", 100)
    figures = namespace["model"].evaluate(batches, verbose=0, return_dict=True)
    assert figures["root_accuracy"] > 0.85, figures  # 0.94 in the README; chance is 0.2.


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="paths; all pages by default")
    parser.add_argument("--seconds", action="store_true", help="print the seconds of each page")
    options = parser.parse_args()
    chosen = [str(Path(page).resolve().relative_to(ROOT)) for page in options.pages] or pages()

    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # A process imports the modules that pages share, and is forked for each: TensorFlow's imports
    # take seconds.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["kerasrec.datasets", "kerasrec.layers", "kerasrec.training"])

    def passes(page: str) -> bool:
        process = context.Process(target=check, args=(page, options.seconds))
        process.start()
        process.join(MAX_SECONDS)
        if process.is_alive():
            print(f"{page} runs for more than {MAX_SECONDS} s and is stopped.", flush=True)
            process.kill()
            process.join()
        return process.exitcode == 0

    with ThreadPoolExecutor(2) as pool:
        failed = [page for page, ok in zip(chosen, pool.map(passes, chosen), strict=True) if not ok]
    if failed:
        sys.exit(f"{len(failed)} of {len(chosen)} pages failed: {', '.join(failed)}")
    print(f"{len(chosen)} pages show the output of their blocks.")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _code_alone(content: str) -> str:
    """The lines of Python blocks, where they are in the page; other lines are empty."""
    kept, end = "", 0
    for match in BLOCK.finditer(content):
        kept += "\n" * content.count("\n", end, match.start("code")) + match["code"]
        end = match.end("code")
    return kept


if __name__ == "__main__":
    main()
