"""Messages: what, where, what to do."""

from __future__ import annotations

import pytest

from headway.base.errors import Interrupted, UserError, nearest, unknown


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserError("it broke"), "it broke"),
        (UserError("it broke", where="a.txt:3"), "a.txt:3: it broke"),
        (UserError("it broke", todo="mend it"), "it broke; mend it"),
        (UserError("it broke", where="a.txt:3", todo="mend it"), "a.txt:3: it broke; mend it"),
    ],
)
def test_the_message_has_its_parts(error: UserError, message: str) -> None:
    assert str(error) == message


def test_the_parts_stay_apart() -> None:
    error = UserError("it broke", where="a.txt:3", todo="mend it")
    assert (error.what, error.where, error.todo) == ("it broke", "a.txt:3", "mend it")


def test_an_unknown_name_gets_the_nearest_and_all() -> None:
    error = unknown("recipe", "cldr/rn", ["pairs", "cldr/rnn"], where="train")
    assert str(error) == (
        "train: unknown recipe 'cldr/rn'; did you mean 'cldr/rnn'? known: cldr/rnn, pairs"
    )


def test_a_name_near_to_nothing_gets_all() -> None:
    assert nearest("zzz", ["pairs", "cldr/rnn"]) is None
    assert str(unknown("recipe", "zzz", ["b", "a"])) == "unknown recipe 'zzz'; known: a, b"


def test_interrupted_carries_its_signal() -> None:
    error = Interrupted(15, "stopped at step 3")
    assert (error.signal, str(error)) == (15, "stopped at step 3")
