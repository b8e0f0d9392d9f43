// Draws the charts of the first page, and again after each tick.
(() => {
  const places = [...document.querySelectorAll(".chart")];
  if (!places.length) return;
  const base = document.body.dataset.base;
  const HEIGHT = 150;
  const charts = new Map();
  // A canvas needs the colour itself: what a name of the style sheet comes to, light or dark.
  const colour = (name) => {
    places[0].style.color = `var(${name})`;
    const found = getComputedStyle(places[0]).color;
    places[0].style.color = "";
    return found;
  };
  const seconds = (value) => {
    if (value === null || value === undefined) return "-";
    return value < 1 ? `${Math.round(value * 1000)} ms` : `${Math.round(value * 10) / 10} s`;
  };
  const KINDS = {
    counts: {
      lines: [["holds", "held", "--accent"], ["waiters", "waiting", "--warning"]],
      value: (_, number) => number ?? "-",
      axis: (_, numbers) => numbers.map((each) => (Number.isInteger(each) ? each : "")),
    },
    waits: {
      lines: [["p50", "p50", "--accent"], ["p95", "p95", "--warning"], ["p99", "p99", "--trouble"]],
      value: (_, number) => seconds(number),
      axis: (_, numbers) => numbers.map(seconds),
    },
  };
  const options = (kind, width) => {
    const grid = { stroke: colour("--line"), width: 1 };
    const text = colour("--quiet");
    const font = "11px system-ui, sans-serif";
    return {
      width,
      height: HEIGHT,
      padding: [8, 8, 0, 0],
      cursor: { y: false },
      legend: { live: true },
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, kind === "counts" ? 4 : 0.01)] } },
      axes: [
        { stroke: text, font, grid, ticks: grid, size: 28 },
        { stroke: text, font, grid, ticks: grid, size: 58, values: KINDS[kind].axis },
      ],
      series: [
        { label: "time", value: (_, at) => (at ? new Date(at * 1000).toLocaleTimeString() : "-") },
        ...KINDS[kind].lines.map(([label, , name]) => ({
          label,
          stroke: colour(name),
          width: 2,
          spanGaps: true,
          points: { show: false },
          value: KINDS[kind].value,
        })),
      ],
    };
  };
  const draw = (place, data) => {
    const kind = place.dataset.chart;
    const columns = [data.at, ...KINDS[kind].lines.map(([, name]) => data[name])];
    const known = charts.get(place);
    if (known) known.setData(columns);
    else charts.set(place, new uPlot(options(kind, place.clientWidth), columns, place));
  };
  let latest = null;
  const fetched = async () => {
    const url = `${base}/series?at=${encodeURIComponent(places[0].dataset.at)}`;
    const answer = await fetch(url).catch(() => null); // what is drawn stays, as the page does
    if (!answer?.ok) return;
    latest = await answer.json();
    places.forEach((place) => draw(place, latest));
  };
  const anew = () => {
    charts.forEach((chart) => chart.destroy());
    charts.clear();
    if (latest) places.forEach((place) => draw(place, latest));
  };
  document.body.addEventListener("tick", fetched);
  document.body.addEventListener("theme", anew);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", anew);
  new ResizeObserver(() =>
    charts.forEach((chart, place) => chart.setSize({ width: place.clientWidth, height: HEIGHT })),
  ).observe(places[0]);
  fetched();
})();
