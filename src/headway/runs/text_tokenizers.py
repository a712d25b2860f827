"""The tokeniser beside a model from elsewhere, with the roles that its files give to tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError, is_broken
from headway.base.files import read_json, read_text, to_json
from headway.base.runtime import return_pages
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.folders import is_foreign
from headway.checkpoint.exchange.gguf_file import GGUF
from headway.checkpoint.run import RunFolder
from headway.data.rows import expand
from headway.runs.tokenizers import opened_tokenizer
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.tokenizer import TokenizerSettings
from headway.tokens.folder_files import GENERATION_CONFIG as ENDS
from headway.tokens.folder_files import TOKENIZER, TOKENIZER_CONFIG
from headway.tokens.gguf import KEY, WHOLE_WORDS, gguf_tokenizer, named_ends
from headway.tokens.kinds import MASKS
from headway.tokens.specials import find_specials, make_special
from headway.tokens.text import Roles, TextTokenizer
from headway.tokens.text_training import framing, train_text_tokenizer
from headway.tokens.tokenizer import open_backend

_TEMPLATE, _SPECIALS = "chat_template.jinja", "special_tokens_map.json"


def folder_tokenizer(folder: Path) -> TextTokenizer:
    """The tokeniser of a Hugging Face folder.

    Roles come from tokenizer_config.json, ends also from generation_config.json and config.json;
    what they leave out from special_tokens_map.json, else from the usual names of special tokens.
    Raises UserError if there is no tokenizer.json or it cannot be read, and for a start or an end
    that it lacks.
    """
    path = folder / TOKENIZER
    if not path.is_file():
        raise UserError(f"there is no {TOKENIZER}", where=str(folder))
    made = open_backend(read_text(path), where=str(path), todo="copy it again")
    made.no_padding()
    made.no_truncation()
    ends = _ends(folder, made)
    said = _usual(made, has_ends=bool(ends))
    for name in (_SPECIALS, TOKENIZER_CONFIG):
        said |= read_table(folder / name)
    ids = {name: _id_of(name, made, said) for name in ("bos", "eos", "pad", "mask")}
    for name in ("bos", "eos"):  # without which a text would begin or end otherwise
        if ids[name] is None and (token := said.get(f"{name}_token")) is not None:
            what = f"'{name}_token' is {token!r}, and {TOKENIZER} has no such token"
            raise UserError(what, where=str(folder), todo="copy the files of the tokeniser again")
    template = folder / _TEMPLATE
    roles = Roles(
        bos=ids["bos"],
        pad=ids["pad"],
        mask=ids["mask"],
        ends=_whole({*ends, ids["eos"]}),
        eos=ids["eos"],
        adds_bos=_adds_bos(made, said, ids["bos"]),
        closes=said.get("add_eos_token") is True,
        template=read_text(template) if template.is_file() else _template(said),
    )
    make_special(made, (roles.bos, roles.pad, roles.mask, roles.eos, *roles.ends))
    return TextTokenizer(made, roles, where=str(path))


def _ends(folder: Path, made: Backend) -> set[int]:
    """The ids that end a text, as generation_config.json and config.json say them."""
    found = set()
    for name in (ENDS, "config.json"):
        said = read_table(folder / name).get("eos_token_id")
        for id in said if isinstance(said, list) else [said]:
            if id is None:
                continue
            if type(id) is not int or not 0 <= id < 2**32 or made.id_to_token(id) is None:
                what = f"'eos_token_id' is {said!r}, and no token has that id"
                raise UserError(what, where=str(folder / name), todo="correct it, or take it out")
            found.add(id)
    return found


def _id_of(role: str, made: Backend, said: Mapping[str, Any]) -> int | None:
    token = token_text(said.get(f"{role}_token"))
    return None if token is None or is_broken(token) else made.token_to_id(token)


def _usual(made: Backend, *, has_ends: bool) -> dict[str, Any]:
    """Roles by the names that special tokens usually have; no end where one is known."""
    file = json.loads(made.to_str())
    special = {added["content"] for added in file["added_tokens"] if added["special"]}
    found = find_specials(file)
    if has_ends:
        found.pop("eos", None)
    mask = next((name for name in MASKS if name in special), None)
    return {f"{role}_token": token for role, token in (found | {"mask": mask}).items()}


def recipe_tokenizer(
    model: EncoderSettings | DecoderSettings,
    settings: TokenizerSettings,
    folder: RunFolder | None,
    texts: Iterable[str],
    *,
    masks: bool = False,
) -> TextTokenizer:
    """That of `folder`, of a run that goes on; that of what the model begins from; that of the
    file which the settings name; else one that is learnt from `texts`, read once. The last two
    have a token that masks others if that is wanted.
    """
    if folder is not None:
        return run_tokenizer(folder)
    if model.origin is not None:
        if settings.file is not None:
            raise UserError(
                "the tokeniser comes with the model that model.from names",
                where="tokenizer.file",
                todo="leave one of them out",
            )
        return origin_tokenizer(model.origin)
    if settings.file is not None:
        return framing(opened_tokenizer(settings.file), masks=masks)
    made = train_text_tokenizer(settings, texts, masks=masks)
    return_pages()  # learning takes over 1 kB for each distinct word, most of it freed by now
    return made


def origin_tokenizer(origin: str) -> TextTokenizer:
    """The tokeniser of what a recipe's model begins from: a run, a folder or a .gguf file."""
    place = Path(expand(origin, "model.from"))
    if place.suffix == ".gguf":
        return file_tokenizer(GGUF(place))
    return folder_tokenizer(place) if is_foreign(place) else run_tokenizer(RunFolder(place))


