"""A tokeniser that exists already: any tokenizer.json, made to fit; or a plain list of words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.data.lines import BOM
from headway.data.rows import expand
from headway.tokens.foreign import word_list
from headway.tokens.lossless import is_byte_level
from headway.tokens.specials import File, add_specials, find_specials, vocabulary
from headway.tokens.tokenizer import Tokenizer, open_backend

NAME = "tokenizer.json"
_NOT_ONE = "name a tokenizer.json of the tokenizers library, or a list of words, one a line"


@dataclass(frozen=True)
class Imported:
    """A tokeniser from elsewhere, and in words what was added or changed to make it fit."""

    tokenizer: Tokenizer
    notes: tuple[str, ...]


def import_tokenizer(path: str | Path) -> Imported:
    """Open a tokenizer.json, the folder that holds one, or a plain list of words, one a line.

    `${NAME}` in the path is that environment variable. The rules of the file stay as they are,
    with what it says of case and accents, and so do its ids. Special tokens that it lacks get ids
    behind its last one; every text ends with its end symbol, as a translator needs it, whatever
    frame the file had; cutting short, padding and dropout are switched off.

    UserError for what is no tokeniser; of the lists that other tools write it says what they are
    and how to come to a tokenizer.json.
    """
    place = Path(expand(str(path), "tokenizer.file"))
    if place.is_dir():
        place /= NAME
    where = str(place)
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        raise UserError("there is no such file", where=where, todo="check the path") from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=where) from None
    file = _table(data.removeprefix(BOM), where)
    notes = _made_to_fit(file)
    return Imported(_built(file, where), tuple(notes))


def _table(data: bytes, where: str) -> File:
    """The file's content as the library writes it."""
    if not data.lstrip().startswith(b"{"):
        return word_list(data, where)
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {error}", where=where, todo="copy it again") from None
    if "model" not in given:
        raise UserError(_kind_of(given), where=where, todo=_NOT_ONE)
    return _read(data.decode("utf-8"), where)


def _kind_of(given: dict[str, Any]) -> str:
    if given and all(isinstance(id, int) for id in given.values()):
        return "this is a vocab.json: ids of tokens without the rules that cut text into them"
    if "tokenizer_class" in given or "model_type" in given:
        return "this is a config file; the tokeniser is in the tokenizer.json beside it"
    return "this is JSON, but no tokeniser"


def _read(text: str, where: str) -> File:
    file: File = json.loads(open_backend(text, where=where, todo=_NOT_ONE).to_str())
    return file


def _made_to_fit(file: File) -> list[str]:
    """Change `file` into one that a translator can use; returns what was done, in words."""
    notes = []
    if file["truncation"] is not None:
        notes.append(f"no longer cuts texts after {file['truncation']['max_length']} tokens")
    if file["padding"] is not None:
        notes.append("no longer fills up short texts")
    file["truncation"] = file["padding"] = None
    if file["model"].get("dropout"):
        notes.append(f"its own dropout of {file['model']['dropout']:g} is off")
        file["model"]["dropout"] = None
    notes += add_specials(file)
    notes += _framed(file)
    notes += _decodable(file)
    model = file["model"]
    if model["type"] == "BPE" and model.get("unk_token") is None and not is_byte_level(file):
        notes.append("characters that it does not know vanish: it has no unknown token for them")
    return notes


def _framed(file: File) -> list[str]:
    """End each text with the end symbol and begin it with nothing."""
    eos = find_specials(file)["eos"]
    text, end = {"Sequence": {"id": "A", "type_id": 0}}, {"id": eos, "type_id": 0}
    ids = {eos: {"id": eos, "ids": [vocabulary(file)[eos]], "tokens": [eos]}}
    frame = {
        "type": "TemplateProcessing",
        "single": [text, {"SpecialToken": end}],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],  # unused, but it must be there
        "special_tokens": ids,
    }
    before = file["post_processor"]
    if before is not None and before.get("single") == frame["single"]:
        return []
    file["post_processor"] = frame
    if before is None or before["type"] == "ByteLevel":  # which adds nothing to a text
        return [f"each text now ends with {eos}"]
    return [f"each text is now the text and {eos}, in place of the frame that the file has"]


def _decodable(file: File) -> list[str]:
    """Give it the decoder that undoes its cutting, if it has none."""
    if file["decoder"] is not None:
        return []
    if file["model"]["type"] == "WordPiece":
        prefix = file["model"]["continuing_subword_prefix"]
        decoder = {"type": "WordPiece", "prefix": prefix, "cleanup": False}
    elif is_byte_level(file):
        flags = dict.fromkeys(("add_prefix_space", "trim_offsets", "use_regex"), True)
        decoder = {"type": "ByteLevel", **flags}
    else:
        return []
    file["decoder"] = decoder
    return [f"added its missing decoder ({decoder['type']})"]


def _built(file: File, where: str) -> Tokenizer:
    made = Backend.from_str(json.dumps(file))
    for role, token in find_specials(file).items():
        id = vocabulary(file)[token]
        if made.token_to_id(token) != id or made.id_to_token(id) != token:
            what = f"the id {id} of {token} ({role}) is taken"
            raise UserError(what, where=where, todo="mend its added_tokens")
    return Tokenizer(made, where=where)
