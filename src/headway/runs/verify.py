"""What was exported, held against the tool that it is for.

Where tokens are chosen, numbers are compared as log-probabilities, so that they mean the same
whatever the model; of an encoder hidden states are, or the logits of its head. Tokens that the
other tool chose are scored by a plain forward pass of ours: each must be our likeliest, up to the
same tolerance, and a hypothesis of a beam must have the log-probability that it came with.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.base.errors import UserError
from headway.base.optional import optional
from headway.checkpoint.exchange.folders import CONFIG
from headway.checkpoint.exchange.gguf_file import GGUF, STORAGES
from headway.checkpoint.exchange.gguf_models import read_gguf_model
from headway.models.decoder import Decoder
from headway.models.encoder import Encoder
from headway.models.seq2seq import Transformer
from headway.runs.portable import Portable
from headway.tokens.gguf_metadata import TEXTS

_MODULES = {"hf": "transformers", "gguf": "llama_cpp", "ctranslate2": "ctranslate2"}
_PACKAGES = {"llama_cpp": "llama-cpp-python"}
_SHARED = "shared_vocabulary.json"
_ROWS, _LENGTH, _NEW = 4, 12, 32
_EXACT = 1e-3  # nats: float32, summed in another order
# Nats, of the unlikeliest token too: where numbers are rounded, llama.cpp rounds what they meet
_STORED = {"F32": _EXACT, "F16": 0.1, "Q8_0": 2.0}


@dataclass(frozen=True)
class Verified:
    """What was compared: with which tool, how far the numbers were apart at most (log-probabilities
    in nats, or what is `compared`), and how many tokens it chose as we do, if it chooses any.
    """

    tool: str
    largest: float
    tokens: int
    compared: str = "log-probabilities"

    def __str__(self) -> str:
        chosen = f", {self.tokens} tokens the same" if self.tokens else ""
        return f"{self.tool}: {self.compared} within {self.largest:.1e}{chosen}"


def runtime(format: str) -> Any:
    """The tool that a format is for. Raises UserError if it is not installed."""
    module = _MODULES[format]
    package = _PACKAGES.get(module)
    if package is None:
        return optional(module, extra="export", where="verify")
    try:
        return optional(module, extra="export", where="verify")
    except UserError:
        what = f"this needs the package '{package}', which is not installed"
        raise UserError(what, where="verify", todo=f"pip install {package}") from None


@torch.inference_mode()
def verify_written(place: Path, portable: Portable, format: str) -> Verified:
    """Open what was written with the tool that it is for, and compare.

    Raises UserError if that computes, chooses or reads something else.
    """
    portable.model.eval()
    tool, module = runtime(format), _MODULES[format]
    package = _PACKAGES.get(module, module)
    found = _Found(f"{package} {metadata.version(package)}")
    compare = {"hf": _transformers, "gguf": _llama_cpp, "ctranslate2": _ctranslate2}[format]
    with _quiet(tool) if format == "hf" else contextlib.nullcontext():
        compare(tool, place, portable, found)
    return Verified(found.tool, found.largest, found.tokens, found.compared)


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without its progress bars and its reports on loading."""
    logging = transformers.utils.logging
    level, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bars:
            logging.enable_progress_bar()


class _Found:
    """What was found so far; each method raises UserError for what is not the same."""

    def __init__(self, tool: str) -> None:
        self.tool, self.largest, self.tokens = tool, 0.0, 0
        self.compared = "log-probabilities"

    def numbers(self, theirs: Tensor, ours: Tensor, tolerance: float = _EXACT) -> None:
        """The same numbers."""
        apart = float((theirs.double() - ours.double()).abs().max())
        self.largest = max(self.largest, apart)
        if not apart <= tolerance:
            raise self.differs(f"its numbers are up to {apart:.2g} from ours")

    def choices(self, chosen: list[int], ours: Tensor, tolerance: float = _EXACT) -> None:
        """Tokens of which each is our likeliest: log-probabilities (T, V)."""
        best = ours.max(dim=-1).values
        gaps = best - ours[torch.arange(len(chosen)), torch.tensor(chosen)]
        if not bool((gaps <= tolerance).all()):
            place = int((gaps > tolerance).nonzero()[0])
            raise self.differs(f"it chose another token at place {place + 1}")
        self.tokens += len(chosen)

    def ids(self, theirs: list[list[int]], ours: list[list[int]]) -> None:
        """The same ids of texts."""
        for text, one, other in zip(TEXTS, theirs, ours, strict=True):
            if one != other:
                raise self.differs(f"it cuts {text!r} otherwise")

    def differs(self, what: str) -> UserError:
        """What is told of a difference."""
        return UserError(f"{self.tool} does not compute the same: {what}", where="verify")


