// Watch: what was learned, what it is worth, and the versions to which one can go back.
import { $, ask, call, collection, el, failed, number, pause, safely, signed, start } from "./page.js";
import { bars, intervals, lines, table } from "./charts.js";
import { controlParts, percent } from "./control.js";

const EVERY = 3000; // milliseconds between two looks
const drawn = new Map();
const VERDICTS = {
  "shown to help": "Learning helps",
  "probably helps": "Learning probably helps",
  "too early to tell": "Too early to say whether learning helps",
  "does not help": "Learning does not help so far",
};
let seen = null; // the counters at the last look

/** Draw a part again if what it shows has changed; focus and opened tables stay. */
function draw(id, data, make) {
  const place = $(id);
  const wide = Math.round(place.clientWidth) || 320;
  const now = JSON.stringify([wide, data]);
  if (drawn.get(id) === now) return;
  drawn.set(id, now);
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = [...place.querySelectorAll("details")].map((details) => details.open);
  place.replaceChildren(...[make(data, Math.min(wide, 640), wide)].flat());
  place.querySelectorAll("details").forEach((details, at) => (details.open = open[at] ?? false));
  if (key !== undefined) place.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
}

const nothing = (text) => el("p", { class: "note" }, text);

async function look() {
  const [model, control, versions, metrics] = await Promise.all([
    call("GET", "/model"),
    call("GET", "/control"),
    call("GET", "/versions"),
    ask("GET", "/metrics").then((answer) => answer.text()),
  ]);
  const own = model.learners[model.served];
  $("verdict").textContent = control.share ? control.sentence : estimate(own);
  $("basis").hidden = control.share > 0;
  $("basis").textContent = control.sentence;
  $("control-card").hidden = !control.share;
  if (control.share) draw("control", control, controlParts);
  draw("facts", [model.version, model.pinned, model.learned, model.logged, model.items, own?.trust], facts);
  draw(
    "foreseen",
    versions.map((one) => [one.place, one.status.learners[model.served]?.foreseen ?? null]).reverse(),
    foreseen,
  );
  draw("gains", own ?? null, gains);
  draw("requests", requests(metrics), ({ rows }) =>
    rows.length ? table(["route", "per s", "in all", "p50 ≤", "p99 ≤"], rows) : nothing("There were no requests yet."),
  );
  draw(
    "versions",
    [versions.map(({ version, place, created }) => [version, place, created]), model.version, model.pinned],
    versionRows,
  );
  $("shadows-card").hidden = model.differences.length === 0;
  draw("shadows", model.differences, (all, wide) =>
    intervals(
      wide,
      "Which learner is ahead",
      all
        .filter(({ mean }) => mean !== undefined)
        .map((one) => ({ ...one, name: `${one.of} over ${one.over}`, n: one.sums[0] })),
      signed,
      "shadows",
    ),
  );
  if (drawn.get("spectrum version") !== model.version) {
    drawn.set("spectrum version", model.version);
    draw("spectrum", await call("GET", "/spectrum?n=24"), spectrum);
  }
  if (model.problem) throw new Error(model.problem); // all else is drawn
}

/** Return what the clicks say, without a control share. */
function estimate(own) {
  if (!own?.gain || !own.foreseen?.n) return "Nothing was learned yet.";
  const { served, plain } = own.foreseen;
  return (
    `${VERDICTS[own.gain.kind]}: of two results, the clicked one was ranked higher in ${number(100 * served, 1)}\u00a0% ` +
    `of cases, and in ${number(100 * plain, 1)}\u00a0% by the plain ranking.`
  );
}

function facts([version, pinned, learned, logged, items, trust]) {
  const fact = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  return [
    fact("Served version", `${version}${pinned ? ", pinned" : ""}`),
    fact("Learned from", `${number(learned)} of ${number(logged)}`),
    fact("Items", number(items)),
    fact("Learning used, new queries", percent(trust?.new ?? 0)),
    fact("Learning used, known queries", percent(trust?.known ?? 0)),
  ];
}

function foreseen(all, wide) {
  const known = all.filter(([, one]) => one?.n);
  if (known.length === 0)
    return nothing("As soon as people click: how often the clicked result was ranked before others.");
  const [, last] = known.at(-1);
  return [
    el(
      "p",
      {},
      `Of pairs of a result that was clicked and one that was not, ${percent(last.served)} were in the right order ` +
        `before they were learned from; ${percent(last.plain)} in the plain ranking.`,
    ),
    lines(
      wide,
      "Share of pairs in the right order, learned and plain, over the log",
      [
        { name: "learned", kind: "accent", points: known.map(([place, one]) => [place, one.served]) },
        { name: "plain", kind: "grey", points: known.map(([place, one]) => [place, one.plain]) },
      ],
      percent,
      "foreseen",
    ),
  ];
}

