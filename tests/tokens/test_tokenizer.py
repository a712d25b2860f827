from __future__ import annotations

import json
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, check_fits
from headway.tokens.training import train_tokenizer

KINDS = ("character", "word", "bpe", "wordpiece")
SPECIALS = (PAD, UNK, BOS, EOS)
TEXTS = [
    "Le chat dort, le chien mange.",
    "L'été dernier: 1\u202f234,50\u00a0€ (environ) !",
    "say </s> now <s> or <pad> <unk> </s></s> </s>",
    "हिन्दी हिन्दी, 中文 and emoji 😀",
    "tabs\tand  two spaces ",
]


def train(kind: str, texts: list[str] = TEXTS, size: int = 600, **more: object) -> Tokenizer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train_tokenizer(TokenizerSettings(kind=kind, size=size, **more), texts)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def tokenizer(kind: str) -> Tokenizer:
    return train(kind)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train("bpe")


def test_specials_have_the_first_ids(tokenizer: Tokenizer) -> None:
    assert (tokenizer.pad, tokenizer.unk, tokenizer.bos, tokenizer.eos) == (0, 1, 2, 3)
    assert tokenizer.pieces([0, 1, 2, 3]) == list(SPECIALS)


def test_each_text_ends_with_eos(tokenizer: Tokenizer) -> None:
    rows = tokenizer.encode(["", *TEXTS])
    assert rows[0] == [tokenizer.eos]
    assert all(row[-1] == tokenizer.eos and tokenizer.eos not in row[:-1] for row in rows)
    assert tokenizer.decode(rows)[0] == ""


def test_known_text_comes_back(kind: str, tokenizer: Tokenizer) -> None:
    back = tokenizer.decode(tokenizer.encode(TEXTS))
    if kind == "wordpiece":
        assert back[0] == "Le chat dort , le chien mange ."
    else:
        assert back == TEXTS
    assert tokenizer.unknowns(TEXTS) == (0.0, {})


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("text", ["say </s> now", "<s>G", "</S>", "<pad>", "a<unk>b", "</s>"])
def test_text_that_looks_special_stays_text(kind: str, text: str, lowercase: bool) -> None:
    """C4: also when the training data is full of it, and after reading the file again."""
    many = train(kind, ["say </s> now <s>G a<unk>b </S> <PAD> <pad>"] * 50, lowercase=lowercase)
    for tokenizer in (many, Tokenizer.from_json(many.to_json(), where="x")):
        (row,) = tokenizer.encode([text])
        assert not set(row[:-1]) & {0, 1, 2, 3}
        spelled = text.lower() if lowercase else text
        (back,) = tokenizer.decode([row])
        assert back.replace(" ", "") == spelled.replace(" ", "")
        if kind != "wordpiece":
            assert back == spelled


def test_decode_drops_specials(tokenizer: Tokenizer) -> None:
    (row,) = tokenizer.encode(["Le chat"])
    framed = [tokenizer.bos, *row, tokenizer.pad, tokenizer.pad]
    assert tokenizer.decode([framed, []]) == ["Le chat", ""]


def test_no_learned_token_is_spelled_like_a_special(kind: str) -> None:
    learned = json.loads(train(kind, ["</s> <s> <unk> <pad>"] * 100).to_json())
    vocabulary = learned["model"]["vocab"]
    assert {token for token, id in vocabulary.items() if id < 4} == set(SPECIALS)
    assert [added["content"] for added in learned["added_tokens"]] == list(SPECIALS)
    assert sorted(vocabulary.values()) == list(range(len(vocabulary)))
    if kind == "bpe":  # the text was learned from, not set aside
        assert "</" in vocabulary


def test_file_loads_in_the_library_with_the_same_ids(tokenizer: Tokenizer) -> None:
    plain = Backend.from_str(tokenizer.to_json())
    ordinary = [text for text in TEXTS if "<" not in text]
    assert [row.ids for row in plain.encode_batch(ordinary)] == tokenizer.encode(ordinary)
    assert plain.get_vocab_size() == len(tokenizer)


