import os
import subprocess
import sys

import pytest

from kerasrec._src import text

# Only the file: the whole package takes as long to import as TensorFlow.
SCRIPT = """
import runpy, sys
lower_case = runpy.run_path(sys.argv[1])["lower_case"]
words = ["IT", "JI", "I\\u0307J", "\\u0130st", "\\u00cc\\u00cd\\u0128", "\\u012e\\u0300"]
words += ["\\u00c4", "\\u03a3\\u03a3"]
assert [word.decode() for word in lower_case(words).numpy()] == [word.lower() for word in words]
"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["tr", pytest.param("lt", marks=pytest.mark.slow)])
def test_words_are_in_lower_case_whatever_the_language_of_the_machine(language):
    names = ("LC_ALL", "LC_MESSAGES")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["LANG"] = f"{language}_{language.upper()}.UTF-8"
    subprocess.run([sys.executable, "-c", SCRIPT, text.__file__], check=True, env=environment)
