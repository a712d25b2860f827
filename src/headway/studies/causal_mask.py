"""A decoder that may see the future in training copies it, and learns nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headway.lens.figures import Bars, Curves, Value
from headway.studies.base import (
    Check,
    Conclusion,
    Found,
    Number,
    Plain,
    Study,
    all_above,
    mean,
    over_seeds,
)
from headway.studies.tasks import (
    cldr,
    quick_cldr,
    quick_schedule,
    schedule,
    transformer,
)

if TYPE_CHECKING:
    from headway.models.encoder_decoder import EncoderDecoder
    from headway.settings.kinds import TranslationRecipe

MASKED, OPEN = "causal mask", "sees the future"


def _settings(quick: bool) -> Mapping[str, Plain]:
    if quick:
        shared = {**quick_cldr(max_words=10), **quick_schedule(260, every=10)}
    else:
        shared = {
            **cldr(lines=40_000, max_words=12),
            **schedule(600, batch_tokens=1024, rate=7e-3, every=10),
        }
    shared |= transformer(2, 128, 4)
    recipe = {"recipe": "cldr/transformer", "set": shared}
    return {name: {**recipe, "sees_future": name == OPEN} for name in (MASKED, OPEN)}


def open_build(recipe: TranslationRecipe, n_source: int, n_target: int) -> EncoderDecoder[Any, Any]:
    """The recipe's Transformer, whose decoder sees all of the target when it is given all of it.

    It begins with the same weights as the ordinary one. While it writes a translation there is
    nothing to see yet: it sees what it has written, as any decoder does.
    """
    from torch import Tensor

    from headway.models.seq2seq import EncodedSource, Transformer
    from headway.nn.block import Memory
    from headway.nn.dropout import Noise, number_places
    from headway.nn.stack import step_positions
    from headway.nn.visibility import padding
    from headway.settings.model import TransformerSettings
    from headway.studies.training import plain_build
    from headway.tokens.kinds import PAD, SPECIALS

    pad = SPECIALS.index(PAD)

    class OpenTransformer(Transformer):
        def decode(
            self, target: Tensor, encoded: EncodedSource, noise: Noise | None = None
        ) -> Tensor:
            positions = step_positions(0, target.shape[1], target.device)
            looks = padding(encoded.real)
            hidden: Tensor = self.decoder(
                self.target_embedding(target, positions, noise),
                visibility=padding(target != pad),
                positions=positions,
                memory=[Memory(k, looks) for k in self.decoder.memory_keys(encoded.hidden)],
                noise=noise,
            )[0]
            return hidden

    assert isinstance(recipe.model, TransformerSettings), "the study's recipe is a Transformer"
    model = OpenTransformer(recipe.model, n_source, n_target)
    model.load_state_dict(plain_build(recipe, n_source, n_target).state_dict())
    number_places(model)
    return model


def _measure(settings: Plain, seed: int) -> Plain:
    from headway.studies.training import judge, plain_build, recipe_of, train_small

    make = open_build if settings["sees_future"] else plain_build
    trained = train_small(recipe_of(settings, seed), make)
    return {**judge(trained, (8,)), "last_loss": trained.last_loss}


def _checks(found: Found) -> list[Check]:
    losses = {name: found.values(name, "nll") for name in (MASKED, OPEN)}
    exact = {name: found.values(name, "exact_match") for name in (MASKED, OPEN)}
    return [
        Check(
            what="a decoder that sees the future has a loss near 0",
            rule="a test NLL below 0.05 nats a token and below a third of the masked one, in every "
            "seed",
            numbers=f"the NLL on test references is {mean(losses[OPEN]):.4f} nats a token, and "
            f"{mean(losses[MASKED]):.3f} with the mask",
            holds=max(losses[OPEN]) < 0.05 and max(losses[OPEN]) < min(losses[MASKED]) / 3,
            otherwise="It had not learnt to copy in so few steps."
            if max(losses[OPEN]) >= 0.05
            else "The task is so easy that the masked decoder's loss is near 0 too.",
        ),
        Check(
            what="it cannot translate, for there is no future to copy when it writes",
            rule="exact match below 5 % in every seed, and every seed with the mask above",
            numbers=f"{mean(exact[OPEN]):.1f} % of its translations are exactly right, and "
            f"{mean(exact[MASKED]):.1f} % with the mask",
            holds=max(exact[OPEN]) < 5.0 and all_above(exact[MASKED], exact[OPEN]),
            otherwise="It had learnt to translate before it learnt to copy.",
        ),
    ]


def _conclude(found: Found) -> Conclusion:
    exact = [found.values(name, "exact_match") for name in (MASKED, OPEN)]
    gains = over_seeds([ours - theirs for ours, theirs in zip(*exact, strict=True)])
    columns = {
        "last training NLL": "last_loss",
        "test NLL": "nll",
        "token accuracy, %": "token_accuracy",
        "exact match, %": "exact_match",
        "chrF": "chrf",
    }
    return Conclusion(
        number=Number("exact match that the mask adds", gains, "points"),
        rows={
            name: {column: found.value(name, key) for column, key in columns.items()}
            for name in (MASKED, OPEN)
        },
        checks=_checks(found),
        text="Both began with the same weights and saw the same batches; a low loss says nothing "
        "of a model that was shown the answer.",
        title="A decoder with and without the causal mask in training",
        panels=_panels(found),
    )


def _panels(found: Found) -> list[Curves | Bars]:
    def bars(*keys: str) -> dict[str, list[Value | None]]:
        return {name: [found.value(name, key) for key in keys] for name in (MASKED, OPEN)}

    return [
        Curves(
            title="What training sees",
            x="step",
            y="NLL, nats a token",
            series={name: found.curve(name, "losses") for name in (MASKED, OPEN)},
            log_y=True,
        ),
        Bars(
            title="What becomes of it",
            y="%",
            groups=["next token right,\ngiven the reference", "translation\nexactly right", "chrF"],
            series=bars("token_accuracy", "exact_match", "chrf"),
            percent=True,
        ),
    ]


STUDY = Study(
    name="causal-mask",
    claim="Without the causal mask the decoder sees in training what it is to predict: the loss "
    "goes to 0 and decoding is useless.",
    settings=_settings,
    measure=_measure,
    conclude=_conclude,
)
