"""A Marian folder as a translator: opened with its own tokenisers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from headway.base.errors import UserError
from headway.base.files import read_json, read_text
from headway.checkpoint.exchange.config import Config
from headway.checkpoint.exchange.folders import read_config
from headway.checkpoint.exchange.huggingface import read_model
from headway.models.seq2seq import Transformer
from headway.runs.text_tokenizers import read_table, token_text
from headway.runs.translator import Translator
from headway.settings.kinds import Foreign
from headway.settings.training import EvaluateSettings
from headway.tokens.folder_files import GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG
from headway.tokens.sentence_pieces import SentencePieces
from headway.tokens.sides import Sides
from headway.tokens.tokenizer import Tokenizer

SOURCE, TARGET = "source", "target"  # folders of the tokenisers where there are two
_ROLES = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}


def open_marian(folder: Path, device: torch.device) -> Translator:
    """The translator of a folder. Raises UserError if its model or a tokeniser cannot be read."""
    model, settings = read_model(folder)
    if not isinstance(model, Transformer):
        raise UserError(
            f"a {settings.kind} does not translate", where=str(folder), todo="name a Marian"
        )
    config = read_config(folder)
    said = Config({**config.table, **read_table(folder / GENERATION_CONFIG)}, config.where)
    evaluate = config.settings(EvaluateSettings, beam=said.take("num_beams", int, 4))
    return Translator(
        model.to(device),
        marian_tokenizers(folder, config),
        Foreign(model=settings, evaluate=evaluate),
        device,
    )


def marian_tokenizers(folder: Path, config: Config) -> Sides:
    """One tokenizer.json, one in each of two folders, or .spm files with their vocabulary."""
    start = start_id(config)
    if (folder / TOKENIZER).is_file():
        joint = _tokenizer(folder / TOKENIZER, start)
        return Sides(joint, joint)
    if (folder / SOURCE / TOKENIZER).is_file():
        source, target = (_tokenizer(folder / side / TOKENIZER, start) for side in (SOURCE, TARGET))
        return Sides(source, target)
    said = read_table(folder / TOKENIZER_CONFIG)
    source_ids = _vocabulary(folder / "vocab.json")
    own = bool(said.get("separate_vocabs")) or (folder / "target_vocab.json").is_file()
    target_ids = _vocabulary(folder / "target_vocab.json") if own else source_ids
    return Sides(
        _pieces(folder / "source.spm", source_ids, said, start),
        _pieces(folder / "target.spm", target_ids, said, start),
    )


def start_id(config: Config) -> int:
    """What a translation begins with. Raises UserError if the decoder has no row for it."""
    start = config.take("decoder_start_token_id", int)
    n_target = config.take("decoder_vocab_size", int, config.take("vocab_size", int))
    if not 0 <= start < n_target:
        what = f"'decoder_start_token_id' is {start}; its target has the ids 0 to {n_target - 1}"
        raise UserError(what, where=config.where, todo="copy the file again")
    return start


def _tokenizer(path: Path, start: int) -> Tokenizer:
    found = Tokenizer.from_json(read_text(path), where=str(path))
    found.bos = start
    return found


def _pieces(
    path: Path, vocabulary: dict[str, int], said: dict[str, Any], start: int
) -> SentencePieces:
    names = {role: token_text(said.get(f"{role}_token")) or name for role, name in _ROLES.items()}
    missing = [name for name in names.values() if name not in vocabulary]
    if missing:
        raise UserError(f"there is no '{missing[0]}' in its vocabulary", where=str(path.parent))
    if not path.is_file():
        raise UserError(f"there is no {path.name}", where=str(path.parent), todo="copy it again")
    ids = {role: vocabulary[name] for role, name in names.items()}
    return SentencePieces(path.read_bytes(), vocabulary, bos=start, where=str(path), **ids)


def _vocabulary(path: Path) -> dict[str, int]:
    table = read_json(path)
    fits = isinstance(table, dict) and all(type(id) is int and id >= 0 for id in table.values())
    if not fits or not table:
        raise UserError("not a table of tokens with their ids", where=str(path))
    return dict(table)
