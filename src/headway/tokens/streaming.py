"""Text that becomes certain token by token."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer as Backend
from tokenizers.decoders import DecodeStream


class TextStream:
    """From the next id to the text that it completes: nothing while a letter is not whole.

    Tokens of single bytes (byte fallback) are letters or nonsense together: one that fits no letter
    spoils the whole run, also what was sent of it. What comes next is then read by itself.
    """

    def __init__(self, made: Backend, context: Sequence[int]) -> None:
        self._made = made
        self._stream = DecodeStream(ids=list(context), skip_special_tokens=True)
        self._held: list[int] = []  # no text of theirs was given yet

    def __call__(self, id: int) -> str:
        """The text that is certain with this id."""
        self._held.append(id)
        try:
            text = self._stream.step(self._made, id)
        except Exception as error:  # the library has no class for it
            if not str(error).startswith("Invalid prefix"):
                raise
            self._stream = DecodeStream(ids=self._held[:-1], skip_special_tokens=True)
            text = self._stream.step(self._made, id)
        if text:
            self._held = []
        return text or ""