def test_read_again_is_the_same(tokenizer: Tokenizer) -> None:
    again = Tokenizer.from_json(tokenizer.to_json(), where="x")
    assert again.to_json() == tokenizer.to_json()
    assert again.to_json() == tokenizer.to_json()
    assert again.encode(TEXTS) == tokenizer.encode(TEXTS)
    assert again.lossless == tokenizer.lossless


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(st.sampled_from([*SPECIALS, "<", "s>", "/", " ", "é", "\n", "▁", "Ġ"])))
def test_no_text_gives_a_special_id(tokenizer: Tokenizer, parts: list[str]) -> None:
    """C4: nothing but `unk`, and that only where `unknowns` counts it."""
    text = "".join(parts)
    (row,) = tokenizer.encode([text])
    assert not {tokenizer.pad, tokenizer.bos, tokenizer.eos} & set(row[:-1])
    assert row.count(tokenizer.unk) == tokenizer.unknowns([text])[1].total()


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=200))
def test_bpe_gives_back_any_text(bpe: Tokenizer, text: str) -> None:
    (row,) = bpe.encode([text])
    assert bpe.decode([row]) == [text]
    assert not set(row[:-1]) & {0, 1, 2, 3}


@pytest.mark.parametrize(
    "text",
    [
        "\0",
        "a\r\nb\r",
        "e\u0301\u0327",
        "123  x ~_!\n",
        " ",
        "  lead",
        "Ġ ▁ ##",
        "\ufeffx",
        "x" * 999,
    ],
)
def test_bpe_gives_back_odd_text(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode([text])) == [text]


def test_combining_marks_stay_with_their_letters_in_bpe() -> None:
    """Hindi falls into pieces under a rule that knows letters only."""
    tokenizer = train("bpe", ["हिन्दी हिन्दी"] * 3)
    assert tokenizer.pieces(tokenizer.encode(["हिन्दी हिन्दी"])[0]) == ["हिन्दी", "▁हिन्दी", EOS]


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="aé ▁'<>/s.\u00a0\n\u200d\u0301_9", min_size=1, max_size=30))
def test_words_and_characters_give_back_known_text(text: str) -> None:
    for kind in ("word", "character"):
        tokenizer = train(kind, [text])
        assert tokenizer.decode(tokenizer.encode([text])) == [text]