def _transformers(tool: Any, place: Path, portable: Portable, found: _Found) -> None:
    model = portable.model
    (kind,) = json.loads((place / CONFIG).read_text("utf-8"))["architectures"]
    theirs = getattr(tool, kind).from_pretrained(place, dtype=torch.float32).eval()
    if portable.text is not None:
        made = tool.AutoTokenizer.from_pretrained(place)
        rows = [made(text, split_special_tokens=True).input_ids for text in TEXTS]
        framed = [row for row, _ in portable.text.framed(TEXTS)]
        found.ids(rows, portable.text.whole(TEXTS) if isinstance(model, Decoder) else framed)
    for row in _draw(portable):
        ids = torch.tensor([row])
        if not isinstance(model, Decoder | Transformer):
            real = torch.ones_like(ids, dtype=torch.bool)
            what = "hidden states" if isinstance(model, Encoder) else "logits"
            found.compared = f"{what} of {_ROWS} rows of ids"
            found.numbers(theirs(ids, **_reaches(theirs, ids))[0], model(ids, real))
            continue
        chosen = _generated(tool, theirs, ids, portable)
        given: dict[str, Tensor] = {"input_ids": torch.tensor([row + chosen[:-1]])}
        if isinstance(model, Transformer):
            start = portable.ids["decoder_start_token_id"]
            given = {"input_ids": ids, "decoder_input_ids": torch.tensor([[start, *chosen[:-1]]])}
        wanted = theirs(**given).logits[0, -len(chosen) :].log_softmax(-1)
        ours = _forced(model, row, chosen, portable)
        found.numbers(wanted, ours)
        found.choices(chosen, ours)


def _reaches(theirs: Any, ids: Tensor) -> dict[str, Tensor]:
    """What a Longformer is told beside its ids: which see all, and that none of them is padding."""
    if theirs.config.model_type != "longformer":
        return {}
    places = torch.arange(ids.shape[1])[None]
    return {
        "global_attention_mask": (places < theirs.config.n_global).long(),
        "position_ids": places + theirs.config.pad_token_id + 1,
    }


def _generated(tool: Any, theirs: Any, ids: Tensor, portable: Portable) -> list[int]:
    """The greedy continuation, or translation, of one row, up to its end.

    What generation_config.json says of penalties, and of tokens that are never wanted or forced, is
    not the model's own choice: of it the special tokens are kept.
    """
    said = portable.ids.get("eos_token_id")
    ends = said if isinstance(said, list) else [said]
    kept = {"eos_token_id": said, "pad_token_id": portable.ids.get("pad_token_id")}
    is_translator = isinstance(portable.model, Transformer)
    if is_translator:
        kept["decoder_start_token_id"] = portable.ids["decoder_start_token_id"]
    theirs.generation_config = tool.GenerationConfig(**kept)
    n_new = {"max_length": 1 + _n_new(portable)}
    if not is_translator:
        n_new = {"max_new_tokens": _n_new(portable)}
    real = torch.ones_like(ids)
    made = theirs.generate(ids, attention_mask=real, do_sample=False, num_beams=1, **n_new)
    new: list[int] = made[0, 1 if is_translator else ids.shape[1] :].tolist()
    last = next((place for place, id in enumerate(new) if id in ends), len(new) - 1)
    return new[: last + 1]


