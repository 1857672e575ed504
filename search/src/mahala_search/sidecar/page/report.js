// The report of a space: what learned search brings. All text comes from the API and is never read as HTML.
const $ = (id) => document.getElementById(id);
const SVG = ["svg", "line", "path", "circle", "text"];
const KEY = "mahala key";
const ARMS = { learned: "learned search", plain: "plain search", mixed: "both mixed" };
const QUERIES = { all: "all queries", head: "frequent queries", tail: "rare queries" };
const PROGRESS = {
  logged: "pages and reactions with all vectors",
  learned: "of these learned",
  waiting: "pages that wait for vectors",
  missing: "items without a vector",
};
const MEASURES = ["clicks", "purchases", "revenue"];
const WAIT = 2000;
let space = null;
let shown = "";

function el(tag, attributes = {}, ...children) {
  const made = SVG.includes(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat());
  return made;
}

const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace(/^-/, "−");
const small = (value) => number(value, Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 1 ? 2 : 3);
const signed = (value) => (value > 0 ? "+" : "") + small(value);

async function ask(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  if (sessionStorage.getItem(KEY)) headers.Authorization = `Bearer ${sessionStorage.getItem(KEY)}`;
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (answer.ok) return answer.json();
  const problem = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (answer.status === 401) {
    const wrong = sessionStorage.getItem(KEY) !== null;
    sessionStorage.removeItem(KEY);
    for (const id of ["report", "empty", "chooser", "values"]) $(id).hidden = true;
    $("key").hidden = false;
    if (!wrong) throw Object.assign(new Error(""), { silent: true });
  }
  throw new Error(problem.detail ?? problem.title ?? answer.statusText);
}

const address = (path) => `/v1/spaces/${encodeURIComponent(space)}${path}`;

function table(head, rows) {
  const line = (tag, row) => el("tr", {}, row.map((cell) => el(tag, {}, cell)));
  const body = el("tbody", {}, rows.map((row) => line("td", row)));
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": head.join(", ") }, el("table", {}, el("thead", {}, line("th", head)), body));
}

