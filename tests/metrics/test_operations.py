"""The dashboard, the alert rules and the page about metrics name what the code has, and no more."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from locknut.metrics.catalogue import METRICS, Metric
from tests.contracts.sources import ROOT
from tests.metrics.promql import Expression

FOLDER = ROOT / "docs" / "operations"
PAGE = (FOLDER / "metrics.md").read_text(encoding="utf-8")
ALERTS = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
SCRAPED = {"instance", "job", "le"}
"""Labels that Prometheus itself adds."""


def series(metric: Metric) -> list[str]:
    """The names of a metric's samples."""
    if metric.kind == "histogram":
        return [f"{metric.name}_{part}" for part in ("bucket", "sum", "count")]
    return [metric.name]


KNOWN = {name: metric for metric in METRICS if metric.name for name in series(metric)}


def rules() -> list[dict[str, str]]:
    """The rules of the file: each is written as `key: value` lines, without anything fancy."""
    found = []
    for text in ALERTS.split("- alert: ")[1:]:
        lines = [line.strip() for line in f"alert: {text}".splitlines() if line.strip()]
        found.append(dict(line.split(": ", 1) for line in lines if ": " in line))
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("where", "text"), list(expressions()), ids=[x for x, _ in expressions()])
def test_an_expression_asks_for_what_exists(where: str, text: str) -> None:
    found = Expression(text)
    assert found.selectors
    for metric, labels, ranged, _offset in found.selectors:
        assert metric in KNOWN, f"{where}: there is no {metric}"
        known = {*KNOWN[metric].labels, *SCRAPED}
        assert {*labels} <= known, f"{where}: {metric} has no such label"
        assert {*found.grouped} <= known, f"{where}: {metric} cannot be summed by that"
        assert ranged or KNOWN[metric].kind == "gauge", f"{where}: a counter without a rate"
    assert ("le" in found.grouped) is ("histogram_quantile" in text)


def test_a_rule_about_an_hour_wants_a_whole_hour() -> None:
    """The least of a gauge that is there for a minute is the least of that minute."""
    ranges = []
    for rule in rules():
        if "min_over_time(" not in rule["expr"]:
            continue
        found = Expression(rule["expr"]).selectors
        least = next(each for each in found if KNOWN[each.metric].kind == "gauge" and each.ranged)
        assert least._replace(ranged="", offset=least.ranged) in found, rule["alert"]
        ranges.append(least.ranged)
    assert ranges == ["1h"]


def test_legends_and_variables_name_labels_that_exist() -> None:
    labels = {label for metric in METRICS for label in metric.labels}
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert used <= set(Expression(target["expr"]).grouped)
    for variable in DASHBOARD["templating"]["list"][1:]:
        metric, label = re.fullmatch(
            r"label_values\((\w+).*, (\w+)\)", variable["definition"]
        ).groups()  # type: ignore[union-attr]
        assert metric in KNOWN
        assert label in labels
    used = set(re.findall(r"\$labels\.(\w+)", ALERTS))
    assert used <= labels | SCRAPED


def test_a_panel_for_each_metric() -> None:
    shown = {
        KNOWN[selector.metric]
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
        for selector in Expression(target["expr"]).selectors
    }
    missing = {each.name for each in METRICS if each.name} - {each.name for each in shown}
    assert missing == {"locknut_lease_margin_seconds"}, "its ratio is shown"


def test_panels_do_not_lie_on_each_other() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len({*places}) == len(places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_every_rule_is_complete_and_on_the_page() -> None:
    assert [rule["alert"] for rule in rules()] == re.findall(
        r"^\| `(Locknut\w+)`", PAGE, re.MULTILINE
    )
    for rule in rules():
        assert {"expr", "severity", "summary", "description"} <= rule.keys()
        assert rule["severity"] in {"warning", "critical"}
    assert "\t" not in ALERTS


def test_the_page_lists_just_the_metrics_there_are() -> None:
    first, second = (
        PAGE.split(head)[1].split("\n\n")[0] for head in ("| metric |", "| Prometheus |")
    )
    names = [each.name for each in METRICS if each.name]
    assert sorted(re.findall(r"`(locknut_\w+)`", first)) == sorted(names)
    assert sorted(re.findall(r"`(locknut_\w+)`", second)) == sorted(names)
    assert sorted(re.findall(r"`(locknut\.[\w.]+)`", second)) == sorted(m.otel for m in METRICS)
    for line in first.splitlines()[2:]:
        (name,) = set(re.findall(r"`(locknut_\w+)`", line.split("|")[1])) - {"locknut_waiting"}
        metric = next(each for each in METRICS if each.name == name)
        assert metric.kind in line
        for label in {*metric.labels} - {"backend", "lock", "mode"}:
            assert f"`{label}`" in line


@pytest.mark.parametrize(
    "wrong",
    [
        "rate(locknut_held)",
        "locknut_held[5m]",
        "sum by (lock (locknut_held)",
        "locknut_held{lock}",
        "locknut_held > ",
        "locknut_held)",
        "rate(locknut_held[5 minutes])",
        "locknut_held offset 5",
        "locknut_held 1h",
    ],
)
def test_what_is_not_promql_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Expression(wrong)
