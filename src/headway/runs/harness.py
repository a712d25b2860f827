"""The standard benchmarks of language models, by lm-evaluation-harness (Gao et al., 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.base.errors import UserError, unknown
from headway.base.optional import optional
from headway.base.progress import ProgressBar
from headway.base.showing import Table
from headway.runs.generated import Sampling
from headway.runs.language_model import LanguageModel

_MOST_NEW = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_NEW_TOKENS = 256  # where a task does not say


def as_lm(model: LanguageModel) -> Any:
    """The model as lm-evaluation-harness wants it: an `lm_eval.api.model.LM`.

    Raises UserError if that package is not installed.
    """
    kind = optional("lm_eval.api.model", extra="eval", where="lm_eval").LM
    return type("Headway", (_Requests, kind), {})(model)


class _Requests:
    """What the harness asks of a model. A request is whatever has its texts as `args`."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def loglikelihood(self, requests: Sequence[Any], **_: Any) -> list[tuple[float, bool]]:
        """Log-probability of each continuation, and whether greedy decoding gives it."""
        with ProgressBar("log-likelihoods", len(requests), unit="requests") as bar:
            found = self.model.log_likelihoods([each.args for each in requests], tell=bar.advance)
        return [(each.log_prob, each.greedy) for each in found]

    def loglikelihood_rolling(self, requests: Sequence[Any], **_: Any) -> list[float]:
        """Log-probability of each whole text."""
        found = self.model.rolling_log_likelihoods([each.args[0] for each in requests])
        return [each.log_prob for each in found]

    def generate_until(self, requests: Sequence[Any], **_: Any) -> list[str]:
        """What each prompt is continued by, up to a stop text.

        A prompt that leaves no room for what is to come loses its beginning.
        """
        alike: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            alike.setdefault(repr(request.args[1]), []).append(place)
        written = [""] * len(requests)
        with ProgressBar("writing", len(requests), unit="requests") as bar:
            for places in alike.values():
                sampling = sampling_of(requests[places[0]].args[1])
                texts = self._write([requests[place].args[0] for place in places], sampling)
                for place, text in zip(places, texts, strict=True):
                    written[place] = text
                bar.advance(len(places))
        return written

    def _write(self, prompts: list[str], sampling: Sampling) -> list[str]:
        context = self.model.settings.max_length
        room = context - sampling.max_new_tokens
        if room < 1:
            raise UserError(
                f"a task wants {sampling.max_new_tokens:,} new tokens; the model's context is "
                f"{context:,}",
                where="max_gen_toks",
            )
        ids = [row[-room:] for row in self.model.tokenizer.prompts(prompts)]
        return [each.text for each in self.model.generate_ids(ids, sampling)]


def sampling_of(wanted: Mapping[str, Any]) -> Sampling:
    """A task's `generation_kwargs` as ours: greedy unless it samples.

    Raises UserError for one that Headway does not know.
    """
    rest = dict(wanted)
    until = rest.pop("until", None) or []
    stop = [until] if isinstance(until, str) else until
    limits = [rest.pop(name) for name in _MOST_NEW if name in rest]
    samples = rest.pop("do_sample", "temperature" in rest)
    values = {name: rest.pop(name) for name in _SAMPLING if rest.get(name) is not None}
    if rest:
        raise unknown(
            "key of generation_kwargs", next(iter(rest)), ["until", *_MOST_NEW, *_SAMPLING]
        )
    if not samples:
        values = {"temperature": 0.0}
    return Sampling(
        **{"temperature": 1.0, "top_p": 1.0, **values},
        max_new_tokens=int(limits[0]) if limits else _NEW_TOKENS,
        stop=tuple(text for text in stop if text),
    )


def evaluate_tasks(
    model: LanguageModel,
    tasks: Sequence[str],
    *,
    shots: int | None = None,
    lines: int | None = None,
) -> dict[str, Any]:
    """The harness's own results on tasks that it knows, or that a .yaml file describes.

    `shots` are the examples before a question (the task's own number if None), `lines` the first
    questions of each task. Raises UserError for a task that is not known or whose data cannot be
    had.
    """
    harness = optional("lm_eval", extra="eval", where="--tasks")
    known = not all(name.endswith(".yaml") for name in tasks)
    manager = optional("lm_eval.tasks", extra="eval", where="--tasks").TaskManager(
        include_defaults=known  # which takes seconds
    )
    for name in tasks:
        if not name.endswith(".yaml") and name not in manager.all_tasks:
            raise unknown("task", name, manager.all_tasks, where="--tasks")
    try:
        manager.load(list(tasks))
    except Exception as error:  # of a file, the network, a set: the harness has no class of its own
        raise UserError(f"a task cannot be loaded: {error}", where=", ".join(tasks)) from error
    found = harness.simple_evaluate(
        as_lm(model),
        tasks=list(tasks),
        num_fewshot=shots,
        limit=lines,
        task_manager=manager,
        log_samples=False,
    )
    return {key: found[key] for key in ("results", "n-shot", "n-samples", "versions", "configs")}


def results_table(found: dict[str, Any]) -> Table:
    """The harness's figures as it gives them, with their standard errors."""
    rows: list[list[object]] = []
    for task, scores in found["results"].items():
        for key, value in scores.items():
            metric, _, kept = key.partition(",")
            if isinstance(value, float) and not metric.endswith("_stderr"):
                error = scores.get(f"{metric}_stderr,{kept}")
                shown = f"± {error:.4f}" if isinstance(error, float) else ""
                rows.append([task, metric, f"{value:.4f}", shown])
    return Table(["task", "metric", "value", "standard error"], rows)
