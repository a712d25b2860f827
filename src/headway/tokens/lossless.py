"""Why decoding may not give back a text that was encoded, judged from a tokenizer.json."""

from __future__ import annotations

from typing import Any

from tokenizers import pre_tokenizers

from headway.tokens.specials import File, vocabulary


def losses(file: File) -> tuple[str, ...]:
    """The reasons why `decode(encode(x))` may not be `x`; none if it is `x` for every text.

    Only byte level without any cleaning loses nothing. Judged from the file's content, so that it
    holds for tokenisers from elsewhere too.
    """
    steps = parts_of(file["pre_tokenizer"], "pretokenizers")
    byte_level = [step for step in steps if step["type"] == "ByteLevel"]
    cuts = [step for step in steps if step["type"] != "ByteLevel"]
    found = []
    cleaning = [step["type"] for step in parts_of(file["normalizer"], "normalizers")]
    if cleaning:
        found.append(f"text is changed before it is cut ({', '.join(cleaning)})")
    if file["truncation"] is not None:
        found.append("long texts are cut short")
    if any(step["type"] != "Split" or step["behavior"] == "Removed" for step in cuts):
        found.append("blanks between pieces are not kept")
    if any(not added["special"] for added in file["added_tokens"]):
        found.append("some tokens are taken out of the text before it is cut")
    if not byte_level:
        found.append("what is not in its vocabulary becomes unknown")
        return tuple(found)
    if len(byte_level) > 1:
        found.append("bytes are written as letters twice")
    if any(step["add_prefix_space"] for step in byte_level):
        found.append("a space is put before the text")
    if (file["decoder"] or {}).get("type") != "ByteLevel":
        found.append("its decoder does not turn letters back into bytes")
    if not set(pre_tokenizers.ByteLevel.alphabet()) <= vocabulary(file).keys():
        found.append("some bytes are not in its vocabulary")
    model = file["model"]
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        found.append("its tokens carry marks that stay in the text")
    return tuple(found)


def is_byte_level(file: File) -> bool:
    """Whether text is cut into bytes, written as letters as GPT-2 does."""
    steps = parts_of(file["pre_tokenizer"], "pretokenizers")
    return any(step["type"] == "ByteLevel" for step in steps)


def parts_of(part: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    """A part of the file as a list of steps, whether it is one, several or none."""
    if part is None:
        return []
    if part["type"] != "Sequence":
        return [part]
    return [step for inner in part[name] for step in parts_of(inner, name)]
