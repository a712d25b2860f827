"""A recipe: one TOML file that says a whole run, with overrides from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from headway.base.errors import UserError, unknown
from headway.settings.base import Settings, parse
from headway.settings.data import DataSettings, TokenizerSettings
from headway.settings.model import ModelSettings, TransformerSettings
from headway.settings.presets import expand_preset
from headway.settings.toml import dump_toml
from headway.settings.training import EvaluateSettings, TrainSettings

SHIPPED = resources.files("headway") / "recipes"


class Recipe(Settings):
    """A whole run: what it learns from, what it is, how it is trained and judged."""

    description: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    data: DataSettings
    tokenizer: TokenizerSettings
    model: ModelSettings
    train: TrainSettings
    evaluate: EvaluateSettings = EvaluateSettings()

    @model_validator(mode="after")
    def _tied_ids(self) -> Self:
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise ValueError(
                "model.tie = 'all' shares one embedding between both languages: it needs "
                "tokenizer.joint = true (or model.tie = 'output')"
            )
        return self

    @model_validator(mode="after")
    def _evaluates(self) -> Self:
        if self.train.patience and self.data.valid is None and not self.data.held_out:
            raise ValueError(
                "train.patience waits for a better validation score: it needs data.valid "
                "or data.held_out"
            )
        return self

    def to_toml(self) -> str:
        """The resolved recipe, every default written out."""
        return dump_toml(self.to_table())


class Foreign(Settings):
    """What is known of a translator from elsewhere, in place of its recipe."""

    model: TransformerSettings
    evaluate: EvaluateSettings = EvaluateSettings()


def shipped_recipes() -> dict[str, str]:
    """The recipes that come with Headway: name -> description."""
    found = {}
    for folder in sorted(SHIPPED.iterdir(), key=lambda entry: entry.name):
        files = folder.iterdir() if folder.is_dir() else [folder]
        for file in sorted(files, key=lambda entry: entry.name):
            if file.name.endswith(".toml"):
                name = file.name.removesuffix(".toml")
                name = f"{folder.name}/{name}" if folder.is_dir() else name
                table = tomllib.loads(file.read_text(encoding="utf-8"))
                found[name] = str(table.get("description", ""))
    return found


def load_recipe(
    recipe: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    where: str = "recipe",
) -> Recipe:
    """A recipe by its shipped name, its TOML file, or as a table; `overrides` by dotted key.

    `where` says in messages where a table is from. A preset among the overrides replaces the
    recipe's own keys; beside other keys of the same place, those win.

    Raises UserError for an unknown name or key (naming the nearest), broken TOML (with its line)
    and values that do not fit.
    """
    where, given = (where, recipe) if isinstance(recipe, Mapping) else _read(recipe)
    table, wanted = _copy(given), dict[str, Any]()
    for key, value in (overrides or {}).items():
        _put(wanted, key, value)
    for each in (table, wanted):
        if isinstance(each.get("model"), dict):
            each["model"] = expand_preset(each["model"], where=where)
    for key, value in wanted.items():
        _put(table, key, value)
    return parse(Recipe, table, where=where)


def parse_overrides(pairs: Iterable[str]) -> dict[str, Any]:
    """Turn `key=value` texts into a table; a value is TOML where it can be, else plain text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise UserError(f"'{pair}' is not key=value", where="--set", todo="write key=value")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except ValueError:  # it is no TOML, or a number of thousands of digits
            value = text
        found[key.strip()] = value
    return found


def load_recipe_text(name: str) -> str:
    """The file of a shipped recipe. Raises UserError for an unknown name, naming the nearest."""
    shipped = SHIPPED / f"{name}.toml"
    if not shipped.is_file():
        raise unknown("recipe", name, shipped_recipes())
    return shipped.read_text(encoding="utf-8")


def _read(recipe: str | Path) -> tuple[str, dict[str, Any]]:
    name = str(recipe)
    path = Path(recipe)
    if path.suffix != ".toml":
        meant = [f"{name}.toml", f"{name}/recipe.toml"]  # the suffix forgotten, or a run named
        files = [each for each in meant if Path(each).is_file()]
        if files and name not in (shipped := shipped_recipes()):
            raise unknown("recipe", name, [*shipped, *files])
        return f"recipe {name}", tomllib.loads(load_recipe_text(name))
    try:
        return name, tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise UserError("there is no such recipe file", where=name, todo="check the path") from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=name) from None
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8: byte {error.start + 1}", where=name) from None
    except ValueError as error:  # a number of thousands of digits is no TOMLDecodeError
        raise UserError(f"not TOML: {error}", where=name, todo="correct that line") from None


def _copy(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _copy(value) if isinstance(value, Mapping) else value for key, value in table.items()
    }


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            _put(table, f"{key}.{name}", inner)
        return
    *folders, last = key.split(".")
    for folder in folders:
        table = table.setdefault(folder, {})
        if not isinstance(table, dict):
            raise UserError(f"'{folder}' is a value, not a table", where=f"--set {key}")
    table[last] = value
