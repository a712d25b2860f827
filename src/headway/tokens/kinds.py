"""The four kinds of tokeniser: how each cleans, cuts and joins text, before anything is learned."""

from __future__ import annotations

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from headway.settings.tokenizer import TokenizerSettings

PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
MASK = "<mask>"
MASKS = (MASK, "[MASK]", "<|mask|>", "<MASK>")  # what files from elsewhere call it
SPECIALS = (PAD, UNK, BOS, EOS)  # ids 0, 1, 2, 3 in every tokeniser that is trained here

# No piece is longer than this many characters, so that a line without a space cannot become one
# huge "word", which byte-pair merging would hold and search whole.
LONGEST_PIECE = 64
# WordPiece gives up on longer words, as BERT does; the whole word is then unknown.
LONGEST_WORD = 100
CONTINUES = "##"

# Every special token mixes letters and punctuation, and every rule below parts letters from
# punctuation: so no piece, and nothing learned from pieces, can be spelled like a special token.
_RUN = f"{{1,{LONGEST_PIECE}}}"
_WORDS = rf" ?\w{_RUN}| ?[^\w\s]|\s"
# What belongs to a word, by the rule's name in a recipe. GPT-2's (Radford et al. 2019) is the one
# that other tools know; with combining marks beside their letters Hindi does not fall apart.
_LETTERS = {"marks": r"\p{L}\p{M}", "gpt2": r"\p{L}"}


def backend(settings: TokenizerSettings, model: models.Model) -> Backend:
    """A `tokenizers.Tokenizer` of the kind asked for around `model`; it ends each text with EOS.

    It knows no special tokens yet: while it learns, text that is spelled like one is only text.
    """
    made = Backend(model)
    steps = _kind_normalizers(settings) + _switched_normalizers(settings)
    if steps:
        made.normalizer = steps[0] if len(steps) == 1 else normalizers.Sequence(steps)
    cut = _pre_tokenizer(settings)
    if cut is not None:
        made.pre_tokenizer = cut
    made.decoder = _decoder(settings)
    made.post_processor = processors.TemplateProcessing(
        single=f"$A {EOS}", pair=None, special_tokens=[(EOS, SPECIALS.index(EOS))]
    )
    return made


def _switched_normalizers(settings: TokenizerSettings) -> list[normalizers.Normalizer]:
    steps: list[normalizers.Normalizer] = []
    if settings.strip_accents:
        steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
    if settings.lowercase:
        steps.append(normalizers.Lowercase())
    return steps


def _kind_normalizers(settings: TokenizerSettings) -> list[normalizers.Normalizer]:
    if settings.kind == "wordpiece":
        # Only BERT's cleaning: its lower-casing would strip accents as well.
        return [
            normalizers.BertNormalizer(
                clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False
            )
        ]
    if settings.kind == "word":
        # The first word of a text gets the space that every other word has before it, so that a
        # word is one token wherever it stands; the decoder takes this space away again.
        return [normalizers.Prepend(" ")]
    return []


def _pre_tokenizer(settings: TokenizerSettings) -> pre_tokenizers.PreTokenizer | None:
    if settings.kind == "word":
        return pre_tokenizers.Split(Regex(_WORDS), "isolated")
    if settings.kind == "wordpiece":
        return pre_tokenizers.BertPreTokenizer()
    if settings.kind == "bpe":
        whole_runs = settings.rule == "gpt2"
        return pre_tokenizers.ByteLevel(add_prefix_space=False) if whole_runs else bounded(settings)
    return None


def bounded(settings: TokenizerSettings) -> pre_tokenizers.PreTokenizer:
    """The rule by which byte-level BPE cuts text, with every run cut at the longest piece."""
    letters = _LETTERS[settings.rule]
    pieces = (
        r"'(?:[sdmt]|ll|ve|re)"
        rf"| ?[{letters}]{_RUN}| ?\p{{N}}{_RUN}| ?[^\s{letters}\p{{N}}]{_RUN}"
        rf"|\s{_RUN}(?!\S)|\s{_RUN}"
    )
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pieces), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _decoder(settings: TokenizerSettings) -> decoders.Decoder:
    if settings.kind == "word":
        return decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    if settings.kind == "wordpiece":
        return decoders.WordPiece(prefix=CONTINUES, cleanup=False)
    if settings.kind == "bpe":
        return decoders.ByteLevel()
    return decoders.Fuse()
