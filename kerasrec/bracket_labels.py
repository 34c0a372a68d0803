"""What tells a label from a word, where nothing says whether brackets begin with labels.

`(hello (world .))` may be two words and a full stop, or a word below two labels. Readers and layers
that are not told which it is take a bracket's first word for its label only if all labels of the
tree are without lower-case letters, and a labeled bracket holds two brackets or more, or all labels
are known ones. Patterns are for Python's `re` and for TensorFlow alike.
"""

LOWER_CASE = "Ll"  # Unicode's category of lower-case letters
# A digit, as in the Stanford Sentiment Treebank, or a label of the Penn Treebank or of Universal
# Dependencies, which may go on as in NP-SBJ, NP=2, NP|, NP+NN and NP^S.
KNOWN_LABEL = (
    "[0-9]|"
    "(?:ROOT|TOP|VROOT|S1|S|SBAR|SBARQ|SINV|SQ|ADJP|ADVP|CONJP|FRAG|INTJ|LST|NAC|NP|NX|PP|PRN|PRT|"
    "QP|RRC|UCP|VP|WHADJP|WHADVP|WHNP|WHPP|X|CC|CD|DT|EX|FW|IN|JJ|JJR|JJS|LS|MD|NN|NNS|NNP|NNPS|"
    r"PDT|POS|PRP|PRP\$|RB|RBR|RBS|RP|SYM|TO|UH|VB|VBD|VBG|VBN|VBP|VBZ|WDT|WP|WP\$|WRB|"
    "ADJ|ADP|ADV|AUX|CCONJ|DET|NOUN|NUM|PART|PRON|PROPN|PUNCT|SCONJ|VERB)(?:[-=|+^].*)?"
)
