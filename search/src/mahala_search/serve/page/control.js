// With and without learning: what people did in each arm, and the difference.
import { el, number, signed } from "./page.js";
import { intervals, table } from "./charts.js";

const ARMS = { learned: "with learning", plain: "without learning", mixed: "both mixed" };
const QUERIES = { all: "all queries", head: "frequent queries", tail: "rare queries" };
export const percent = (value) => `${number(100 * value, value > 0 && value < 0.0995 ? 1 : 0)}\u00a0%`;
const points = (value) => signed(100 * value, 1);

const withInterval = ({ mean, low, high }, format) =>
  el("span", {}, format(mean), el("small", {}, ` ${format(low)} to ${format(high)}`));

/** Return what the control share has shown so far. */
export function controlParts(report, _, wide) {
  const chart = Math.min(640, wide > 700 ? wide / 2 - 8 : wide);
  const since = new Date(1000 * report.since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  const see = report.mode === "plain" ? "the plain ranking" : "both rankings mixed";
  const rows = Object.entries(report.arms).map(([arm, { searches, click_rate, mrr }]) => [
    ARMS[arm],
    number(searches),
    searches ? withInterval(click_rate, percent) : "–",
    searches ? withInterval(mrr, (value) => number(value, 2)) : "–",
  ]);
  return [
    el("p", {}, `Since ${since}, ${percent(report.share)} of the people see ${see}.`),
    table(["", "searches", "with a click", "MRR of clicks"], rows),
    el("div", { class: "charts" }, ...charts(report, chart)),
    el(
      "p",
      { class: "note" },
      "Lines are 95 % intervals that hold however often you look; those in the table hold for one look. " +
        "Frequent queries make up half of the searches.",
    ),
  ];
}

function charts(report, wide) {
  const drawn = (title, byQueries, format, shift = 0) => {
    const rows = Object.entries(byQueries).map(([queries, { mean, always_low, always_high, clicked }]) => ({
      name: QUERIES[queries],
      mean: mean - shift,
      low: always_low - shift,
      high: always_high - shift,
      n: clicked ?? "",
    }));
    return el("div", {}, el("h3", {}, title), intervals(wide, title, rows, format, title));
  };
  if (report.mode !== "plain")
    return [drawn("Learned results chosen, above 50\u00a0% (points)", report.preference, points, 0.5)];
  const of = (measure) =>
    Object.fromEntries(Object.entries(report.differences).map(([queries, both]) => [queries, both[measure]]));
  return [
    drawn("Searches with a click: gain by learning (points)", of("click_rate"), points),
    drawn("MRR of clicks: gain by learning", of("mrr"), (value) => signed(value, 2)),
  ];
}
