"""The recipe for JSON documents on documents whose class depends on entries of nested lists."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import json_documents
import kerasrec
from document_picture import entries, without
from documents import read


def document(random):
    """Its class is 1 if some part is heavy and has a red spot."""
    parts = [
        {
            "weight": float(random.integers(1, 9)),
            "spots": [{"color": str(random.choice(["red", "green", "blue"]))} for _ in range(2)],
        }
        for _ in range(random.integers(1, 4))
    ]
    label = any(
        part["weight"] > 4 and any(spot["color"] == "red" for spot in part["spots"])
        for part in parts
    )
    return {"parts": parts, "label": int(label), "id": int(random.integers(10**6))}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    random = np.random.default_rng(0)
    documents = [document(random) for _ in range(250)]
    (folder / "data.json").write_text(json.dumps(documents))
    options = ["--data", folder / "data.json", "--label", "label", "--train", 200, "--epochs", 5]
    options += ["--learning-rate", 0.01, "--leave-out", "id", "--output", folder]
    return folder, documents, json_documents.main(list(map(str, options)))


@pytest.mark.slow
def test_classes_are_learned(run):
    folder, documents, (figures,) = run
    labels = [item["label"] for item in documents[200:]]
    commonest = 100 * max(np.mean(labels), 1 - np.mean(labels))
    assert figures["the commonest class"]["accuracy, %"] == pytest.approx(commonest)
    assert figures["SchemaEncoder"]["accuracy, %"] > 90 > commonest + 20
    assert json.loads((folder / "results.json").read_text()) == [figures]
    assert (folder / "document.png").stat().st_size > 5_000


@pytest.mark.slow
def test_what_is_saved_and_exported_predicts_the_same(run):
    folder, documents, (figures,) = run
    left = [{"parts": item["parts"]} for item in documents]
    batch = kerasrec.Schema.infer(left[:200]).encode(left[200:])
    model = keras.models.load_model(folder / "model.keras")
    expected = model.predict(batch, verbose=0)
    served = tf.saved_model.load(folder / "export")
    found = served.serve(batch)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    labels = [item["label"] for item in documents[200:]]
    accuracy = 100 * np.mean(expected.argmax(1) == labels)
    assert accuracy == pytest.approx(figures["SchemaEncoder"]["accuracy, %"])


@pytest.mark.many
def test_entries_of_all_lists_are_left_out():
    given = {"size": 1, "parts": [{"spots": [{"color": "red"}]}, {"spots": []}], "tags": ["a"]}
    places = [place for place, _ in entries(given)]
    assert places == [("parts", 0), ("parts", 0, "spots", 0), ("parts", 1), ("tags", 0)]
    found = [without(given, place) for place in places]
    assert found[0] == {**given, "parts": [{"spots": []}]}
    assert found[1] == {**given, "parts": [{"spots": []}, {"spots": []}]}
    assert found[3] == {**given, "tags": []}


@pytest.mark.slow
def test_json_lines_are_read(tmp_path):
    file = tmp_path / "data.jsonl"
    file.write_text('{"a": 1}\n{"a": [2]}\n')
    assert read(file) == [{"a": 1}, {"a": [2]}]
    file.write_text('[{"a": 1}]')
    assert read(file) == [{"a": 1}]


@pytest.mark.parametrize("lines", [False, True])
def test_byte_order_marks_and_line_breaks_in_texts(tmp_path, lines):
    documents = [{"text": "a\u2028b\u0085c"}, {"text": "d"}]
    texts = [json.dumps(document, ensure_ascii=False) for document in documents]
    text = "\r\n".join([*texts, ""]) if lines else f"[{', '.join(texts)}]\r\n"
    for mark in ("", "\ufeff"):
        (tmp_path / "some.json").write_bytes((mark + text).encode())
        assert read(tmp_path / "some.json") == documents
