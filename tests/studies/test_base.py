from __future__ import annotations

import math

from headway.lens.figures import Value
from headway.studies.base import (
    Check,
    Conclusion,
    Found,
    Number,
    all_above,
    mean,
    over_seeds,
    shown,
)

FOUND = Found(
    {
        "a": [
            {"nll": 1.0, "losses": [[10, 3.0], [20, 2.0]]},
            {"nll": 3.0, "losses": [[10, 5.0], [20, None]]},
        ],
        "b": [{"nll": None, "losses": []}, {"nll": None, "losses": []}],
    }
)


def test_values_over_the_seeds() -> None:
    assert FOUND.values("a", "nll") == [1.0, 3.0]
    assert FOUND.value("a", "nll") == Value(2.0, 1.0, 3.0)
    assert FOUND.value("a", lambda outcome: 10 * outcome["nll"]) == Value(20.0, 10.0, 30.0)
    assert FOUND.value("b", "nll") is None
    assert FOUND.curve("a", "losses") == [
        (10.0, Value(4.0, 3.0, 5.0)),
        (20.0, Value(2.0, 2.0, 2.0)),
    ]
    assert over_seeds([]) is None
    assert math.isnan(mean([]))
    assert mean([1.0, 2.0]) == 1.5


def test_all_above_allows_no_overlap() -> None:
    assert all_above([3.0, 2.0], [1.0, 1.9])
    assert not all_above([3.0, 2.0], [1.0, 2.0])
    assert not all_above([], [1.0])
    assert not all_above([1.0], [])


def test_as_the_lecture_says_only_where_the_numbers_say_so() -> None:
    parts = {"what": "a beats b", "rule": "every a above every b", "numbers": "3 to 2"}
    yes, no = Check(**parts, holds=True), Check(**parts, holds=False, otherwise="Too short.")
    assert yes.sentence() == "As the lecture says, a beats b: 3 to 2 (every a above every b)."
    assert "As the lecture says" not in no.sentence()
    assert "do not show it: 3 to 2" in no.sentence()
    assert no.sentence().endswith("Too short.")

    def conclusion(*checks: Check) -> Conclusion:
        number = Number("gap", Value(1.0, 0.5, 1.5), "points")
        return Conclusion(number, {"a": {"nll": None}}, checks, "Text.", "Title", [])

    assert conclusion(yes).holds
    assert not conclusion(yes, no).holds
    table = conclusion(yes, no).to_table()
    assert table["paragraph"] == f"Text. {yes.sentence()} {no.sentence()}"
    assert table["rows"] == {"a": {"nll": None}}
    assert table["number"]["value"] == {"mean": 1.0, "low": 0.5, "high": 1.5}


def test_numbers_are_printed_with_their_range() -> None:
    assert shown(Value(43.21, 41.0, 45.4), "%") == "43.2 % (41.0 to 45.4)"
    assert shown(Value(0.5, 0.5, 0.5)) == "0.5"
    assert shown(Value(12345.0, 12345.0, 12345.0)) == "12,345"
    assert shown(Value(2e-16, 2e-16, 2e-16)) == "2.0e-16"
    assert shown(None) == "no finite value"
    assert Number("gap", Value(1.0, 0.5, 1.5), "points").text() == "gap: 1 points (0.5 to 1.5)"
