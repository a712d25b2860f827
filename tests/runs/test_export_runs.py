"""Language models and classifiers that were trained here, at work in other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

import headway
from headway.base.errors import UserError
from headway.runs.classifier import TextClassifier
from headway.runs.language_model import LanguageModel
from headway.runs.open_model import open_embedder

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

MODEL = {"d_model": 32, "d_feed_forward": 64, "n_heads": 2, "max_length": 64, "dropout": 0.0}
LLAMA = {
    "kind": "decoder",
    "n_layers": 2,
    "bias": False,
    "norm": "rms",
    "order": "pre",
    "feed_forward": "swiglu",
    "positions": "rotary",
}
BERT = {"kind": "encoder", "n_layers": 2, "norm_eps": 1e-12}
LONGFORMER = BERT | {"reach": [4], "n_global": 1}
TRAIN = {"learning_rate": 3e-3, "dtype": "float32"}


def train_language(folder: Path, tokenizer: dict[str, Any]) -> Path:
    lines = [f"line {n}: the sun is {'up' if n % 2 else 'down'}, isn't it" for n in range(99)]
    (folder / "train.txt").write_text("\n".join(lines), encoding="utf-8")
    part = {"told": {"files": str(folder / "train.txt"), "document": "line"}}
    recipe = {
        "data": {"kind": "documents", "length": 32, "duplicates": "keep", "train": part},
        "tokenizer": tokenizer,
        "model": MODEL | LLAMA,
        "train": TRAIN | {"steps": 20, "batch_tokens": 256, "warmup": 2},
    }
    headway.train(recipe, out=folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def language_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a tokeniser that cuts words by GPT-2's rule, as llama.cpp can."""
    folder = tmp_path_factory.mktemp("language")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: id for id, token in enumerate([*letters, "th", "the"])}
    made = Backend(models.BPE(vocab, [("t", "h"), ("th", "e")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    return train_language(folder, {"file": str(folder / "tokenizer.json")})


def greedy(path: Path, prompt: str) -> list[int]:
    model = headway.load(path, device="cpu")
    assert isinstance(model, LanguageModel)
    sampling = headway.Sampling(temperature=0.0, max_new_tokens=8)
    return model.generate([prompt], sampling)[0].ids


def test_a_language_model_continues_in_transformers(language_run: Path, tmp_path: Path) -> None:
    headway.export(language_run, tmp_path / "a", format="hf", verify=True)
    made = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    given = made("line 7: the", return_tensors="pt")
    ids = theirs.generate(**given, do_sample=False, max_new_tokens=8)[0]
    wanted = greedy(language_run, "line 7: the")
    assert ids[given.input_ids.shape[1] :].tolist()[: len(wanted)] == wanted
    assert greedy(tmp_path / "a", "line 7: the") == wanted


@pytest.mark.parametrize("type", ["f32", "f16", "q8_0"])
def test_a_language_model_continues_in_llama_cpp(
    language_run: Path, tmp_path: Path, type: Any
) -> None:
    pytest.importorskip("gguf", reason="gguf is not installed")
    headway.export(language_run, tmp_path / "a.gguf", format="gguf", type=type)
    if type == "f32":
        prompt = "line 7: the"
        assert greedy(tmp_path / "a.gguf", prompt) == greedy(language_run, prompt)
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    (tmp_path / "a.gguf").unlink()
    found = headway.export(language_run, tmp_path / "a.gguf", format="gguf", type=type, verify=True)
    assert found is not None
    assert found.tokens > 50
    assert type != "f32" or found.largest < 1e-3


def test_a_rule_of_our_own_has_no_name_in_gguf_files(tmp_path: Path) -> None:
    """It keeps combining marks beside their letters; llama.cpp would give other ids for them."""
    pytest.importorskip("gguf", reason="gguf is not installed")
    run = train_language(tmp_path, {"kind": "bpe", "size": 300})
    with pytest.raises(UserError, match="has no name in GGUF files"):
        headway.export(run, tmp_path / "a.gguf", format="gguf")
    assert not (tmp_path / "a.gguf").exists()
    headway.export(run, tmp_path / "a", format="hf", verify=True)


@pytest.mark.parametrize("model", [BERT, LONGFORMER], ids=["bert", "longformer"])
def test_a_classifier_labels_in_transformers(model: dict[str, Any], tmp_path: Path) -> None:
    rows = [
        f"{'good' if n % 2 else 'bad'} thing {n}\t{'yes' if n % 2 else 'no'}" for n in range(40)
    ]
    table = "\n".join(["text\tlabel", *rows]) + "\n"
    (tmp_path / "train.tsv").write_text(table, encoding="utf-8")
    recipe = {
        "data": {
            "kind": "labels",
            "train": {"file": str(tmp_path / "train.tsv"), "text": "text", "label": "label"},
        },
        "tokenizer": {"kind": "wordpiece", "size": 90},
        "model": MODEL | model,
        "train": TRAIN | {"epochs": 2.0, "batch_rows": 16},
    }
    headway.train(recipe, out=tmp_path / "run")
    ours = headway.load(tmp_path / "run", device="cpu")
    assert isinstance(ours, TextClassifier)
    headway.export(tmp_path / "run", tmp_path / "a", format="hf", verify=True)
    made = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "a").eval()
    with torch.inference_mode():
        found = theirs(**made(["a good thing"], return_tensors="pt")).logits.softmax(-1)
    torch.testing.assert_close(found, ours.probabilities(["a good thing"]), atol=1e-5, rtol=1e-5)
    assert [theirs.config.id2label[place] for place in range(2)] == ours.labels
    texts = ["a good thing", "bad"]
    embedded = open_embedder(tmp_path / "run", device="cpu").embed(texts)
    torch.testing.assert_close(open_embedder(tmp_path / "a", device="cpu").embed(texts), embedded)


KINDS = {
    "BertModel": "hidden states",
    "BertForMaskedLM": "logits",
    "BertForPreTraining": "logits",
    "BertForSequenceClassification": "logits",
    "LongformerModel": "hidden states",
    "LongformerForMaskedLM": "logits",
    "LongformerForSequenceClassification": "logits",
}


@pytest.mark.filterwarnings("ignore:.*the first token sees all")
@pytest.mark.parametrize(("kind", "compared"), KINDS.items())
def test_what_was_compared_is_said_and_no_more(
    kind: str, compared: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    table = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9}
    table |= {"num_hidden_layers": 1, "max_position_embeddings": 16}
    if kind.startswith("Longformer"):
        config = transformers.LongformerConfig(attention_window=4, **table)
    else:
        config = transformers.BertConfig(**table)
    getattr(transformers, kind)(config).save_pretrained(tmp_path / "a")
    capfd.readouterr()
    level = logging.get_verbosity()
    assert logging.is_progress_bar_enabled()
    found = headway.export(tmp_path / "a", tmp_path / "b", format="hf", verify=True)
    assert f": {compared} of 4 rows of ids within " in str(found)
    assert "tokens" not in str(found)
    assert capfd.readouterr() == ("", "")
    assert logging.get_verbosity() == level
    assert logging.is_progress_bar_enabled()