def test_lossless_only_where_it_holds() -> None:
    assert {kind: train(kind).lossless for kind in KINDS} == {
        "character": False, "word": False, "bpe": True, "wordpiece": False,
    }  # fmt: skip
    assert not train("bpe", lowercase=True).lossless
    assert not train("bpe", strip_accents=True).lossless
    prefixed = json.loads(train("bpe").to_json())
    prefixed["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = True
    assert not Tokenizer.from_json(json.dumps(prefixed), where="x").lossless


def test_a_word_is_one_token_wherever_it_stands() -> None:
    tokenizer = train("word", ["chat, le chat"])
    assert tokenizer.pieces(tokenizer.encode(["chat, le chat"])[0]) == [
        "▁chat", ",", "▁le", "▁chat", EOS,
    ]  # fmt: skip


def test_lowercase_and_accents_are_separate_switches() -> None:
    text = "ÉTÉ हिन्दी 한국"
    for kind in ("character", "word", "bpe"):
        plain, lower, stripped = (
            train(kind, [text], **switch).decode(train(kind, [text], **switch).encode([text]))
            for switch in ({}, {"lowercase": True}, {"strip_accents": True})
        )
        assert (plain, lower) == ([text], ["été हिन्दी 한국"]), kind
        assert stripped[0].split()[::2] == ["ETE", "한국"], kind
    lower = train("wordpiece", [text], lowercase=True)
    assert lower.decode(lower.encode([text])) == ["été हिन्दी 한국"]


def test_unknowns_are_listed_not_raised(kind: str) -> None:
    """C13 and C9: characters one by one, words and word pieces whole."""
    tokenizer = train(kind, ["ab ab ab"])
    share, found = tokenizer.unknowns(["ab c", "c😀"])
    expected = {
        "character": ({"c": 2, "😀": 1}, 3 / 6),
        "word": ({"c": 2, "😀": 1}, 3 / 4),
        "bpe": ({}, 0.0),
        "wordpiece": ({"c": 1, "c😀": 1}, 2 / 3),
    }[kind]
    assert (found, share) == expected
    assert tokenizer.decode(tokenizer.encode(["ab"])) == ["ab"]
    assert tokenizer.unknowns([]) == (0.0, {})


def test_wordpiece_reports_words_that_are_too_long() -> None:
    tokenizer = train("wordpiece", ["a aa aaa"])
    assert tokenizer.unknowns(["a" * 100]) == (0.0, {})
    assert tokenizer.unknowns(["a" * 101]) == (1.0, {"a" * 101: 1})


def test_more_texts_than_a_block_come_back_in_order(kind: str) -> None:
    tokenizer = train(kind, ["0 1 2 3 4 5 6 7 8 9"])
    texts = [" ".join(str(number)) for number in range(9_000)]
    rows = tokenizer.encode(texts)
    assert tokenizer.decode(rows) == texts
    total = sum(len(row) - 1 for row in rows)
    assert tokenizer.unknowns([*texts, "x"])[0] == (0 if kind == "bpe" else 1 / (total + 1))


def test_pieces_are_readable() -> None:
    characters = train("character", ["a b\n\u00a0é"])
    assert characters.pieces(characters.encode(["a \n\u00a0é"])[0]) == [
        "a", "▁", "\\n", "␣", "é", EOS,
    ]  # fmt: skip
    byte_level = train("bpe", ["le été"] * 9, size=268)
    assert byte_level.pieces(byte_level.encode(["le ü"])[0]) == ["le", "▁", "\\xc3", "\\xbc", EOS]
    pieces = train("wordpiece", ["ab"], size=8)
    assert pieces.pieces(pieces.encode(["abb"])[0]) == ["ab", "##b", EOS]
    with pytest.raises(ValueError, match="id 99999 is not among"):
        pieces.pieces([99999])


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"model": 3}'])
def test_broken_file_names_its_place(text: str) -> None:
    with pytest.raises(UserError, match=r"^run/tokenizer\.json: not a tokeniser"):
        Tokenizer.from_json(text, where="run/tokenizer.json")


def test_file_without_specials_or_framing_is_refused(tokenizer: Tokenizer) -> None:
    file = json.loads(tokenizer.to_json())
    with pytest.raises(UserError, match="run: the tokeniser does not end each text with </s>"):
        Tokenizer.from_json(json.dumps(file | {"post_processor": None}), where="run")
    file["added_tokens"][2]["special"] = False
    with pytest.raises(UserError, match="run: the tokeniser has no special token <s>"):
        Tokenizer.from_json(json.dumps(file), where="run")


def test_half_a_surrogate_pair_is_named(tokenizer: Tokenizer) -> None:
    for call in (tokenizer.encode, tokenizer.unknowns):
        with pytest.raises(UserError, match="text 2 is not valid Unicode"):
            call(["fine", "a\ud800"])


def test_check_fits_names_token_and_sizes(tokenizer: Tokenizer) -> None:
    """C11: before the index error in the kernel."""
    size = len(tokenizer)
    check_fits(tokenizer, size, "config.json")
    (last,) = tokenizer.pieces([size - 1])
    with pytest.raises(UserError) as caught:
        check_fits(tokenizer, size - 1, "config.json")
    message = str(caught.value)
    assert message.startswith("config.json: ")
    assert f"{size} ids" in message
    assert f"{size - 1} rows" in message
    assert f"'{last}'" in message
