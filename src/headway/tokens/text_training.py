"""Learning the tokeniser of a language model or an encoder, and framing texts as these want."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import processors

from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.kinds import MASK, MASKS
from headway.tokens.text import Roles, TextTokenizer
from headway.tokens.tokenizer import Tokenizer, open_backend
from headway.tokens.training import train_tokenizer


def train_text_tokenizer(
    settings: TokenizerSettings, texts: Iterable[str], *, masks: bool
) -> TextTokenizer:
    """Learn a tokeniser from `texts`, with a token that masks others if that is wanted.

    Raises UserError as `train_tokenizer` does.
    """
    return framing(train_tokenizer(settings, texts), masks=masks)


def framing(tokenizer: Tokenizer, *, masks: bool) -> TextTokenizer:
    """The same tokeniser with a start symbol before each text, and an end after each of a pair."""
    made = open_backend(tokenizer.to_json(), where="tokenizer", todo="train it again")
    bos, eos = made.id_to_token(tokenizer.bos), made.id_to_token(tokenizer.eos)
    mask = next((name for name in MASKS if made.token_to_id(name) is not None), MASK)
    if masks:
        made.add_special_tokens([mask])
    made.post_processor = processors.TemplateProcessing(
        single=f"{bos}:0 $A:0 {eos}:0",
        pair=f"{bos}:0 $A:0 {eos}:0 $B:1 {eos}:1",
        special_tokens=[(bos, tokenizer.bos), (eos, tokenizer.eos)],
    )
    roles = Roles(
        bos=tokenizer.bos,
        pad=tokenizer.pad,
        mask=made.token_to_id(mask) if masks else None,
        ends=frozenset({tokenizer.eos}),
        adds_bos=True,
    )
    return TextTokenizer(made, roles)
