from __future__ import annotations

from xml.etree import ElementTree

import pytest

from pytest_exportready.report.trend import HEIGHT, WIDTH, trend


def drawn(*values: float | None, label: str = "seconds", baseline: float | None = None) -> ElementTree.Element:
    return ElementTree.fromstring(str(trend(values, label, baseline)))


def heights(picture: ElementTree.Element) -> list[float]:
    return [float(pair.split(",")[1]) for pair in picture.findall("polyline")[0].attrib["points"].split()]


def test_more_is_higher_up() -> None:
    low, middle, high = heights(drawn(1.0, 2.0, 3.0))
    assert HEIGHT > low > middle > high > 0


def test_noise_looks_like_noise() -> None:
    picture = heights(drawn(100.0, 101.0, 100.0))
    assert max(picture) - min(picture) < HEIGHT / 4


def test_a_gap_breaks_the_line_and_a_lone_value_is_a_dot() -> None:
    picture = drawn(1.0, 2.0, None, 3.0, None, 2.0, 2.5)
    assert [len(line.attrib["points"].split()) for line in picture.findall("polyline")] == [2, 2]
    assert len(picture.findall("circle")) == 2


@pytest.mark.parametrize("values", [(), (None, None)])
def test_nothing_to_draw(values: tuple[float | None, ...]) -> None:
    assert str(trend(values, "seconds", 1.0)) == ""


@pytest.mark.parametrize("values", [(0.0,), (0.0, 0.0), (-1.0, 1e9), (5.0,) * 40])
def test_everything_is_inside(values: tuple[float, ...]) -> None:
    for circle in drawn(*values, baseline=1.0).findall("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= WIDTH
        assert 0 <= float(circle.attrib["cy"]) <= HEIGHT


def test_what_it_shows_is_reported_and_escaped() -> None:
    picture = drawn(1.0, label='"><script>')
    assert picture.attrib["aria-label"] == picture.findtext("title") == '"><script>'