def _llama_cpp(tool: Any, place: Path, portable: Portable, found: _Found) -> None:
    assert portable.text is not None, "a GGUF file has a tokeniser"
    file = GGUF(place)
    model, _ = read_gguf_model(file)  # with the numbers as they were rounded
    stored = STORAGES[file.tensors["token_embd.weight"].kind].name
    n_new = _n_new(portable)
    theirs = tool.Llama(
        model_path=str(place),
        n_ctx=_LENGTH + n_new,
        logits_all=True,
        type_k=tool.GGML_TYPE_F32,
        type_v=tool.GGML_TYPE_F32,
        n_gpu_layers=0,
        verbose=False,
    )
    rows = [theirs.tokenize(text.encode(), add_bos=False, special=False) for text in TEXTS]
    found.ids(rows, portable.text.encode(TEXTS))
    for row in _draw(portable):
        theirs.reset()
        theirs.eval(row)
        chosen: list[int] = []
        for _ in range(n_new):
            chosen.append(int(theirs.scores[theirs.n_tokens - 1].argmax()))
            theirs.eval(chosen[-1:])
        logits = torch.from_numpy(theirs.scores[len(row) - 1 : len(row) + n_new - 1].copy())
        ours = _forced(model, row, chosen, portable)
        found.numbers(logits.log_softmax(-1), ours, _STORED[stored])
        found.choices(chosen, ours, _STORED[stored] / 4)


def _ctranslate2(tool: Any, place: Path, portable: Portable, found: _Found) -> None:
    assert portable.sides is not None, "a translator has tokenisers"
    source, target = (
        json.loads(
            ((place / name) if (place / name).exists() else place / _SHARED).read_text("utf-8")
        )
        for name in ("source_vocabulary.json", "target_vocabulary.json")
    )
    numbers = {token: id for id, token in enumerate(target)}
    theirs = tool.Translator(str(place), device="cpu", compute_type="float32")
    rows = _draw(portable)
    settings = {
        "return_scores": True,
        "return_end_token": True,
        "length_penalty": 0,
        "min_decoding_length": 0,
    }
    for beam in (1, 4):
        results = theirs.translate_batch(
            [[source[id] for id in row] for row in rows],
            beam_size=beam,
            num_hypotheses=beam,
            max_decoding_length=_n_new(portable),
            **settings,
        )
        for row, result in zip(rows, results, strict=True):
            for tokens, score in zip(result.hypotheses, result.scores, strict=True):
                chosen = [numbers[token] for token in tokens]
                ours = _forced(portable.model, row, chosen, portable)
                if beam == 1:
                    found.choices(chosen, ours)
                own = ours[torch.arange(len(chosen)), torch.tensor(chosen)].sum()
                found.numbers(torch.tensor(score), own, 1e-4 + 1e-5 * abs(score))


def _draw(portable: Portable) -> list[list[int]]:
    """Some rows of ids that the model reads; those of a translator end as its sources do."""
    model: Any = portable.model
    encoder = getattr(model, "encoder", model)
    n = model.vocabulary_sizes()[0] if isinstance(model, Transformer) else encoder.n_tokens
    length = min(_LENGTH, portable.settings.max_length - 1)
    drawn = torch.randint(n, (_ROWS, length), generator=torch.Generator().manual_seed(1))
    rows: list[list[int]] = drawn.tolist()
    if portable.sides is not None:
        rows = [[*row[:-1], portable.sides.source.eos] for row in rows]
    return rows


def _n_new(portable: Portable) -> int:
    return min(_NEW, max(1, portable.settings.max_length - _LENGTH))


def _forced(model: Any, row: list[int], chosen: list[int], portable: Portable) -> Tensor:
    """Our log-probabilities of what may stand at each place of `chosen`: (T, V)."""
    ids = torch.tensor([row])
    if portable.sides is not None:
        begun = torch.tensor([[portable.sides.target.bos, *chosen[:-1]]])
        logits = model(ids, torch.ones_like(ids, dtype=torch.bool), begun)[0]
    else:
        logits = model(torch.tensor([row + chosen[:-1]]))[0, -len(chosen) :]
    found: Tensor = logits.log_softmax(-1)
    return found