function gains(own, wide) {
  const rows = [
    ["first time that a query came", own?.gains?.new],
    ["queries that are known", own?.gains?.known],
    ["nDCG of judged queries", own?.gains?.judged],
  ]
    .filter(([, gain]) => gain)
    .map(([name, gain]) => ({ ...gain, name }));
  if (rows.length === 0) return nothing("As soon as people click: how much better the learned ranking foresaw it.");
  return [
    el("p", {}, `Each impression is predicted before it is learned from. Lines are 95 % intervals. ${own.verdict}`),
    intervals(wide, "Learned minus plain, with 95 % intervals", rows, signed, "gains"),
  ];
}

function spectrum(spectra, wide) {
  if (spectra.new.length === 0) return nothing("The map is the identity: the plain ranking is served.");
  const text = "Each bar is a direction in which the learned ranking differs from the plain one, and by how much.";
  const drawn = bars(
    wide,
    "Singular values of M minus I, for new and for known queries",
    [
      { name: "new queries", kind: "accent", values: spectra.new },
      { name: "known queries", kind: "grey", values: spectra.known },
    ],
    (value) => number(value, 3),
    "spectrum",
  );
  return [el("p", {}, text), drawn];
}

/** Return the rows of the table of requests, from counters in the format of Prometheus. */
function requests(text) {
  const at = performance.now(),
    buckets = new Map();
  for (const [, bound, route, n] of text.matchAll(
    /^mahala_request_seconds_bucket\{le="([^"]*)",route="([^"]*)"\} (\S+)/gm,
  ))
    if (route.startsWith("/v1/collections/{name}/")) {
      if (!buckets.has(route)) buckets.set(route, []);
      buckets.get(route).push([bound === "+Inf" ? Infinity : Number(bound), Number(n)]);
    }
  const within = (counts, share) => {
    const bound = counts.find(([, n]) => n >= share * counts.at(-1)[1])[0];
    return bound === Infinity ? "over 5 s" : `${number(1000 * bound, bound < 0.005 ? 1 : 0)} ms`;
  };
  const rows = [];
  for (const [route, counts] of buckets) {
    const all = counts.at(-1)[1],
      name = route.replace("/v1/collections/{name}/", "");
    const rate = seen === null ? 0 : ((all - (seen.counts.get(route) ?? 0)) / (at - seen.at)) * 1000;
    if (["search", "events", "impressions", "comparisons", "question", "explain"].includes(name))
      rows.push([name, number(rate, 1), number(all), within(counts, 0.5), within(counts, 0.99)]);
  }
  seen = { at, counts: new Map([...buckets].map(([route, counts]) => [route, counts.at(-1)[1]])) };
  return { rows };
}

function versionRows([versions, served, pinned]) {
  const button = (version, name, question) =>
    el("button", { "data-key": `serve ${version}`, onclick: () => roll(version, question) }, name);
  const rows = [...versions, [0, 0, null]].map(([version, place, created]) => [
    version === 0 ? "0, the plain ranking" : String(version),
    number(place),
    created === null
      ? ""
      : new Date(1000 * created).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }),
    version === served
      ? el("strong", {}, "served")
      : button(
          version,
          version < served ? "Roll back" : "Serve",
          `Serve version ${version} of ${collection.name}? Learning continues meanwhile.`,
        ),
  ]);
  return [
    pinned
      ? el(
          "p",
          {},
          `Version ${served} is pinned. `,
          button(null, "Serve the newest again", "Serve the newest version, whatever comes?"),
        )
      : null,
    table(["version", "entries", "made", ""], rows),
  ].filter(Boolean);
}

function roll(version, question) {
  $("confirm-text").textContent = question;
  $("confirm-yes").textContent = "Serve it";
  $("confirm").returnValue = "no";
  $("confirm").onclose = safely(async () => {
    if ($("confirm").returnValue !== "yes") return;
    const status = await call("PUT", "/versions/served", { version });
    await look();
    $("status").textContent = `Version ${status.version} is served now.`;
  });
  $("confirm").showModal();
}

await start(async () => {
  for (let lost = false; ; await pause(EVERY)) {
    try {
      await look();
      if (lost) $("problem").hidden = true;
      lost = false;
    } catch (error) {
      if (error.status === 401) throw error;
      failed(error);
      lost = true;
    }
  }
});
