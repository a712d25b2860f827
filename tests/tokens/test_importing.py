"""Tokenisers from elsewhere: what becomes of their ids, their special tokens and their frame."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers.trainers import BpeTrainer

from headway.base.errors import UserError
from headway.settings.tokenizer import PairTokenizerSettings
from headway.tokens.importing import Imported, import_tokenizer
from headway.tokens.tokenizer import Tokenizer, check_fits
from headway.tokens.training import train_tokenizer

Open = Callable[[Any], Imported]
TEXTS = [
    "Le chat dort, L'ÉTÉ dernier",
    "हिन्दी 中文 naïve 😀",
    "two  spaces and\ta tab ",
    "<s>G",
    "say </s> or <|endoftext|> or [SEP] [MASK] [CLS] [sep] now <pad>",
    "a" * 101,
    "",
]


def bert() -> Backend:
    """An uncased BERT in small: cleaning, frame, cutting short and filling up included."""
    letters = "abcdefghijklmnopqrstuvwxyz,.'[]</>|हन中文"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "le", "chat", "et", "##e", *letters]
    words += [f"##{letter}" for letter in letters if f"##{letter}" not in words]
    made = Backend(models.WordPiece({word: id for id, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    made.add_special_tokens(words[:5])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.enable_truncation(max_length=8)
    made.enable_padding(length=8, pad_id=0, pad_token="[PAD]")
    return made


def gpt2() -> Backend:
    """A GPT-2 in small: bytes, one special token at the end of the ids, no frame."""
    made = Backend(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(TEXTS * 3, trainer)
    made.add_special_tokens(["<|endoftext|>"])
    return made


def unigram() -> Backend:
    """A SentencePiece model as it is converted: controls are pieces, a space before the text."""
    pieces = ["<unk>", "<s>", "</s>", "▁le", "▁chat", "▁", "s", *"abcdehlortGLÉ,'<>/|[]"]
    scores = [(piece, 0.0 if id < 3 else -2.0 - id / 10) for id, piece in enumerate(pieces)]
    made = Backend(models.Unigram(scores, unk_id=0, byte_fallback=False))
    made.normalizer = normalizers.Replace("  ", " ")
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    made.decoder = decoders.Metaspace(prepend_scheme="first")
    return made


MAKERS = {"bert": bert, "gpt2": gpt2, "unigram": unigram}


@pytest.fixture
def open_file(tmp_path: Path) -> Open:
    """Import what a file of this content is."""

    def run(content: Backend | str | bytes) -> Imported:
        path = tmp_path / "outside.json"
        text = content.to_str() if isinstance(content, Backend) else content
        path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
        return import_tokenizer(path)

    return run


@pytest.fixture(params=MAKERS)
def maker(request: pytest.FixtureRequest) -> Callable[[], Backend]:
    return MAKERS[request.param]


def control(tokenizer: Tokenizer) -> set[int]:
    added = json.loads(tokenizer.to_json())["added_tokens"]
    return {token["id"] for token in added if token["special"]} - {tokenizer.unk}


def test_bert_keeps_its_names_and_loses_its_frame(open_file: Open) -> None:
    made, notes = (found := open_file(bert())).tokenizer, found.notes
    assert (made.pad, made.unk, made.bos, made.eos) == (0, 1, 2, 3)
    assert notes == (
        "no longer cuts texts after 8 tokens",
        "no longer fills up short texts",
        "each text is now the text and [SEP], in place of the frame that the file has",
    )
    (row,) = made.encode(["le " * 30])
    assert row == [5] * 30 + [3]
    assert made.decode([[2, *row, 0]]) == ["le " * 29 + "le"]
    assert "what is not in its vocabulary becomes unknown" in made.losses


def test_gpt2_gets_what_it_lacks(open_file: Open) -> None:
    reference = gpt2()
    size = reference.get_vocab_size()
    found = open_file(reference)
    made = found.tokenizer
    assert found.notes == (
        f"added the special token <pad> (id {size})",
        f"added the special token <unk> (id {size + 1})",
        f"added the special token <s> (id {size + 2})",
        "each text now ends with <|endoftext|>",
    )
    assert len(made) == size + 3
    assert made.eos == reference.token_to_id("<|endoftext|>")
    assert made.pieces([made.pad, made.bos, made.eos]) == ["<pad>", "<s>", "<|endoftext|>"]
    assert made.lossless


def test_a_token_that_text_becomes_is_no_control_token(open_file: Open) -> None:
    """C1 and C4: it stays text, and the start token gets another name."""
    alphabet = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<s", "<s>"]
    vocabulary = {token: id for id, token in enumerate(alphabet)}
    reference = Backend(models.BPE(vocabulary, [("<", "s"), ("<s", ">")]))
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    reference.decoder = decoders.ByteLevel()
    found = open_file(reference)
    made = found.tokenizer
    assert "added the special token [BOS] (id 260)" in found.notes
    assert made.encode(["<s>"]) == [[vocabulary["<s>"], made.eos]]
    assert made.decode(made.encode(["a<s>b"])) == ["a<s>b"]
    assert made.lossless


def test_sentencepiece_controls_become_special(open_file: Open) -> None:
    found = open_file(unigram())
    made = found.tokenizer
    assert (made.unk, made.bos, made.eos, made.pad) == (0, 1, 2, len(made) - 1)
    assert found.notes == (
        f"added the special token <pad> (id {made.pad})",
        "its <unk> (id 0) is now a special token",
        "its <s> (id 1) is now a special token",
        "its </s> (id 2) is now a special token",
        "each text now ends with </s>",
    )
    assert made.decode(made.encode(["le chat"])) == ["le chat"]
    assert made.pieces(made.encode(["le chat"])[0]) == ["▁le", "▁chat", "</s>"]


def test_ids_are_those_of_the_file(maker: Callable[[], Backend], open_file: Open) -> None:
    """C3 and C10: what the file says of spaces, case and accents holds, and nothing else."""
    made, reference = open_file(maker()).tokenizer, maker()
    reference.no_truncation()
    reference.no_padding()
    reference.encode_special_tokens = True
    for text, row in zip(TEXTS, made.encode(TEXTS), strict=True):
        plain = reference.encode(text, add_special_tokens=False).ids
        assert row[-1] == made.eos
        assert [id if id not in control(made) else made.unk for id in plain] == row[:-1]


def test_a_prefix_space_stands_at_the_start_of_the_text_only(open_file: Open) -> None:
    """C3: not after something that is spelled like a special token."""
    made = open_file(unigram()).tokenizer
    assert made.pieces(made.encode(["<|G"])[0])[:4] == ["▁", "<", "|", "G"]
    assert made.pieces(made.encode(["a<pad>G"])[0])[-3:] == [">", "G", "</s>"]


def test_bert_cleans_as_its_file_says(open_file: Open) -> None:
    """C10: lower-casing takes accents along in this file; without it, both stay."""
    file = json.loads(bert().to_str())
    uncased = open_file(json.dumps(file)).tokenizer
    file["normalizer"]["lowercase"] = False
    cased = open_file(json.dumps(file)).tokenizer
    assert uncased.encode(["ÉTÉ"]) == uncased.encode(["ete"])
    assert cased.encode(["ÉTÉ"]) == [[1, 3]]


def test_text_never_becomes_a_control_token(maker: Callable[[], Backend], open_file: Open) -> None:
    """C4: nor does it after the file of the run is read again."""
    first = open_file(maker()).tokenizer
    for made in (first, Tokenizer.from_json(first.to_json(), where="x")):
        for row in made.encode(TEXTS):
            assert control(made).isdisjoint(row[:-1])
        for (ids, unknown), row in zip(made.cut(TEXTS), made.encode(TEXTS), strict=True):
            assert ids == row[:-1]
            assert len(unknown) == ids.count(made.unk)


def test_a_control_token_that_the_model_itself_makes_is_unknown(open_file: Open) -> None:
    made = open_file(unigram()).tokenizer
    (row,) = made.encode(["le</s>le"])
    assert made.pieces(row) == ["▁le", "<unk>", "l", "e", "</s>"]
    assert made.unknowns(["le</s>le"])[1] == {"</s>": 1}


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("gpt2") / "tokenizer.json"
    path.write_text(gpt2().to_str(), encoding="utf-8")
    return import_tokenizer(path.parent).tokenizer  # the folder will do


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=60))
def test_gpt2_gives_back_any_text(byte_level: Tokenizer, text: str) -> None:
    """C1, and C4 beside it."""
    (row,) = byte_level.encode([text])
    assert byte_level.decode([row]) == [text]
    assert control(byte_level).isdisjoint(row[:-1])


def test_a_second_import_changes_nothing(maker: Callable[[], Backend], open_file: Open) -> None:
    first = open_file(maker()).tokenizer.to_json()
    again = open_file(first)
    assert again.notes == ()
    assert again.tokenizer.to_json() == first


@pytest.mark.parametrize("kind", ["character", "word", "bpe", "wordpiece"])
def test_our_own_files_are_taken_as_they_are(kind: str, open_file: Open) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so little text cannot fill it
        made = train_tokenizer(PairTokenizerSettings(kind=kind, size=300), ["le chat dort"] * 30)
    found = open_file(made.to_json())
    assert found.notes == ()
    assert found.tokenizer.to_json() == made.to_json()


@pytest.mark.parametrize("bpe", [False, True])
def test_ids_with_gaps(bpe: bool, open_file: Open) -> None:
    """C11: the size is what an embedding needs, whatever the library counts."""
    words = {"a": 0, "b": 5, "?": 9}
    word_level = models.WordLevel(words, unk_token="?")
    made = Backend(models.BPE(words, [], unk_token="?") if bpe else word_level)
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = open_file(made).tokenizer
    assert (tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos) == (10, 9, 11, 12)
    assert len(tokenizer) == 13
    assert tokenizer.encode(["b c a"]) == [[5, 9, 0, 12]]
    assert tokenizer.pieces([0, 3, 12]) == ["a", "<3>", "</s>"]
    assert tokenizer.decode([[0, 3, 5, 12]]) == ["a b"]
    with pytest.raises(UserError, match="has 13 ids, the model's embedding only 12 rows"):
        check_fits(tokenizer, 12, "x")


def test_unknown_words_need_no_token_in_the_file(open_file: Open) -> None:
    """C13: the library fails on the first unknown word of such a file."""
    for model in (models.WordLevel({"a": 0}), models.WordPiece({"a": 0})):
        made = Backend(model)
        made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer = open_file(made).tokenizer
        assert tokenizer.encode(["a zz"])[0][:2] == [0, tokenizer.unk]
        assert tokenizer.unknowns(["a zz", "zz"])[1] == {"zz": 2}


def test_what_would_be_lost_is_said(open_file: Open) -> None:
    made = Backend(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], dropout=0.5))
    made.add_tokens([AddedToken("ab ab", normalized=False)])
    found = open_file(made)
    assert "its own dropout of 0.5 is off" in found.notes
    assert found.notes[-1].startswith("characters that it does not know vanish: it has no unk")
    assert "some tokens are taken out of the text before it is cut" in found.tokenizer.losses
    assert {tuple(row) for row in found.tokenizer.encode(["ab"] * 50)} == {(2, found.tokenizer.eos)}


@pytest.mark.parametrize("maker", [bert, gpt2])
def test_a_missing_decoder_is_added(maker: Callable[[], Backend], open_file: Open) -> None:
    file = json.loads(maker().to_str())
    plain = open_file(json.dumps(file)).tokenizer
    found = open_file(json.dumps(file | {"decoder": None}))
    assert found.notes[-1].startswith("added its missing decoder (")
    assert found.tokenizer.decode(plain.encode(["le chat"])) == ["le chat"]


def test_variables_in_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokenizer.json").write_text(bert().to_str(), encoding="utf-8")
    monkeypatch.setenv("MY_MODELS", str(tmp_path.parent))
    assert import_tokenizer(f"${{MY_MODELS}}/{tmp_path.name}").tokenizer.eos == 3
    monkeypatch.delenv("MY_MODELS")
    with pytest.raises(UserError, match=r"'MY_MODELS' in .* is not set; export MY"):
        import_tokenizer("${MY_MODELS}/tokenizer.json")