def run_tokenizer(folder: RunFolder) -> TextTokenizer:
    """The tokeniser of a run. Raises UserError if its files are not those that it began with."""
    for name in (TOKENIZER, TOKENIZER_CONFIG, ENDS):
        folder.tokenizer_text(name)
    return folder_tokenizer(folder.path)


def tokenizer_files(tokenizer: TextTokenizer) -> dict[str, str]:
    """Name and content of the files from which `folder_tokenizer` makes the same tokeniser."""
    roles = tokenizer.roles
    ids = {"bos": roles.bos, "eos": roles.end, "pad": roles.pad, "mask": roles.mask}
    said: dict[str, Any] = {  # those that are none too: else names would be looked for
        f"{name}_token": None if id is None else tokenizer.token(id) for name, id in ids.items()
    }
    said |= {"add_bos_token": roles.adds_bos, "add_eos_token": roles.closes}
    said |= {"tokenizer_class": "PreTrainedTokenizerFast"}
    if roles.template is not None:
        said["chat_template"] = roles.template
    return {
        TOKENIZER: tokenizer.to_json(),
        TOKENIZER_CONFIG: to_json(said),
        ENDS: to_json({"eos_token_id": sorted(roles.ends)}),
    }


def file_tokenizer(file: GGUF, *, pre: str | None = None) -> TextTokenizer:
    """The tokeniser of a GGUF file; with `pre` by the rule of that name, whatever the file's.

    Tokens that are spelled as ends of a turn end what is generated, as in llama.cpp: many files
    name one end where a chat has two. Raises UserError for a kind or rule that is not known.
    """
    where = str(file.path)
    if pre is not None and str(file.metadata.get(f"{KEY}.model")) != "gpt2":
        raise UserError("only tokenisers of GPT-2's kind cut text by a rule", where=str(file.path))
    metadata = file.metadata if pre is None else file.metadata | {f"{KEY}.pre": pre}
    made = gguf_tokenizer(metadata, where)

    def id_of(name: str) -> int | None:
        found = metadata.get(f"{KEY}.{name}_token_id")
        if type(found) is not int or not 0 <= found < 2**32:  # of some files -1 means none
            return None
        return found if made.id_to_token(found) is not None else None

    template = metadata.get("tokenizer.chat_template")
    said = Config(metadata, where)
    # as llama.cpp has it where a file leaves it out
    begins = (
        said.table.get(f"{KEY}.model") == "llama" or said.table.get(f"{KEY}.pre") in WHOLE_WORDS
    )
    roles = Roles(
        bos=id_of("bos"),
        pad=id_of("padding"),
        ends=_whole({*map(id_of, ("eos", "eot", "eom")), *named_ends(made.token_to_id)}),
        eos=id_of("eos"),
        adds_bos=said.take(f"{KEY}.add_bos_token", bool, begins),
        closes=said.take(f"{KEY}.add_eos_token", bool, False),
        template=template if isinstance(template, str) else None,
    )
    make_special(made, (roles.bos, roles.pad, *roles.ends))
    return TextTokenizer(made, roles, where=where)


def _adds_bos(made: Backend, said: Mapping[str, Any], bos: int | None) -> bool:
    """Whether the file's own frame begins a text with the start symbol."""
    if isinstance(said.get("add_bos_token"), bool):
        return bool(said["add_bos_token"])
    return bos is not None and made.encode("").ids[:1] == [bos]


def _template(said: Mapping[str, Any]) -> str | None:
    """The chat template; of several that have names, the one called default."""
    found = said.get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def token_text(token: Any) -> str | None:
    """A token's text: files write it plainly, or with its flags."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _whole(ids: Iterable[Any]) -> frozenset[int]:
    return frozenset(id for id in ids if isinstance(id, int) and not isinstance(id, bool))


def read_table(path: Path) -> dict[str, Any]:
    """The table in a file that may be missing."""
    found = read_json(path) if path.is_file() else {}
    if not isinstance(found, dict):
        raise UserError("not a table", where=str(path))
    return found
