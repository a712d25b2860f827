"""A recipe: one TOML file that says a whole run, with overrides from the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from headway.base.errors import UserError, unknown
from headway.settings.base import parse
from headway.settings.glue import GLUE, glue_recipe
from headway.settings.kinds import KINDS, Recipe, TranslationRecipe
from headway.settings.presets import expand_preset
from headway.settings.toml import dump_toml

SHIPPED = resources.files("headway") / "recipes"


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
    return dict(sorted((found | {name: task.description for name, task in GLUE.items()}).items()))


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
    where, table = recipe_table(recipe, overrides, where=where)
    return parse(_kind_of(table, where), table, where=where)


def recipe_table(
    recipe: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    *,
    where: str = "recipe",
) -> tuple[str, dict[str, Any]]:
    """Where a recipe is from, and the table that `load_recipe` is to check.

    A part of the data that is told anew by another way of reading (`hub` for `file`) replaces the
    recipe's own.
    """
    where, given = (where, recipe) if isinstance(recipe, Mapping) else _read(recipe)
    table, wanted = _copy(given), dict[str, Any]()
    for key, value in (overrides or {}).items():
        _put(wanted, key, value)
    for each in (table, wanted):
        if isinstance(each.get("model"), dict):
            each["model"] = expand_preset(each["model"], where=where)
    _make_way(table.get("data"), wanted.get("data"))
    for key, value in wanted.items():
        _put(table, key, value)
    return where, table


def origin_of(table: Mapping[str, Any]) -> str | None:
    """What a recipe's table begins from, None if that is nothing."""
    model = table.get("model")
    origin = model.get("from") if isinstance(model, Mapping) else None
    return origin if isinstance(origin, str) else None


def load_translation(
    recipe: str | Path | Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> TranslationRecipe:
    """`load_recipe` for what is about pairs of sentences. Raises UserError for other kinds too."""
    found = load_recipe(recipe, overrides)
    if not isinstance(found, TranslationRecipe):
        where = recipe if isinstance(recipe, str | Path) else "recipe"
        raise UserError("not the recipe of a translator", where=str(where), todo=_SEE_RECIPES)
    return found


def _kind_of(table: Mapping[str, Any], where: str) -> type[Recipe]:
    """The kind of recipe that a table is, as its data and its model say."""

    def said(name: str, default: str | None) -> Any:
        part = table.get(name)
        return part.get("kind", default) if isinstance(part, dict) else default

    data, model = said("data", "pairs"), said("model", None)
    known = {kind: [other for first, other in KINDS if first == kind] for kind, _ in KINDS}
    if not isinstance(data, str) or data not in known:
        raise unknown("data.kind", str(data), known, where=where)
    if model is None or (data, model) not in KINDS:
        if isinstance(model, str) and any(model == other for _, other in KINDS):
            raise UserError(
                f"data.kind = '{data}' does not train model.kind = '{model}'",
                where=where,
                todo=f"it trains: {', '.join(known[data])}",
            )
        return KINDS[data, known[data][0]]  # whose message about the model is the clearest
    return KINDS[data, model]


_SEE_RECIPES = "headway recipes lists them all"


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
    if name in GLUE:
        return dump_toml(glue_recipe(name))
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


_READERS = {"file", "files", "hub", "corpus"}


def _make_way(own: Any, wanted: Any) -> None:
    """Empty the tables of `own` for which `wanted` names another reader."""
    if not (isinstance(own, dict) and isinstance(wanted, dict)):
        return
    if _READERS & (wanted.keys() - own.keys()):
        own.clear()
    for key, value in wanted.items():
        _make_way(own.get(key), value)


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
