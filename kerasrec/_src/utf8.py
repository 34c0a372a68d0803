"""Texts that UTF-8, and so TensorFlow and every file, can hold."""


def is_utf8(text: str) -> bool:
    """Whether a text contains no unpaired surrogate, half a character, as escapes in JSON may."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True
