"""What a run leaves behind: a page per engine with its tables, targets and charts."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import pages
from benchmarks.charts import Chart
from benchmarks.reporting import Table, circumstances

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = {"peer & co": 0.002, "locknut": 0.75, "bare": 1.0, "other": 0.3}


def _table(title: str = "redis.pairs: a title") -> Table:
    table = Table(title, ("", "of bare"))
    table.add("locknut", 0.75)
    table.aim("locknut, of bare", 0.75, 0.7)
    table.aim("locknut, p99", 5.0, 3.0, at_least=False)
    table.notes.append("somebody is left out")
    table.versions["peer"] = "1.2.3"
    table.charts.append(Chart("alone", "Alone", "of bare", FIGURES, {"locknut": 0.7}))
    return table


def test_a_page_has_the_table_the_targets_the_notes_and_the_circumstances(tmp_path: Path) -> None:
    page = pages.write(tmp_path, "redis.pairs", _table(), circumstances()).read_text()

    assert "| locknut | 0.75 |" in page
    assert "| locknut, of bare | >= 0.7 | 0.75 | met |" in page
    assert "| locknut, p99 | <= 3 | 5 | **missed** |" in page
    assert "1 of 2 targets were met" in page
    assert "* somebody is left out" in page
    assert "peer 1.2.3" in page
    assert "![Alone](redis.pairs.alone.svg)" in page
    assert (tmp_path / "redis.pairs.alone.svg").exists()


def test_a_workload_measured_anew_replaces_its_own_part_only(tmp_path: Path) -> None:
    pages.write(tmp_path, "redis.pairs", _table(), {"date": "first"})
    pages.write(tmp_path, "redis.leases", _table("redis.leases: another"), {"date": "second"})
    page = pages.write(tmp_path, "redis.pairs", _table(), {"date": "third"}).read_text()

    assert page.count("## redis.pairs") == page.count("## redis.leases") == 1
    assert "Measured second" in page
    assert "Measured third" in page
    assert "Measured first" not in page
    assert set(json.loads((tmp_path / "redis.json").read_text())) == {"redis.pairs", "redis.leases"}


@pytest.mark.parametrize("log", [False, True])
def test_a_chart_shows_everybody_the_limit_first_and_stays_inside_its_frame(log: bool) -> None:
    chart = Chart("name", "Title <1>", "scale", FIGURES, {"locknut": 0.7}, log=log)

    drawn = ET.fromstring(chart.svg())

    words = [each.text for each in drawn.iter(f"{SVG}text")]
    names = [word for word in words if word in FIGURES]
    expected = ["peer & co", "other"] if log else ["other", "peer & co"]
    assert names == ["bare", "locknut", *expected]
    assert "Title <1>" in words
    width = float(drawn.attrib["width"])
    for line in drawn.iter(f"{SVG}line"):
        assert 0 <= float(line.attrib["x1"]) <= width
        assert 0 <= float(line.attrib["x2"]) <= width


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("value", [0.0, 1e-9, 1.0, 3e7])
def test_a_chart_can_be_drawn_whatever_was_measured(value: float, log: bool) -> None:
    ET.fromstring(Chart("name", "title", "scale", {"locknut": value}, log=log).svg())
