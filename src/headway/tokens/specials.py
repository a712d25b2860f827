"""Which tokens of a tokenizer.json are padding, unknown, start and end; adding those it lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from headway.tokens.kinds import BOS, EOS, PAD, UNK

File = dict[str, Any]  # the content of a tokenizer.json, as the library writes it

# A file does not say what its special tokens are for, so they are known by name. The first name of
# a role is the one that Headway gives; the others are of files from elsewhere, likeliest first.
NAMES: dict[str, tuple[str, ...]] = {
    "pad": (PAD, "[PAD]", "<|pad|>", "<|padding|>", "<PAD>", "<blank>"),
    "unk": (UNK, "[UNK]", "<|unk|>", "<|unknown|>", "<UNK>"),
    "bos": (
        *(BOS, "[BOS]", "<bos>", "<|bos|>", "<BOS>"),
        *("<|startoftext|>", "<|begin_of_text|>", "[CLS]"),
    ),
    "eos": (
        *(EOS, "[EOS]", "<eos>", "<|eos|>", "<EOS>"),
        *("<|endoftext|>", "<|end_of_text|>", "[SEP]"),
    ),
}


def find_specials(file: File) -> dict[str, str]:
    """Role -> token, for each of the four roles that one of the file's special tokens has."""
    marked = {added["content"] for added in file["added_tokens"] if added["special"]}
    found = {}
    for role, names in NAMES.items():
        token = next((name for name in _names(file, role, names) if name in marked), None)
        if token is not None:
            found[role] = token
    return found


def add_specials(file: File) -> list[str]:
    """Give `file` a special token for each role that has none; returns what was done, in words.

    A token of the vocabulary that has the name of a role takes it, unless text can become that
    token by merges; else one is added behind the last id.
    """
    done = []
    for role, names in NAMES.items():
        if role in find_specials(file):
            continue
        known, merged = vocabulary(file), _merge_products(file)
        free = [name for name in _names(file, role, names) if name not in merged]
        token = next((name for name in free if name in known), free[0])
        if token in known:
            done.append(f"its {token} (id {known[token]}) is now a special token")
            _mark(file, token, known[token])
        else:
            id = 1 + max(known.values(), default=-1)
            done.append(f"added the special token {token} (id {id})")
            vocab = file["model"]["vocab"]
            # The library numbers a new token by how many there are: wrong where ids have gaps.
            if isinstance(vocab, dict) and len(vocab) != 1 + max(vocab.values(), default=-1):
                vocab[token] = id
            _mark(file, token, id)
    _let_all_be_unknown(file)
    return done


def unknown_token(file: File) -> str | None:
    """The token that the file's model gives where it knows nothing; None if it has none."""
    return _unknown(file["model"])


def vocabulary(file: File) -> dict[str, int]:
    """Token -> id, of the model and of what was added to it."""
    vocab = file["model"]["vocab"]
    if not isinstance(vocab, dict):  # unigram: pieces and their log-probabilities
        vocab = {piece: id for id, (piece, _) in enumerate(vocab)}
    return vocab | {added["content"]: added["id"] for added in file["added_tokens"]}


def _names(file: File, role: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names that a role may have: the model's own unknown token comes before any other."""
    own = _unknown(file["model"]) if role == "unk" else None
    taken = {name for other, others in NAMES.items() if other != role for name in others}
    return names if own is None or own in taken else (own, *names)


def _unknown(model: File) -> str | None:
    """The token that the model gives where it knows nothing; None if it has none."""
    if model["type"] == "Unigram":
        id = model.get("unk_id")
        return None if id is None else str(model["vocab"][id][0])
    token = model.get("unk_token")
    return None if token is None else str(token)


def _merge_products(file: File) -> set[str]:
    return {"".join(pair) for pair in file["model"].get("merges") or []}


def _mark(file: File, token: str, id: int) -> None:
    others = [added for added in file["added_tokens"] if added["content"] != token]
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    file["added_tokens"] = sorted(
        [*others, {"id": id, "content": token, **plain, "special": True}],
        key=lambda added: added["id"],
    )


def _let_all_be_unknown(file: File) -> None:
    """Let the model give its unknown token: it fails if that is not in its own vocabulary.

    The other special tokens go there with it, so that the ids have no gap.
    """
    model, known, unk = file["model"], vocabulary(file), find_specials(file)["unk"]
    if model["type"] == "Unigram":
        if model.get("unk_id") is None:
            pieces = model["vocab"]
            least = min((score for _, score in pieces), default=0.0)
            others = sorted((id, token) for token, id in known.items() if id >= len(pieces))
            model["vocab"] = [*pieces, *([token, least] for _, token in others)]
            model["unk_id"] = known[unk]
        return
    own = model.get("unk_token")
    if model["type"] != "BPE" or not (own is None or own in model["vocab"]):
        model["vocab"], model["unk_token"] = known, unk


def make_special(made: Backend, ids: Iterable[int | None]) -> None:
    """Make the tokens of these ids special: a user's text that spells one is text then.

    A file may have them as added tokens that are not special, or in its vocabulary alone;
    transformers makes those special too that tokenizer_config.json gives a role. One that text can
    be, such as a line end that ends what is generated, stays as it is: decoding would drop it.
    """
    added = made.get_added_tokens_decoder()
    for id in sorted({id for id in ids if id is not None}):
        token, flags = made.id_to_token(id), added.get(id)
        if token is None or (flags.special if flags is not None else _is_of_text(made, id)):
            continue
        kept = ("single_word", "lstrip", "rstrip", "normalized")
        said = {name: flags is not None and getattr(flags, name) for name in kept}
        made.add_special_tokens([AddedToken(token, special=True, **said)])


def _is_of_text(made: Backend, id: int) -> bool:
    """Whether text can become the token of an id that only the model's vocabulary has."""
    text = made.decode([id], skip_special_tokens=False)
    return "\ufffd" in text or id in made.encode(text, add_special_tokens=False).ids
