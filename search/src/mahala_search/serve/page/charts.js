// Small charts as SVG, each with its numbers as a table.
import { el } from "./page.js";

const FONT = 12;

/** Return a figure: a drawing with a label, and a table of its numbers that can be opened. */
function figure(label, svg, head, rows, key) {
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return el("figure", {}, svg, el("details", {}, el("summary", { "data-key": key }, "Numbers"), table(head, rows)));
}

export function table(head, rows) {
  const cell = (tag) => (value, at) => el(tag, at ? { class: "n" } : {}, value);
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": head.join(", ") },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, head.map(cell("th")))),
      el(
        "tbody",
        {},
        rows.map((row) => el("tr", {}, row.map(cell("td")))),
      ),
    ),
  );
}

const canvas = (width, height) => el("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
const text = (x, y, content, anchor = "start", kind = "soft") =>
  el("text", { x, y, "text-anchor": anchor, "font-size": FONT, class: kind }, content);

/** Lines of shares from 0 to 1 over the places of the log; `series` are {name, kind, points: [[x, y], ...]}. */
export function lines(width, label, series, format, key) {
  const height = 170,
    left = 44,
    right = width - 62,
    top = 12,
    bottom = height - 24;
  const all = series.flatMap(({ points }) => points);
  const first = Math.min(...all.map(([x]) => x)),
    last = Math.max(...all.map(([x]) => x));
  const x = (value) => left + ((value - first) / (last - first || 1)) * (right - left);
  const y = (value) => bottom - value * (bottom - top);
  const svg = canvas(width, height);
  for (const value of [0, 0.5, 1])
    svg.append(
      el("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "rule" }),
      text(left - 6, y(value) + 4, format(value), "end"),
    );
  svg.append(text(left, height - 6, `entry ${first}`), text(right, height - 6, `entry ${last}`, "end"));
  const ends = spread(
    series.map(({ points }) => y(points.at(-1)[1]) + 4),
    FONT + 2,
  );
  series.forEach(({ name, kind, points }, at) => {
    svg.append(
      el("path", {
        class: `line ${kind}`,
        d: points.map(([px, py], n) => `${n ? "L" : "M"}${x(px)},${y(py)}`).join(""),
      }),
      el("circle", { cx: x(points.at(-1)[0]), cy: y(points.at(-1)[1]), r: 3.5, class: kind }),
      text(right + 8, ends[at], name, "start", kind),
    );
  });
  const rows = series[0].points.map(([px], n) => [String(px), ...series.map(({ points }) => format(points[n][1]))]);
  return figure(label, svg, ["entry", ...series.map(({ name }) => name)], rows, key);
}

/** Return round values from -most to most: 0, and one or two on each side. */
function ticks(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  const step = power * [0.5, 1, 2, 5].findLast((times) => times * power <= (2 / 3) * most);
  return [-2, -1, 0, 1, 2].map((times) => times * step).filter((value) => Math.abs(value) <= 0.85 * most);
}

/** Values with intervals around 0; `rows` are {name, mean, low, high, n}. */
export function intervals(width, label, rows, format, key) {
  const step = 46,
    height = rows.length * step + 22,
    left = 8,
    right = width - 8;
  const most = 1.08 * Math.max(0.01, ...rows.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]));
  const x = (value) => left + ((value + most) / (2 * most)) * (right - left);
  const svg = canvas(width, height);
  svg.append(el("line", { x1: left, x2: right, y1: height - 18, y2: height - 18, class: "rule" }));
  for (const value of ticks(most))
    svg.append(
      el("line", { x1: x(value), x2: x(value), y1: value ? height - 22 : 4, y2: height - 18, class: "zero" }),
      text(x(value), height - 4, value ? format(value) : "0", "middle"),
    );
  rows.forEach(({ name, mean, low, high }, at) => {
    const y = at * step + 14,
      kind = low > 0 ? "accent" : high < 0 ? "wrong" : "grey";
    svg.append(
      text(left, y, name),
      text(right, y, format(mean), "end", "ink"),
      el("line", { x1: x(low), x2: x(high), y1: y + 14, y2: y + 14, class: `reach ${kind}` }),
      el("circle", { cx: x(mean), cy: y + 14, r: 5, class: kind }),
    );
  });
  const cells = rows.map((row) => [row.name, format(row.mean), format(row.low), format(row.high), String(row.n)]);
  return figure(label, svg, ["", "mean", "low", "high", "n"], cells, key);
}

/** Bars for values of at least 0; `series` are {name, kind, values}. */
export function bars(width, label, series, format, key) {
  const height = 150,
    left = 44,
    top = 14,
    bottom = height - 24,
    n = Math.max(...series.map(({ values }) => values.length));
  const most = Math.max(1e-9, ...series.flatMap(({ values }) => values));
  const slot = (width - left - 4) / n,
    thick = Math.max(1, (slot * 0.8) / series.length);
  const y = (value) => bottom - (value / most) * (bottom - top);
  const svg = canvas(width, height);
  for (const value of [0, most / 2, most])
    svg.append(
      el("line", { x1: left, x2: width - 4, y1: y(value), y2: y(value), class: "rule" }),
      text(left - 6, y(value) + 4, value ? format(value) : "0", "end"),
    );
  series.forEach(({ kind, values }, at) =>
    values.forEach((value, place) =>
      svg.append(
        el("rect", {
          class: kind,
          x: left + place * slot + slot * 0.1 + at * thick,
          y: y(value),
          width: thick,
          height: bottom - y(value),
        }),
      ),
    ),
  );
  let at = left;
  for (const { name, kind } of series) {
    svg.append(
      el("rect", { class: kind, x: at, y: height - 13, width: 9, height: 9 }),
      text(at + 14, height - 5, name),
    );
    at += 30 + name.length * 7;
  }
  const rows = series[0].values.map((_, place) => [
    String(place + 1),
    ...series.map(({ values }) => format(values[place])),
  ]);
  return figure(label, svg, ["direction", ...series.map(({ name }) => name)], rows, key);
}

/** Move labels apart that would lie on each other. */
function spread(places, least) {
  const order = places.map((_, at) => at).sort((one, other) => places[one] - places[other]);
  const result = [...places];
  for (let n = 1; n < order.length; n++) result[order[n]] = Math.max(result[order[n]], result[order[n - 1]] + least);
  return result;
}
