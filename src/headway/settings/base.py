"""How settings behave: frozen, nothing unknown, and one clear message for each mistake."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Tag, ValidationError

from headway.base.errors import UserError, is_broken, nearest

S = TypeVar("S", bound="Settings")
Member = tuple[str | None, type[BaseModel]]  # settings that a union may hold, and their tag


class Settings(BaseModel):
    """A frozen table of settings; an unknown key or a value of the wrong type is refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False
    )

    def to_table(self) -> dict[str, Any]:
        """The settings as TOML can hold them: every default written out, None left out."""
        return self.model_dump(mode="json", exclude_none=True, by_alias=True)


def differences(one: dict[str, Any], other: dict[str, Any]) -> dict[str, list[Any]]:
    """Dotted key -> its value in each of two tables, of those that differ; None where it is not."""
    found: dict[str, list[Any]] = {}
    for key in dict.fromkeys([*one, *other]):
        before, now = one.get(key), other.get(key)
        if isinstance(before, dict) and isinstance(now, dict):
            inner = differences(before, now)
            found |= {f"{key}.{below}": values for below, values in inner.items()}
        elif before != now:
            found[key] = [before, now]
    return found


def parse(kind: type[S], table: dict[str, Any], *, where: str) -> S:
    """Make settings of a table; raises UserError with the place, the key and the nearest name."""
    _refuse_what_toml_cannot_hold(table, where)
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        raise explain(error, kind, where) from None


def _refuse_what_toml_cannot_hold(table: dict[str, Any], where: str, above: str = "") -> None:
    """Raise UserError for numbers of more than 64 bits and for text that is not Unicode.

    A command line can bring both: no file could keep them, and no library takes them.
    """
    for key, value in table.items():
        if isinstance(value, dict):
            _refuse_what_toml_cannot_hold(value, where, f"{above}{key}.")
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            what = "a whole number may have 64 bits at most"
            raise UserError(f"{what}, not {value}", where=f"{where}, {above}{key}")
        elif isinstance(value, str) and is_broken(value):
            raise UserError(
                f"not valid Unicode: {value!a}",
                where=f"{where}, {above}{key}",
                todo="if it names a file, rename that in UTF-8",
            )


def explain(error: ValidationError, kind: type[BaseModel], where: str) -> UserError:
    """The first fault that pydantic found, as one message about one key."""
    faults = error.errors(include_url=False)
    # a key that does not exist is often why another one is missing: say that first
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    known, choices = _follow(kind, first["loc"])
    key = ".".join(known)
    at = f"{where}, {key}" if key else where
    if first["type"] == "extra_forbidden":
        near = _elsewhere(kind, key) or nearest(known[-1], choices)
        meant = f"did you mean '{near}'? " if near else ""
        return UserError(
            f"unknown key '{key}'", where=where, todo=f"{meant}known here: {', '.join(choices)}"
        )
    if first["type"] == "missing":
        return UserError(f"the key '{key}' is missing", where=where, todo="set it")
    if first["type"] == "union_tag_not_found":
        name = first["ctx"]["discriminator"].strip("'")
        return UserError(f"the key '{key}.{name}' is missing", where=where, todo="set it")
    if first["type"] == "union_tag_invalid":
        name = first["ctx"]["discriminator"].strip("'")
        what = f"input should be one of {first['ctx']['expected_tags']}"
        return UserError(f"{what}, not {first['ctx']['tag']!r}", where=f"{at}.{name}")
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        given = first.get("input")
        return UserError(f"a table is needed, not {given!r}", where=f"{where}, {key}")
    if first["type"] == "value_error":
        return UserError(str(first["ctx"]["error"]), where=at)
    given = first.get("input")
    message = first["msg"][:1].lower() + first["msg"][1:]
    what = message if isinstance(given, dict | list) else f"{message}, not {given!r}"
    return UserError(what, where=at)


def _elsewhere(kind: type[BaseModel], key: str) -> str | None:
    """The one key of the same name in another table of a recipe, as `table.name`."""
    name = key.rpartition(".")[2]
    found = {
        f"{table}.{name}"
        for table, field in kind.model_fields.items()
        for _, settings in _members(field.annotation)
        if name in settings.model_fields
    }
    found.discard(key)  # another kind of model has it
    return found.pop() if len(found) == 1 else None


def _follow(kind: type[BaseModel], place: tuple[int | str, ...]) -> tuple[list[str], list[str]]:
    """The keys on the way to a place in the input, and those that exist beside the last one.

    pydantic adds the tag of the member of a union that it tried; that is no key.
    """
    keys: list[str] = []
    members: list[Member] = [(None, kind)]
    beside = members
    named = False  # whether the next part is a name of the user's, in a table of such
    for part in map(str, place):
        if named:
            keys.append(part)
            beside, named = members, False
            continue
        chosen: list[Member] = [(None, model) for tag, model in members if tag == part]
        if chosen and len(members) > 1:
            members = chosen
            continue
        keys.append(part)
        beside = members
        fields = [model.model_fields[part] for _, model in members if part in model.model_fields]
        members = [member for field in fields for member in _members(field.annotation)]
        named = any(get_origin(field.annotation) is dict for field in fields)
    known = {
        field.alias or name for _, model in beside for name, field in model.model_fields.items()
    }
    return keys, sorted(known)


def _members(annotation: object, tag: str | None = None) -> list[Member]:
    """The settings that a field may hold, each with the tag by which a union tells it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        named = annotation.model_fields.get("kind")
        return [(named.default if tag is None and named else tag, annotation)]
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        tag = next((part.tag for part in parts if isinstance(part, Tag)), None)
    return [member for part in parts for member in _members(part, tag)]
