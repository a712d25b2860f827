"""Exports: what other tools make of them, and what is refused with nothing written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

import headway
from headway.base.errors import UserError
from headway.checkpoint.exchange.gguf_writer import write_gguf
from headway.models.build import build_classifier, build_decoder
from headway.runs import export as exports
from headway.runs.export import write_portable
from headway.runs.portable import Portable
from headway.settings.model import DecoderSettings, EncoderSettings
from headway.settings.presets import PRESETS
from headway.tokens.gguf_metadata import gguf_metadata
from headway.tokens.text import Roles, TextTokenizer

LINES = ["un chat vert mange", "deux chien", "grand petit rouge bleu dort boit"]
LLAMA = PRESETS["smollm2-135m"] | {
    "n_layers": 2,
    "d_model": 64,
    "d_feed_forward": 96,
    "n_heads": 4,
    "n_kv_heads": 2,
    "max_length": 64,
}
CHAT = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"


def tokenizer(*, adds_bos: bool = True) -> TextTokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: id for id, token in enumerate([*letters, "hi", "Ġhi"])}
    made = Backend(models.BPE(vocab, [("h", "i"), ("Ġ", "hi")]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<s>"), AddedToken("</s>")])
    roles = Roles(bos=258, pad=259, ends=frozenset({259}), adds_bos=adds_bos, template=CHAT)
    return TextTokenizer(made, roles)


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    settings = DecoderSettings(**LLAMA)
    model = build_decoder(settings, n_tokens=264, seed=3)
    path = tmp_path / "a.gguf"
    write_gguf(path, model, settings, gguf_metadata(tokenizer(), 264), storage="F32")
    return path


@pytest.mark.parametrize("verify", [False, True])
def test_a_run_becomes_a_marian(
    trained: Callable[[str], Path], tmp_path: Path, verify: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    found = headway.export(trained("transformer"), tmp_path / "a", format="hf", verify=verify)
    if verify:
        assert found is not None
        assert found.largest < 1e-4
        assert found.tokens > 20
    ours = headway.load(trained("transformer"))
    assert isinstance(ours, headway.runs.translator.Translator)
    wanted = ours.translate(LINES, beam=1)
    made = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "a")
    for line, translation in zip(LINES, wanted, strict=True):
        given = made(line, return_tensors="pt")
        limit = min(2 * given.input_ids.shape[1] + 10, 64)
        ids = theirs.generate(**given, num_beams=1, max_length=1 + limit)
        assert made.decode(ids[0], skip_special_tokens=True) == translation
    again = headway.load(tmp_path / "a")
    assert again.translate(LINES) == ours.translate(LINES)
    assert "transformer" in repr(again)
    assert "elsewhere" in again._repr_html_()


def test_ctranslate2_translates_as_the_run_does(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    run = trained("transformer")
    found = headway.export(run, tmp_path / "a", format="ctranslate2", verify=True)
    assert found is not None
    assert found.largest < 1e-4
    made = Backend.from_file(str(tmp_path / "a" / "tokenizer.json"))
    theirs = ctranslate2.Translator(str(tmp_path / "a"))
    for line, wanted in zip(LINES, headway.load(run).translate(LINES, beam=1), strict=True):
        tokens = made.encode(line).tokens
        (result,) = theirs.translate_batch(
            [tokens], beam_size=1, max_decoding_length=min(2 * len(tokens) + 10, 64)
        )
        ids = [made.token_to_id(token) for token in result.hypotheses[0]]
        assert made.decode(ids) == wanted
    # the folder that was exported for transformers gives the same
    headway.export(run, tmp_path / "b", format="hf")
    again = headway.export(tmp_path / "b", tmp_path / "c", format="ctranslate2", verify=True)
    assert again == found


def test_two_tokenisers_have_a_folder_each(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    recipe = toy_recipe("transformer", steps=4, evaluate_every=4, save_every=4)
    recipe["tokenizer"] = {"kind": "word", "size": 19, "joint": False}
    recipe["model"]["tie"] = "output"
    headway.train(recipe, out=tmp_path / "run")
    headway.export(tmp_path / "run", tmp_path / "a", format="hf", verify=True)
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert {"source", "target"} < names
    assert "tokenizer.json" not in names
    again = headway.load(tmp_path / "a")
    assert again.translate(LINES) == headway.load(tmp_path / "run").translate(LINES)


def test_a_norm_before_each_part_goes_to_ctranslate2_alone(
    toy_recipe: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Marian has none, and most of the recipes that come with Headway do."""
    pytest.importorskip("ctranslate2")
    recipe = toy_recipe("transformer", steps=4, evaluate_every=4, save_every=4)
    recipe["model"]["order"] = "pre"
    headway.train(recipe, out=tmp_path / "run")
    with pytest.raises(UserError, match=r"order = 'post', not 'pre'.*--format ctranslate2"):
        headway.export(tmp_path / "run", tmp_path / "a", format="hf")
    found = headway.export(tmp_path / "run", tmp_path / "b", format="ctranslate2", verify=True)
    assert found is not None
    assert found.largest < 1e-4


