"""Encoders of sentences, with their tokenizers: those of KerasHub, and a tiny one to try."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from kerasrec.layers import Subwords


@dataclass(frozen=True)
class Encoder:
    """An encoder and its inputs.

    Args:
        subwords: the layer from words to pieces, their mask, and their tree nodes.
        model: from pieces, int32 `[batch, pieces]`, and their mask to vectors
            `[batch, pieces, units]`; its name is "encoder".
    """

    subwords: Subwords
    model: keras.Model


def read_encoder(folder: Path | None) -> Encoder:
    """Reads an encoder from a folder of KerasHub, or of Hugging Face; None makes a tiny one."""
    return tiny_encoder() if folder is None else _of_keras_hub(folder)


def tiny_encoder(units: int = 16) -> Encoder:
    """One layer of attention over letters, with random weights, which needs no KerasHub."""
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789.,;:!?'-")
    tokenizer = keras.layers.TextVectorization(
        standardize="lower", split="character", ragged=True, vocabulary=letters
    )
    start = len(letters) + 2  # Pieces begin with 2; 1 is an unknown letter, and 0 is padding.
    inputs = keras.Input([None], dtype="int32"), keras.Input([None], dtype="bool")
    vectors = keras.layers.Embedding(start + 1, units)(inputs[0])
    mask = keras.ops.expand_dims(inputs[1], 1)
    attended = keras.layers.MultiHeadAttention(2, units)(vectors, vectors, attention_mask=mask)
    model = keras.Model(
        inputs, keras.layers.LayerNormalization()(vectors + attended), name="encoder"
    )
    return Encoder(Subwords(tokenizer, start_value=start), model)


def _of_keras_hub(folder: Path) -> Encoder:
    import keras_hub

    tokenizer = keras_hub.tokenizers.Tokenizer.from_preset(str(folder))
    backbone = keras_hub.models.Backbone.from_preset(str(folder))
    # BERT and its kin name the pieces at the ends in one way, RoBERTa and its kin in another.
    start, end = (
        getattr(tokenizer, f"{of_bert}_token_id", getattr(tokenizer, f"{other}_token_id", None))
        for of_bert, other in (("cls", "start"), ("sep", "end"))
    )
    subwords = Subwords(
        tokenizer,
        start_value=start,
        end_value=end,
        pad_value=getattr(tokenizer, "pad_token_id", None) or 0,
        prefix=" " if isinstance(tokenizer, keras_hub.tokenizers.BytePairTokenizer) else "",
        max_pieces=getattr(backbone, "max_sequence_length", None),
    )
    pieces, mask = keras.Input([None], dtype="int32"), keras.Input([None], dtype="bool")
    known: dict[str, Any] = {
        "token_ids": pieces,
        "padding_mask": mask,
        "segment_ids": keras.ops.zeros_like(pieces),
    }
    vectors = backbone.output
    vectors = vectors["sequence_output"] if isinstance(vectors, dict) else vectors
    # Without layers that only make other outputs, such as a vector of the sentence.
    layers = keras.Model(backbone.input, vectors)
    vectors = layers({name: known[name] for name in backbone.input})
    return Encoder(subwords, keras.Model([pieces, mask], vectors, name="encoder"))