function list(where, rows) {
  $(where).replaceChildren(...rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

const canvas = (width, height, label) =>
  el("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
const text = (x, y, content, anchor = "start", kind = "") =>
  el("text", { x, y, "text-anchor": anchor, class: kind }, content);

/** Draw means with intervals around a middle; rows are {name, mean, low, high}, without bounds if nothing is known. */
function intervals(width, label, rows, middle, format) {
  const step = 46;
  const height = rows.length * step + 20;
  const known = rows.filter(({ low }) => low !== null);
  const most = 1.1 * Math.max(1e-9, ...known.flatMap((row) => [row.low, row.high].map((end) => Math.abs(end - middle))));
  const x = (value) => 8 + ((value - middle + most) / (2 * most)) * (width - 16);
  const svg = canvas(width, height, label);
  svg.append(el("line", { x1: x(middle), x2: x(middle), y1: 4, y2: height - 18, class: "zero" }));
  svg.append(text(x(middle), height - 4, middle ? format(middle) : "no difference", "middle"));
  rows.forEach(({ name, mean, low, high }, at) => {
    const y = at * step + 14;
    const kind = low === null ? "grey" : low > middle ? "good" : high < middle ? "wrong" : "grey";
    svg.append(text(8, y, name), text(width - 8, y, low === null ? "too few people" : format(mean), "end", "ink"));
    if (low === null) return;
    svg.append(el("line", { x1: x(low), x2: x(high), y1: y + 14, y2: y + 14, class: `reach ${kind}` }));
    svg.append(el("circle", { cx: x(mean), cy: y + 14, r: 5, class: kind }));
  });
  return svg;
}

/** Draw what each arm brings in the parts of the time. */
function lines(width, parts, names) {
  const height = 158;
  const [left, right, top, bottom] = [44, width - 96, 10, height - 24];
  const most = Math.max(1e-9, ...parts.flatMap((part) => names.map((name) => part[name] ?? 0)));
  const x = (at) => left + (at / Math.max(parts.length - 1, 1)) * (right - left);
  const y = (value) => bottom - (value / most) * (bottom - top);
  const svg = canvas(width, height, "What each ranking brings per search, over time");
  for (const value of [0, most]) {
    svg.append(el("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "rule" }));
    svg.append(text(left - 6, y(value) + 4, value ? small(value) : "0", "end"));
  }
  svg.append(text(left, height - 6, "first"), text(right, height - 6, "latest", "end"));
  const ends = [];
  names.forEach((name, at) => {
    const points = parts.map((part, place) => [place, part[name]]).filter(([, value]) => value !== null);
    if (!points.length) return;
    const kind = at === names.length - 1 ? "grey" : "accent";
    const way = points.map(([place, value], n) => `${n ? "L" : "M"}${x(place)},${y(value)}`).join("");
    const [place, value] = points.at(-1);
    svg.append(el("path", { d: way, class: kind }), el("circle", { cx: x(place), cy: y(value), r: 3.5, class: kind }));
    ends.push({ y: y(value) + 4, name });
  });
  ends.sort((one, other) => one.y - other.y);
  ends.forEach((end, at) => {
    if (at) end.y = Math.max(end.y, ends[at - 1].y + 15);
    svg.append(text(right + 9, end.y, end.name.slice(0, 14)));
  });
  return svg;
}

function draw(report, status) {
  for (const id of ["report", "values"]) $(id).hidden = false; // before widths are read
  const names = Object.keys(report.arms);
  const wide = Math.min(560, $("gain").clientWidth || 320);
  const verdict = { "shown to help": "good", "does not help": "wrong" }[report.verdict] ?? "";
  $("verdict").className = `verdict ${verdict}`;
  $("verdict").textContent = report.verdict ? report.verdict[0].toUpperCase() + report.verdict.slice(1) : "Not measured";
  $("sentence").textContent = report.sentence;
  const since = new Date(1000 * report.since).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  const what = { plain: "the plain ranking", interleave: "both rankings mixed" }[report.mode];
  const basis = what ? `Since ${since}, ${number(100 * report.share)} % of the people get ${what}. ` : "The team assigns the arms. ";
  $("basis").textContent = `${basis}Intervals hold with 95 %, however often you look.`;
  const counted = { searches: number, people: number, ...Object.fromEntries(MEASURES.map((name) => [name, small])) };
  $("arms").replaceChildren(
    table(
      ["measure", ...names.map((name) => ARMS[name] ?? name)],
      Object.entries(counted).map(([what, format]) => [
        MEASURES.includes(what) ? `${what} per search` : what,
        ...names.map((name) => format(report.arms[name][what])),
      ]),
    ),
  );
  const rows = report.preference
    ? Object.entries(report.preference).map(([of, one]) => ({ name: QUERIES[of], ...one }))
    : Object.entries(report.differences).flatMap(([arm, by]) =>
        Object.entries(by).map(([of, one]) => ({
          name: arm === "learned" ? QUERIES[of] : `${arm}: ${QUERIES[of]}`,
          ...one[report.value],
        })),
      );
  $("gain-head").textContent = report.preference
    ? "How often the learned ranking is preferred"
    : `Difference in ${report.value} per search`;
  $("gain").replaceChildren(
    rows.length
      ? intervals(wide, $("gain-head").textContent, rows, report.preference ? 0.5 : 0, report.preference ? small : signed)
      : el("p", { class: "soft" }, "Nothing is compared yet."),
  );
  $("history").replaceChildren(
    report.history.length ? lines(wide, report.history, names) : el("p", { class: "soft" }, "Nothing is compared yet."),
  );
  list("learned", Object.entries(status.progress).map(([name, n]) => [PROGRESS[name] ?? name, number(n)]));
  list("left", [["searches of programs", number(report.bots)], ...Object.entries(status.counts).map(([why, n]) => [why, number(n)])]);
  $("served").textContent =
    (status.version ? `Version ${status.version} is served` : "The plain ranking is served") +
    (status.pinned === null ? "; the newest one follows." : ", and stays until you change it.") +
    (status.problem ? ` ${status.problem}` : "");
}

async function update() {
  const spaces = await ask("GET", "/v1/spaces");
  const names = spaces.map((one) => one.name);
  $("problem").hidden = $("key").hidden = true;
  $("empty").hidden = names.length > 0;
  $("how").textContent = `curl -X PUT ${location.origin}/v1/spaces/products -H 'Content-Type: application/json' -d '{"width": 384, "control": {"share": 0.1}}'`;
  if (!names.length) {
    $("report").hidden = $("values").hidden = $("chooser").hidden = true;
    return;
  }
  const wanted = space ?? new URLSearchParams(location.search).get("space");
  space = names.includes(wanted) ? wanted : names[0];
  if (shown !== names.join("\n")) {
    $("spaces").replaceChildren(...names.map((name) => el("option", {}, name)));
    shown = names.join("\n");
  }
  $("spaces").value = space;
  $("chooser").hidden = names.length < 2;
  const value = document.querySelector("input[name=value]:checked").value;
  draw(await ask("GET", address(`/report?value=${value}`)), spaces.find((one) => one.name === space));
}

function failed(error) {
  $("problem").hidden = Boolean(error.silent);
  $("problem").textContent = error instanceof TypeError ? "The sidecar does not answer." : error.message;
}

async function follow() {
  if ($("key").hidden && !document.hidden) await update().catch(failed);
  setTimeout(follow, WAIT);
}

async function pin(version) {
  try {
    await ask("PUT", address("/served"), { version });
    $("status").textContent = version === 0 ? "The plain ranking is served from now on." : "The newest version is served from now on.";
    await update();
  } catch (error) {
    failed(error);
  }
}

$("spaces").addEventListener("change", () => {
  space = $("spaces").value;
  update().catch(failed);
});
$("values").addEventListener("change", () => update().catch(failed));
$("plain").addEventListener("click", () => pin(0));
$("newest").addEventListener("click", () => pin(null));
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("key").elements.key.value.trim());
  update().catch(failed);
});
follow();