def test_a_recurrent_run_is_refused_and_nothing_written(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    for format, told in (
        ("hf", "only Transformers have a Hugging Face form"),
        ("gguf", "GGUF is written for Llama models"),
        ("ctranslate2", "CTranslate2 is written for encoder–decoder Transformers"),
    ):
        with pytest.raises(UserError, match=told):
            headway.export(trained("plain"), tmp_path / "a.gguf", format=format)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_gguf_becomes_a_folder_for_transformers(tmp_path: Path, adds_bos: bool) -> None:
    transformers = pytest.importorskip("transformers")
    settings = DecoderSettings(**LLAMA)
    model, text = build_decoder(settings, n_tokens=264, seed=3), tokenizer(adds_bos=adds_bos)
    write_gguf(tmp_path / "a.gguf", model, settings, gguf_metadata(text, 264), storage="F32")
    found = headway.export(tmp_path / "a.gguf", tmp_path / "a", format="hf", verify=True)
    assert found is not None
    made = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    ours = headway.load(tmp_path / "a.gguf")
    assert made("hi hi 12").input_ids == text.prompts(["hi hi 12"])[0]
    assert (made.bos_token, made.eos_token, made.pad_token) == ("<s>", "</s>", "</s>")
    given = made(" hi é", return_tensors="pt")
    ids = theirs.generate(**given, do_sample=False, max_new_tokens=9)[0, len(given.input_ids[0]) :]
    greedy = headway.Sampling(temperature=0.0, max_new_tokens=9)
    (mine,) = ours.generate([" hi é"], greedy)
    assert [id for id in ids.tolist() if id != 259] == mine.ids
    messages = [{"role": "user", "content": "hi"}]
    rendered = made.apply_chat_template(messages, return_dict=False, tokenize=True)
    assert rendered == text.chat(messages)
    back = headway.load(tmp_path / "a")
    (again,) = back.generate([" hi é"], greedy)
    assert (again.text, again.ids, again.reason) == (mine.text, mine.ids, mine.reason)
    # the last digit of a log-probability goes by where in memory a processor finds the weights
    assert again.log_prob == pytest.approx(mine.log_prob, rel=1e-6)
    ours_by_name, theirs_by_name = (each.model.state_dict() for each in (ours, back))
    assert ours_by_name.keys() == theirs_by_name.keys()
    assert all(torch.equal(ours_by_name[name], weight) for name, weight in theirs_by_name.items())


def test_folders_keep_their_files_and_become_gguf(llama: Path, tmp_path: Path) -> None:
    headway.export(llama, tmp_path / "a", format="hf")
    (tmp_path / "a" / "vocab.txt").write_text("as it is", encoding="utf-8")
    headway.export(tmp_path / "a", tmp_path / "b", format="hf")
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes(), path.name
    headway.export(tmp_path / "b", tmp_path / "b.gguf", format="gguf", type="f32")
    assert (tmp_path / "b.gguf").read_bytes() == llama.read_bytes()


def test_a_classifier_keeps_its_names(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    settings = EncoderSettings(**PRESETS["bert-tiny"] | {"d_model": 24, "n_heads": 3})
    model = build_classifier(settings, n_tokens=264, n_classes=2)
    made = json.loads(tokenizer().to_json())
    frame = [{"SpecialToken": {"id": name, "type_id": 0}} for name in ("<s>", "</s>")]
    text = {"Sequence": {"id": "A", "type_id": 0}}
    made["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [frame[0], text, frame[1]],
        "pair": [frame[0], text, {"Sequence": {"id": "B", "type_id": 1}}, frame[1]],
        "special_tokens": {
            name: {"id": name, "ids": [id], "tokens": [name]}
            for name, id in (("<s>", 258), ("</s>", 259))
        },
    }
    framed = TextTokenizer(Backend.from_str(json.dumps(made)), Roles(pad=259))
    write_portable(
        Portable.of_text_model(model, settings, framed), tmp_path / "a", format="hf", verify=True
    )
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "a")
    assert (theirs.cls_token, theirs.sep_token) == ("<s>", "</s>")
    assert theirs("hi").input_ids == [258, 256, 259]
    config = json.loads((tmp_path / "a" / "config.json").read_text("utf-8"))
    named = {"0": "no", "1": "yes"}
    (tmp_path / "a" / "config.json").write_text(json.dumps(config | {"id2label": named}), "utf-8")
    headway.export(tmp_path / "a", tmp_path / "b", format="hf", verify=True)
    config = json.loads((tmp_path / "b" / "config.json").read_text("utf-8"))
    assert config["id2label"] == named


def test_what_cannot_be_is_told_before_anything_is_written(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    cases: list[tuple[str, dict[str, Any]]] = [
        ("there is something already", {"destination": tmp_path / "there", "format": "hf"}),
        ("there is something already", {"destination": llama, "format": "gguf"}),
        ("ends with .gguf", {"destination": tmp_path / "b", "format": "gguf"}),
        ("unknown format 'onnx'", {"destination": tmp_path / "b", "format": "onnx"}),
        ("unknown type 'q4'", {"destination": tmp_path / "b", "format": "gguf", "type": "q4"}),
        ("only GGUF files", {"destination": tmp_path / "b", "format": "hf", "type": "f16"}),
    ]
    for module, package, format in (
        ("llama_cpp", "llama-cpp-python", "gguf"),
        ("transformers", "transformers", "hf"),
        ("ctranslate2", "ctranslate2", "ctranslate2"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        told = f"needs the package '{package}', which is not installed"
        cases.append((told, {"destination": tmp_path / "c.gguf", "format": format, "verify": True}))
    for told, given in cases:
        with pytest.raises(UserError, match=told):
            headway.export(llama, **given)
    assert {path.name for path in tmp_path.iterdir()} == {"a.gguf", "there"}


def test_a_difference_is_told_and_nothing_written(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    wrong, fill = Portable.open(llama), exports.fill_folder

    def fill_then_change(*given: Any, **settings: Any) -> None:
        fill(*given, **settings)
        with torch.no_grad():
            next(wrong.model.parameters())[5] += 1.0

    monkeypatch.setattr(exports, "fill_folder", fill_then_change)
    with pytest.raises(UserError, match=r"transformers [\d.]+ does not compute the same: its"):
        write_portable(wrong, tmp_path / "b", format="hf", verify=True)
    assert {path.name for path in tmp_path.iterdir()} == {"a.gguf"}


@pytest.mark.parametrize("format", ["hf", "gguf"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(
    llama: Path, tmp_path: Path, format: Any, value: float
) -> None:
    broken = Portable.open(llama)
    with torch.no_grad():
        broken.model.get_parameter("stack.final_norm.weight")[3] = value
    with pytest.raises(UserError, match=r"'stack\.final_norm\.weight' has numbers that are not"):
        write_portable(broken, tmp_path / "b.gguf", format=format, type="q8_0")
    assert {path.name for path in tmp_path.iterdir()} == {"a.gguf"}


def test_all_files_may_be_read_by_whom_the_system_says(llama: Path, tmp_path: Path) -> None:
    headway.export(llama, tmp_path / "a", format="hf")
    (tmp_path / "plain").touch()
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "a").iterdir()}
    assert set(modes.values()) == {(tmp_path / "plain").stat().st_mode}, modes


def test_the_command_line(cli: Callable[..., Any], llama: Path, tmp_path: Path) -> None:
    said = cli("import", llama, tmp_path / "a")
    assert (said.code, said.out.decode().strip()) == (0, str(tmp_path / "a"))
    said = cli("export", tmp_path / "a", tmp_path / "b.gguf", "--format", "gguf", "--type", "q8_0")
    assert said.code == 0, said
    assert (tmp_path / "b.gguf").stat().st_size < llama.stat().st_size
    assert "there is something already" in cli("import", llama, tmp_path / "a").error
