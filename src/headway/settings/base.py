"""How settings behave: frozen, nothing unknown, and one clear message for each mistake."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from headway.base.errors import UserError, nearest

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """A frozen table of settings; an unknown key or a value of the wrong type is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)

    def to_table(self) -> dict[str, Any]:
        """The settings as TOML can hold them: every default written out, None left out."""
        return self.model_dump(mode="json", exclude_none=True)


def parse(kind: type[S], table: dict[str, Any], *, where: str) -> S:
    """Make settings of a table; raises UserError with the place, the key and the nearest name."""
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise explain(error, kind, where) from None


def explain(error: ValidationError, kind: type[BaseModel], where: str) -> UserError:
    """The first fault that pydantic found, as one message about one key."""
    faults = error.errors(include_url=False)
    # a key that does not exist is often why another one is missing: say that first
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    key = ".".join(str(part) for part in _path(first["loc"]))
    if first["type"] == "extra_forbidden":
        word = str(first["loc"][-1])
        choices = _names(kind, first["loc"][:-1])
        near = nearest(word, choices)
        meant = f"did you mean '{near}'? " if near else ""
        return UserError(
            f"unknown key '{key}'", where=where, todo=f"{meant}known here: {', '.join(choices)}"
        )
    if first["type"] == "missing":
        return UserError(f"the key '{key}' is missing", where=where, todo="set it")
    if first["type"] == "value_error":
        return UserError(str(first["ctx"]["error"]), where=f"{where}, {key}" if key else where)
    given = first.get("input")
    message = first["msg"][:1].lower() + first["msg"][1:]
    what = f"{message}, not {given!r}" if not isinstance(given, dict) else message
    return UserError(what, where=f"{where}, {key}" if key else where)


def _path(place: tuple[int | str, ...]) -> Iterable[int | str]:
    """A place in the input without the tags that pydantic adds for members of a union."""
    return [part for part in place if not str(part).endswith(")") and part not in _TAGS]


_TAGS = {"transformer", "recurrent", "files", "builtin"}


def _names(kind: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The keys that exist at a place in the settings."""
    kinds = [kind]
    for part in _path(place):
        found = [each.model_fields[str(part)] for each in kinds if str(part) in each.model_fields]
        kinds = [member for field in found for member in _models(field.annotation)]
    tags = [str(part) for part in place if part in _TAGS]
    if tags:
        kinds = [each for each in kinds if tags[-1] in str(each.model_fields.get("kind"))] or kinds
    return sorted({name for each in kinds for name in each.model_fields})


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]
