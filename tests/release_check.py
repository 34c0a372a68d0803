"""Builds what is released into dist/, and checks it as a user gets it.

`make release-check` runs it. The wheel is installed into an empty environment, with its
dependencies and nothing else, and the README is run in an empty folder: there is no repository to
fall back on. Any step that fails ends it, with an error.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MAX_MEGABYTES = 1.0


def run(*command: object, **options: object) -> None:
    """Prints a command and runs it; ends everything if it fails."""
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], check=True, **options)


def _git(*command: str) -> str:
    done = subprocess.run(
        ["git", *command], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def build() -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it, in an emptied dist/."""
    changed = _git("status", "--porcelain")
    if changed:
        sys.exit(f"Only commits are released; these files differ from the last one:\n{changed}")
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> str:
    """Checks that the two hold what they should and nothing else; returns the version."""
    tracked = set(_git("ls-files").splitlines())
    with zipfile.ZipFile(wheel) as file:
        in_wheel = set(file.namelist())
        (metadata,) = (name for name in in_wheel if name.endswith(".dist-info/METADATA"))
        version = Parser().parsestr(file.read(metadata).decode())["Version"]
    with tarfile.open(sdist) as file:
        in_sdist = {item.name.partition("/")[2] for item in file if item.isfile()}
    info = metadata.removesuffix("METADATA")
    wanted = {name for name in tracked if name.startswith("kerasrec/")}
    wanted |= {f"kerasrec/_src/datasets/built_in/{name}.txt" for name in ("train", "dev", "test")}
    wanted |= {"kerasrec/py.typed", f"{info}licenses/LICENSE"}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    has_heading = f"\n## [{version}] - " in changelog
    megabytes = wheel.stat().st_size / 1e6
    problems = {
        "The wheel lacks": wanted - in_wheel,
        "The wheel should not hold": {
            name for name in in_wheel - wanted if not name.startswith(info)
        },
        "The wheel is too large, in MB": {megabytes} if megabytes > MAX_MEGABYTES else set(),
        "The source distribution lacks": tracked - in_sdist,
        "The source distribution should not hold": in_sdist - tracked - {"PKG-INFO"},
        "CHANGELOG.md has no heading for": set() if has_heading else {version},
    }
    found = [f"{what}: {sorted(which)}" for what, which in problems.items() if which]
    if found:
        sys.exit("\n".join(found))
    print(f"{wheel.name}: {megabytes:.2f} MB, {len(in_wheel)} files")
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.2f} MB, {len(in_sdist)} files")
    return version


def check_installed(wheel: Path, version: str) -> None:
    """Installs only the wheel, and runs the README where there is nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "venv", with_pip=True)
        python = home / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel)
        run(python, "-m", "pip", "check")
        empty = home / "empty"
        (empty / "docs").mkdir(parents=True)
        # As for a new user: no settings of Keras, no modules from elsewhere.
        hidden = ("KERAS_BACKEND", "PYTHONPATH", "PYTHONHOME")
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        environment |= {"KERAS_HOME": str(home / "keras"), "TF_CPP_MIN_LOG_LEVEL": "3"}
        code = (
            "import kerasrec; from importlib.metadata import version; "
            f"assert kerasrec.__version__ == version('kerasrec') == {version!r}; "
            f"assert kerasrec.__file__.startswith({folder!r}), kerasrec.__file__; "
            "print('imported', kerasrec.__file__)"
        )
        run(python, "-c", code, cwd=empty, env=environment)
        # They need no more than Python and what they run.
        shutil.copy(ROOT / "README.md", empty)
        shutil.copy(ROOT / "docs" / "run_pages.py", empty / "docs")
        run(python, "docs/run_pages.py", "README.md", cwd=empty, env=environment)


def main() -> None:
    """The command."""
    sdist, wheel = build()
    version = check_contents(sdist, wheel)
    check_installed(wheel, version)
    print(f"kerasrec {version} can be released: {sdist.name} and {wheel.name} in dist/.")


if __name__ == "__main__":
    main()
