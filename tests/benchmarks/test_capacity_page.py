"""The page on capacity, the calculator's costs and the measured numbers belong together."""

from __future__ import annotations

import json
import math
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks import capacity_page, fitting, growth
from benchmarks.line_charts import LineChart
from benchmarks.pages import KEPT
from benchmarks.workloads import WORKLOADS
from locknut.capacity import ENGINES, costs_of

SVG = "{http://www.w3.org/2000/svg}"
MEASURED: dict[str, Any] = json.loads((KEPT / "scale.json").read_text())


def test_the_calculator_knows_every_engine_that_was_measured() -> None:
    assert {f"scale.{engine}" for engine in ENGINES} == set(MEASURED)
    assert set(MEASURED) <= {name for name in WORKLOADS if name.startswith("scale.")}


def test_the_page_is_made_of_what_was_measured() -> None:
    page = KEPT.parent / "operations" / "capacity.md"
    assert page.read_text() == capacity_page.page(MEASURED), "run `make bench ARGS=scale`"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_calculator_computes_with_what_was_measured(engine: str) -> None:
    assert costs_of(engine) == fitting.costs(engine, MEASURED[f"scale.{engine}"]["measured"])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_power_with_which_something_grows_is_found(power: float) -> None:
    points = [(10.0**each, 3 * 10 ** (each * power)) for each in range(5)]
    assert growth.exponent(points) == pytest.approx(power)


def test_a_square_is_reported_and_what_grows_evenly_is_not() -> None:
    held = [
        {"locks": n, "client_cpu": 1e-9 * n * n, "server_cpu": 1e-6 * n, "requests_per_second": 0.0,
         "client_bytes": 900.0 + 40 * n, "stored": 4096.0}
        for n in (1, 10, 100, 1_000, 10_000)
    ]  # fmt: skip
    (warning,) = growth.warnings({"held": held})
    assert warning.startswith("processor time of the client grows faster than the locks")
    assert "2.00" in warning


def test_nothing_can_be_said_of_one_size() -> None:
    assert math.isnan(growth.exponent([(100.0, 1.0)]))
    assert math.isnan(growth.exponent([(100.0, 1.0), (100.0, 2.0)]))


def _series(batch: float, of_lock: float, fixed: float) -> dict[str, Any]:
    """As an engine would be measured that costs exactly this."""
    rounds = 5.0

    def held(locks: int) -> dict[str, float]:
        sent = fixed + (locks * of_lock + max(1, locks / 500) * batch) / rounds
        return {
            "locks": locks, "requests_per_second": sent, "client_cpu": locks * 8e-6 / rounds,
            "server_cpu": locks * 9e-6 / rounds, "stored": 300.0 * locks,
            "stored_later": 400.0 * locks, "left": 50.0 * locks, "client_bytes": 2000.0 * locks,
            "connections": 2,
        }  # fmt: skip

    return {
        "ttl": 15.0,
        "served": True,
        "idle": {"requests_per_second": fixed, "client_cpu": 0.0, "server_cpu": 0.0},
        "held": [held(each) for each in (1, 10, 100, 10_000)],
        "waiting": [
            {"waiters": 10, "requests_per_second": 5.0, "stored": 80.0, "client_bytes": 1000.0,
             "connections": 3}
        ],
        "clients": [
            {"pairs_per_second": 9.0, "requests": 2.0, "client_cpu": 1e-4, "server_cpu": 2e-4},
            {"pairs_per_second": 7.0, "requests": 3.0, "client_cpu": 9e-4, "server_cpu": 9e-4},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(("batch", "of_lock", "fixed"), [(3.0, 0.0, 0.5), (0.0, 1.0, 0.0)])
def test_costs_are_found_again_in_what_they_make(
    batch: float, of_lock: float, fixed: float
) -> None:
    found = fitting.costs("redis", _series(batch, of_lock, fixed))
    assert found.batch_requests == pytest.approx(batch, abs=0.02)
    assert found.renewal_requests == pytest.approx(of_lock, abs=0.001)
    assert found.process_requests == fixed
    assert found.renewal_client_cpu == pytest.approx(8e-6)
    assert found.renewal_server_cpu == pytest.approx(9e-6)
    assert (found.lock_stored, found.lock_memory, found.name_left) == (400, 2000, 50)
    assert (found.waiter_requests, found.waiter_stored, found.waiter_memory) == (0.5, 8, 100)
    assert (found.connections, found.waiting_connections) == (2, 1)
    assert (found.pair_requests, found.pair_client_cpu, found.pair_server_cpu) == (2, 1e-4, 2e-4)


def test_a_chart_draws_every_line_inside_its_frame_and_leaves_nought_out() -> None:
    chart = LineChart(
        "name", "Title <1>", "scale", {"one": [(1, 0.0), (10, 5), (1000, 70)], "none": [(1, 0.0)]}
    )
    drawn = ET.fromstring(chart.svg())
    assert len(list(drawn.iter(f"{SVG}circle"))) == 2
    for dot in drawn.iter(f"{SVG}circle"):
        assert 0 <= float(dot.attrib["cx"]) <= float(drawn.attrib["width"])
        assert 0 <= float(dot.attrib["cy"]) <= float(drawn.attrib["height"])
    assert "one" in [each.text for each in drawn.iter(f"{SVG}text")]
    ET.fromstring(LineChart("name", "title", "scale", {}).svg())
