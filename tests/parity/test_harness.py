"""Log-likelihoods, whole texts and generation equal lm-evaluation-harness's own back end."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from headway.base.errors import UserError
from headway.runs.harness import as_lm, evaluate_tasks, sampling_of
from headway.runs.open_model import open_language_model

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("lm_eval", reason="lm-eval is not installed")

CONTEXT = 40
MERGES = ["A n", "An s", "w e", "we r", "Ans wer", "Ġ b", "Ġb i", "Ġ Ġ", "Ċ Ċ"]
TASK = """
task: colours
dataset_path: json
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_choice: choices
doc_to_target: answer
"""


def tokenizer(adds_bos: bool) -> Backend:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*letters, *(merge.replace(" ", "") for merge in MERGES)]
    pairs = [(merge.split(" ")[0], merge.split(" ")[1]) for merge in MERGES]
    made = Backend(models.BPE({piece: id for id, piece in enumerate(pieces)}, pairs))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<s>", normalized=False), AddedToken("</s>")])
    if adds_bos:
        frame = {"single": "<s> $A", "special_tokens": [("<s>", made.token_to_id("<s>"))]}
        made.post_processor = processors.TemplateProcessing(**frame)
    return made


def make(folder: Path, *, adds_bos: bool = False) -> Any:
    """A toy Llama in a folder and in the harness's back end."""
    from lm_eval.models.huggingface import HFLM

    made = tokenizer(adds_bos)
    config = transformers.LlamaConfig(
        vocab_size=made.get_vocab_size(),
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=made.token_to_id("<s>"),
        eos_token_id=made.token_to_id("</s>"),
        initializer_range=0.4,
    )
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(config).eval()
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    # its cache mistakes windows of a text that repeats itself for one another
    return HFLM(pretrained=model, tokenizer=fast, batch_size=4, device="cpu", logits_cache=False)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "with-bos"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same model in the harness's back end and in ours."""
    folder = tmp_path_factory.mktemp("llama")
    theirs = make(folder, adds_bos=request.param)
    return SimpleNamespace(theirs=theirs, ours=as_lm(open_language_model(folder, device="cpu")))


def instances(*args: Any) -> list[Any]:
    return [SimpleNamespace(args=each, task_name="") for each in args]


def requests(n: int) -> list[tuple[str, str]]:
    """Contexts of all kinds: none, blank at the end, too long; letters of several bytes."""
    draw, letters = random.Random(7), "Answerbi   é\n"
    texts = ["".join(draw.choices(letters, k=draw.randint(0, 60))) for _ in range(n)]
    return [(text, draw.choice([" big", "wer", "x", "é b", " Answer"])) for text in texts]


@pytest.mark.filterwarnings("ignore:.*more tokens than:UserWarning")
def test_continuations_are_as_likely(both: Any) -> None:
    asked = [
        each
        for each in [("", "Answer"), ("a ", "b"), ("a\n\n", " b"), *requests(197)]
        if both.theirs.tok_encode("".join(each))[len(both.theirs.tok_encode(each[0].rstrip())) :]
        and (each[0].strip() or not each[0])  # the harness stops where nothing is left
    ]
    assert len(asked) > 150
    wanted = both.theirs.loglikelihood(instances(*asked), disable_tqdm=True)
    found = both.ours.loglikelihood(instances(*asked))
    assert [each[0] for each in found] == pytest.approx([each[0] for each in wanted], abs=1e-4)
    assert [each[1] for each in found] == [each[1] for each in wanted]


def test_whole_texts_are_as_likely(both: Any) -> None:
    texts = [("a",), ("Answer " * 4,), ("big é" * 30,), ("x" * CONTEXT,), ("x" * (CONTEXT + 1),)]
    wanted = both.theirs.loglikelihood_rolling(instances(*texts), disable_tqdm=True)
    found = both.ours.loglikelihood_rolling(instances(*texts))
    assert found == pytest.approx(wanted, abs=1e-3, rel=1e-6)


def test_the_same_is_written(both: Any) -> None:
    wanted = {"until": ["\n", "b"], "max_gen_toks": 12, "do_sample": False}
    asked = [(text, wanted) for text in ("Answer", "x" * 60, "big ", "An")]
    theirs = [both.theirs.generate_until(instances(each), disable_tqdm=True)[0] for each in asked]
    assert both.ours.generate_until(instances(*asked)) == theirs
    assert any(theirs)


def test_the_harness_runs_a_local_task(
    tmp_path: Path, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    theirs = make(tmp_path / "model")
    rows = [
        {"prompt": f"{n} is", "choices": ["big", "Answer", "a b"], "answer": n % 3}
        for n in range(12)
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    task = tmp_path / "colours.yaml"
    task.write_text(TASK.format(file=data), encoding="utf-8")
    out = tmp_path / "scores.json"
    said = cli("evaluate", tmp_path / "model", "--tasks", task, "--json", out, "--device", "cpu")
    assert said.code == 0, said
    assert b"colours" in said.out
    found = json.loads(out.read_text("utf-8"))["results"]["colours"]
    asked = [(row["prompt"], f" {choice}") for row in rows for choice in row["choices"]]
    wanted = theirs.loglikelihood(instances(*asked), disable_tqdm=True)
    hits = 0
    for place, row in enumerate(rows):
        scores = [score for score, _ in wanted[3 * place : 3 * place + 3]]
        hits += scores.index(max(scores)) == row["answer"]
    assert found["acc,none"] == pytest.approx(hits / 12)


def test_a_task_that_is_not_known_is_told(tmp_path: Path) -> None:
    make(tmp_path)
    model = open_language_model(tmp_path, device="cpu")
    with pytest.raises(UserError, match=r"unknown task 'hellaswagg'.*did you mean 'hellaswag'"):
        evaluate_tasks(model, ["hellaswagg"])


def test_what_a_task_says_of_sampling() -> None:
    assert sampling_of({"until": "\n", "do_sample": False, "temperature": 0.7}).temperature == 0.0
    made = sampling_of({"until": ["a", ""], "max_new_tokens": 5, "temperature": 0.7})
    assert (made.stop, made.max_new_tokens, made.temperature, made.top_p) == (("a",), 5, 0.7, 1.0)
    assert sampling_of({}).temperature == 0.0
    with pytest.raises(UserError, match="unknown key of generation_kwargs 'num_beams'"):
        sampling_of({"num_beams": 4})
