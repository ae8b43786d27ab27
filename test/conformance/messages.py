"""Messages of errors compared by their facts: a test of OneFlow expects a sentence of OneFlow's in the message.

    "Dimension out of range (expected to be in range of [-2, 1], but got 3)" in Message("expected [-2, 2), got 3")

A message states the facts of a text if it has all of its numbers and element types, and one of its words. The
numbers 0 and 1 are bounds, which messages state in several ways, such as "at least 1" and "> 0". Words for shapes are
one word.
The error of a missing name, or of a call with a wrong number of arguments, states the facts that it has literally.
"""

from __future__ import annotations

import re

#: What an error has besides its message: the location in front, the user's line behind.
_LOCATION = re.compile(r"^\S+\.py:\d+: |\n.*", re.DOTALL)
_NUMBER = re.compile(r"(?<!#)\d+(?:\.\d+)?")
_HALF_OPEN = re.compile(r"\[(-?\d+), (-?\d+)\)")
_DTYPE = re.compile(r"(?:oneflow\.)?(?<![a-z])(float|int|uint|bfloat|f|i|bf|ui)(8|16|32|64)\b")
_LINK = re.compile(r"https?://\S+")
_BOUNDS = {"0", "1"}
_SHAPES = frozenset("dim axi axe rank numaxe shape size vector matrix matrice element window channel length".split())
_RANKS = {"vector": "1", "matrix": "2", "matrices": "2"}
#: Words of all messages.
_COMMON = frozenset(
    "the and but got for must not can should that are was were has have been expected expect error with than all "
    "which given found yet now only one same each runtimeerror indexerror oneflow python tensor input".split()
)
_NO_REFUSAL = re.compile(
    r"has no (attribute|function)|positional argument|unexpected keyword|multiple values|No module|attributes by name"
)


class Message(str):
    """The message of an error, which contains the texts whose facts it states.

    Raises:
        AssertionError: the message does not state the facts; the error has both texts.
    """

    __slots__ = ()

    def __contains__(self, text: object) -> bool:
        if not str.__contains__(self, str(text)) and not states_facts(str(self), str(text)):
            raise AssertionError(f"expected the facts of {str(text)!r}, got {str(self)!r}")
        return True


def states_facts(message: str, text: str) -> bool:
    """Whether a message states the facts of a text."""
    message, text = _LOCATION.sub("", message), _LINK.sub("", text)
    words = _words(text)
    if _NO_REFUSAL.search(message):
        return False
    return _numbers(text) - _BOUNDS <= _numbers(message) and (not words or bool(words & _words(message)))


def _numbers(text: str) -> set[str]:
    """The numbers and element types of a text; a half-open range has its last number, a vector or matrix its rank."""
    last = [str(abs(int(end) - 1)) for _, end in _HALF_OPEN.findall(text)]
    ranks = [rank for word, rank in _RANKS.items() if word in text]
    types = [f"{kind[0]}{bits}" for kind, bits in _DTYPE.findall(text.replace("x", " "))]
    return {*_NUMBER.findall(_DTYPE.sub("", text.replace("x", " "))), *last, *ranks, *types}


def _words(text: str) -> set[str]:
    """The words of a text, of three letters or more, without the words of all messages and without plural endings; a
    MLIR type has a shape and an element type.
    """
    words = re.findall(r"[a-z]{3,}", text.lower().replace("dimension", "dim"))
    singular = {word.removesuffix("s") for word in words} - _COMMON
    stated = {"shape", "dtype"} if "tensor<" in text else set()
    return {"shape" if word in _SHAPES else "dtype" if word == "type" else word for word in singular} | stated
