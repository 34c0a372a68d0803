"""Tags of words by a linear-chain conditional random field, in a model of Keras.

The scores of one word cannot tell whether "run" is a noun or a verb. The layer also scores each
pair of neighboring tags, and chooses among whole sequences of tags.
"""

import keras
import numpy as np

import kerasrec

TAGS = ["determiner", "noun", "verb"]
SENTENCES = """the/0 dog/1 runs/2
a/0 run/1 ends/2
dogs/1 run/2
the/0 dogs/1 end/2 the/0 run/1
runs/1 end/2
the/0 end/1 runs/2"""
rows = [[pair.split("/") for pair in line.split()] for line in SENTENCES.splitlines()]
vocabulary = ["", *sorted({word for row in rows for word, _ in row})]


def numbers(sentences):
    """Numbers of words, padded with 0, int32 `[sentences, words]`."""
    found = [[vocabulary.index(word) for word in sentence] for sentence in sentences]
    return keras.utils.pad_sequences(found, padding="post")


x = numbers([[word for word, _ in row] for row in rows])
y = [[int(tag) for _, tag in row] for row in rows]
y = keras.utils.pad_sequences(y, padding="post", value=-1)

keras.utils.set_random_seed(0)
words = keras.Input([None], dtype="int32")
scores = keras.layers.Dense(3)(keras.layers.Embedding(len(vocabulary), 16, mask_zero=True)(words))
crf = kerasrec.layers.LinearChainCRF(len(TAGS))
model = keras.Model(words, crf(scores))
model.compile(keras.optimizers.Adam(0.1), kerasrec.layers.StructuredLoss())
model.fit(x, y, epochs=40, verbose=0)

tagger = keras.Model(words, crf(scores, output="best"))
new = ["the run ends", "dogs end a run"]
for sentence, tags in zip(
    new, tagger.predict(numbers(map(str.split, new)), verbose=0), strict=True
):
    pairs = zip(sentence.split(), tags, strict=False)
    print(" ".join(f"{word}/{TAGS[tag]}" for word, tag in pairs))

outputs = model(numbers([["dogs", "run"]]))
first, second = crf.k_best(outputs, 2)[0].numpy()
print("best and second:", [TAGS[tag] for tag in first], [TAGS[tag] for tag in second])
chance = np.exp(crf.log_prob(first[np.newaxis], outputs)[0])
print("the best is more than likely:", chance > 0.5, "among", int(crf.count(outputs)[0]))
