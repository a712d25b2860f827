from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

from headway.base.showing import SideBySide, Svg, Table, escaped, html_of

EVIL = "<script>alert('1')</script>"


def cells(page: str, tag: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(page).iter(tag)]


def test_a_table_shows_numbers_as_people_write_them() -> None:
    table = Table(["name", "n", "%"], [["a", 12345, 6.25], ["b", None, math.nan]], caption="one")
    page = table._repr_html_()
    assert cells(page, "th") == ["name", "n", "%"]
    assert cells(page, "td") == ["a", "12,345", "6.2", "b", "–", "–"]
    assert cells(page, "caption") == ["one"]
    assert repr(table).splitlines() == [
        "one",
        "name       n    %",
        "a     12,345  6.2",
        "b          –    –",
    ]


def test_numbers_stand_right_below_their_head() -> None:
    page = ElementTree.fromstring(Table(["name", "n"], [["a", 1]])._repr_html_())
    aligned = [(node.get("style") or "").split(";")[0] for node in page.iter("th")]
    aligned += [(node.get("style") or "").split(";")[0] for node in page.iter("td")]
    assert aligned == ["text-align:left", "text-align:right"] * 2


def test_a_table_without_rows_is_its_head() -> None:
    assert repr(Table(["a", "b"], [])) == "a  b"
    assert cells(Table(["a"], [])._repr_html_(), "th") == ["a"]


def test_every_text_is_escaped() -> None:
    table = Table([EVIL], [[EVIL], [{"a": EVIL}]], caption=EVIL)
    both = SideBySide({EVIL: table, "repr": EVIL})
    page = both._repr_html_()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 6
    assert escaped('"\ud800') == "&quot;?"
    page.encode("utf-8")


def test_things_show_themselves_beside_one_another() -> None:
    picture = Svg('<svg xmlns="a" width="10" height="5"><g/></svg>')
    page = SideBySide({"a table": Table(["x"], []), "a picture": picture})._repr_html_()
    assert cells(page, "figcaption") == ["a table", "a picture"]
    assert page.index("a table") < page.index("<table") < page.index("a picture")
    assert page.index("a picture") < page.index("<svg")
    assert html_of([1]) == "<pre>[1]</pre>"


def test_a_picture_is_legible_where_no_colours_reach_it() -> None:
    sized = '<svg width="10" viewBox="0 0 10 10"><text>a > b</text></svg>'
    free = '<svg viewBox="0 0 480 270"><text>a</text></svg>'
    for text in (sized, free):
        assert Svg(text) == text  # in a page it is as it was
        shown = ElementTree.fromstring(Svg(text)._repr_svg_())
        assert "background:#fff" in (shown.get("style") or "")
        assert "color:#1f2933" in (shown.get("style") or "")
        sides = (shown.get("width"), shown.get("height"))
        assert sides == (("480", "270") if text is free else ("10", None))
        assert shown.findtext("text") == ElementTree.fromstring(text).findtext("text")
