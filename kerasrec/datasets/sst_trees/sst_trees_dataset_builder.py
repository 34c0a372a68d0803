"""The dataset builder; its name and its folder's follow the rules of `tensorflow_datasets`.

Source: Socher et al. 2013, Recursive Deep Models for Semantic Compositionality Over a Sentiment
Treebank, https://nlp.stanford.edu/sentiment/.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from kerasrec._src.datasets.encode.sentences import encode_tree
from kerasrec._src.datasets.encode.vocabulary import Vocabulary
from kerasrec._src.datasets.readers.problems import numbered_lines, report, text_of
from kerasrec._src.datasets.readers.reading import read_what_can_be_read
from kerasrec._src.datasets.readers.sst import format_of, parse_sst
from kerasrec._src.datasets.trees.constituency import preorder

# checksums.tsv has the values on which public loaders of this file agree: the size and sha256 in
# huggingface/datasets (datasets/sst/dataset_infos.json), and the sha256 in Flux.jl
# (src/data/sentiment.jl).
ADDRESS = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"
FILES = {"train": "train.txt", "validation": "dev.txt", "test": "test.txt"}
CLASSES = ["very negative", "negative", "neutral", "positive", "very positive"]


class Builder(tfds.core.GeneratorBasedBuilder):
    """Builds `sst_trees`: binary trees with a word at each leaf and a sentiment on every tree node.

    There are two configurations with the same content: `"download"` gets the treebank from its
    authors; `"manual"` reads `train.txt`, `dev.txt` and `test.txt` of the folder that
    `tfds.download.DownloadConfig(manual_dir=...)` names, which may be another treebank in this
    format. All files are checked before an example is written.

    An example has, with tree nodes in preorder (the root is tree node 0):

    - `tokens`: text `[nodes]`; the word at a leaf, `""` at inner tree nodes.
    - `children`: int32 `[nodes, 2]`; the tree nodes below each one, -1 = no child.
    - `labels`: classes `[nodes]`, int64 from 0, very negative, to 4, very positive.
    - `tree`: text `[]`; the tree in brackets, for `parse_sst`.

    With `as_supervised=True` it is `((tokens, children), labels)`. Examples come in the order of
    the files.

    Raises:
        FileNotFoundError: From `download_and_prepare`, if a file is missing.
        MalformedFileError: From `download_and_prepare`, if lines are malformed; the error names
            them all.

    Example:

    >>> builder = kerasrec.datasets.sst_trees.Builder(config="manual")
    >>> config = tfds.download.DownloadConfig(manual_dir="data/treebank")
    >>> builder.download_and_prepare(download_config=config)
    >>> train = builder.as_dataset("train")
    """

    VERSION = tfds.core.Version("2.0.0")
    RELEASE_NOTES = {  # noqa: RUF012 (as all dataset builders do)
        "2.0.0": "Examples come in the order of the files.",
        "1.0.0": "Initial release.",
    }
    BUILDER_CONFIGS = [  # noqa: RUF012
        tfds.core.BuilderConfig(name="download", description=f"Downloaded from {ADDRESS}."),
        tfds.core.BuilderConfig(name="manual", description="Read from a folder of yours."),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "For the configuration 'manual', pass DownloadConfig(manual_dir=...), a folder that holds "
        f"{', '.join(FILES.values())}, one bracketed tree per line. SST's own are in {ADDRESS}."
    )

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=(
                "The Stanford Sentiment Treebank: sentences of film reviews as binary parse trees, "
                "with one of five sentiments on every word, phrase and sentence."
            ),
            features=tfds.features.FeaturesDict(
                {
                    "tokens": tfds.features.Sequence(tfds.features.Text()),
                    "children": tfds.features.Tensor(shape=(None, 2), dtype=np.int32),
                    "labels": tfds.features.Sequence(tfds.features.ClassLabel(names=CLASSES)),
                    "tree": tfds.features.Text(),
                }
            ),
            supervised_keys=(("tokens", "children"), "labels"),
            disable_shuffling=True,
            homepage="https://nlp.stanford.edu/sentiment/",
            citation="""@inproceedings{socher-etal-2013-recursive,
  title = {Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank},
  author = {Socher, Richard and Perelygin, Alex and Wu, Jean and Chuang, Jason and
            Manning, Christopher D. and Ng, Andrew and Potts, Christopher},
  booktitle = {Proceedings of EMNLP},
  pages = {1631--1642},
  year = {2013}
}""",
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        if self.builder_config.name == "manual":
            directory = Path(dl_manager.manual_dir)
        else:
            directory = Path(dl_manager.download_and_extract(ADDRESS)) / "trees"
        paths = {split: directory / file for split, file in FILES.items()}
        form = format_of(len(CLASSES))
        problems: list[str] = []
        for path in paths.values():
            read_what_can_be_read(path, form, problems)
        report(problems, form.expected, strict=True)
        return {split: self._generate_examples(path) for split, path in paths.items()}

    def _generate_examples(self, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
        no_words = Vocabulary([])
        for number, line in numbered_lines(path):
            text = text_of(line).strip()
            if not text:
                continue
            tree = parse_sst(text, len(CLASSES))
            words = [node[0] if isinstance(node[0], str) else "" for node, *_ in preorder(tree)]
            _, children, labels = encode_tree(tree, no_words)
            example = {"tokens": words, "children": children, "labels": labels, "tree": text}
            yield number, example
