"""Reading another tool's config.json, key by key, with a message for each value we cannot obey."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from headway.base.errors import UserError
from headway.settings.base import Settings, parse

S = TypeVar("S", bound=Settings)
T = TypeVar("T")
_REQUIRED: Any = object()


class Config:
    """The table of a config.json; `where` names the file in messages."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self.table, self.where = table, where

    def take(self, key: str, kind: type[T], default: T = _REQUIRED) -> T:
        """The value of a key. Raises UserError if it is missing or of another type."""
        value = self.table.get(key)
        if value is None:
            if default is _REQUIRED:
                raise UserError(f"there is no '{key}'", where=self.where, todo="it is needed")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise UserError(f"'{key}' is {value!r}, not {_NAMES[kind]}", where=self.where)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise UserError(f"'{key}' has more than 64 bits", where=self.where)
        return value

    def need(self, key: str, *allowed: Any, default: Any) -> Any:
        """The value of a key of which we can obey these values alone; else UserError."""
        value = self.table.get(key, default)
        plain = value is None or isinstance(
            value, str | int | float
        )  # an array is equal to nothing
        if not plain or value not in allowed:
            known = ", ".join(repr(each) for each in allowed)
            what = f"'{key}' is {value!r}; Headway computes only {known}"
            raise UserError(what, where=self.where, todo="this model cannot be imported")
        return value

    def settings(self, kind: type[S], **fields: Any) -> S:
        """Settings of these values. Raises UserError if they do not go together."""
        return parse(kind, fields, where=self.where)

    def choose(self, key: str, choices: Mapping[Any, T], *, default: Any) -> T:
        """What a value of a key means to us."""
        return choices[self.need(key, *choices, default=default)]


def unsaid(
    settings: Settings, held: Collection[str], fixed: Mapping[str, Collection[object]]
) -> list[str]:
    """The settings that a format cannot say.

    It can hold any value of some, and of others is for a few values only; what is neither named as
    `held` nor as `fixed`, a setting of tomorrow too, it can say as long as that is the default.
    """
    defaults = {name: (field.default,) for name, field in type(settings).model_fields.items()}
    asked = (defaults | dict(fixed)).items()
    return [
        name for name, known in asked if name not in held and getattr(settings, name) not in known
    ]


_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
