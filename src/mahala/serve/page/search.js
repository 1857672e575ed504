// Search: two rankings side by side, clicks that teach, and why a result is where it is.
import { $, call, collection, el, number, pause, safely, shown, signed, start, tell, titleOf, unseen } from "./page.js";

const SHOWN = 10;
let query = null; // as the API takes it
let found = null; // the last answer
let suggested = [];

const kind = () => (collection.text ? $("form").elements.kind.value : "item");

function describe() {
  $("kinds").hidden = !collection.text;
  $("query-label").textContent = kind() === "text" ? "Words" : "Item";
  $("query").placeholder = kind() === "text" ? "what it is or does" : "id or title";
  $("suggestions").replaceChildren();
}

const suggest = safely(async () => {
  const like = $("query").value;
  if (kind() === "text" || !like) return;
  const answer = await call("GET", `/items?${new URLSearchParams({ like, n: 12 })}`);
  if (like !== $("query").value) return;
  suggested = answer.items;
  $("suggestions").replaceChildren(...suggested.map((item) => el("option", { value: item.id }, titleOf(item))));
});

async function submit() {
  const value = $("query").value;
  if (kind() === "text") return search({ text: value });
  const own = suggested.find((item) => item.id === value || titleOf(item) === value) ?? suggested[0];
  return search({ item: own?.id ?? value });
}

async function search(wanted) {
  query = wanted;
  const before = found;
  found = await call("POST", "/search", { query, k: SHOWN, plain: true });
  found.query = JSON.stringify(query);
  draw();
  const version = found.version === 0 ? "nothing was learned yet" : `version ${found.version}`;
  $("status").textContent = `${found.results.length} results for ${Object.values(query)[0]}; ${version}.`;
  return before;
}

function draw() {
  const places = new Map(found.plain.map(({ id }, at) => [id, at]));
  const kept = new Set(found.results.map(({ id }) => id));
  $("learned").replaceChildren(...found.results.map((item, at) => result(item, moved(places.get(item.id), at))));
  $("plain").replaceChildren(
    ...found.plain.map((item) =>
      el(
        "li",
        { class: "result" },
        el(
          "div",
          { class: "body" },
          shown(item).slice(0, 2),
          kept.has(item.id)
            ? null
            : el(
                "span",
                { class: "move down" },
                el("span", { "aria-hidden": true }, "↓ left"),
                unseen(", not among the learned results"),
              ),
        ),
      ),
    ),
  );
  $("rankings").hidden = false;
  $("start").hidden = true;
}

function moved(before, now) {
  if (before === now) return null;
  if (before === undefined)
    return el(
      "span",
      { class: "move up" },
      el("span", { "aria-hidden": true }, "new"),
      unseen(", not among the plain results"),
    );
  const up = before > now,
    by = Math.abs(before - now);
  return el(
    "span",
    { class: `move ${up ? "up" : "down"}` },
    el("span", { "aria-hidden": true }, `${up ? "↑" : "↓"}${by}`),
    unseen(`, ${by} ${by === 1 ? "place" : "places"} ${up ? "higher" : "lower"} than in the plain ranking`),
  );
}

function result(item, mark) {
  const panel = el("div", { class: "why", hidden: true });
  const why = el(
    "button",
    {
      class: "link",
      "aria-expanded": "false",
      onclick: safely(async () => {
        const open = panel.hidden;
        if (open) panel.replaceChildren(...explained(await call("POST", "/explain", { query, item: item.id, n: 3 })));
        panel.hidden = !open;
        why.setAttribute("aria-expanded", String(open));
      }),
    },
    "Why is this here?",
  );
  return el(
    "li",
    { class: "result" },
    el("button", { class: "body", "data-id": item.id, onclick: safely(() => click(item)) }, shown(item), mark),
    el(
      "p",
      { class: "links" },
      why,
      el(
        "button",
        {
          class: "link",
          onclick: safely(() => {
            $("query").value = "";
            return search({ item: item.id });
          }),
        },
        "More like this",
        unseen(`: ${titleOf(item)}`),
      ),
    ),
    panel,
  );
}

function explained(answer) {
  const total = Math.abs(answer.plain) + Math.abs(answer.learned) || 1;
  const share = Math.round((100 * Math.abs(answer.learned)) / total);
  const rows = (name, ones) =>
    ones
      .filter((one) => Math.abs(one.contribution) >= 0.0005)
      .map((one) =>
        el("tr", {}, el("td", {}, `${name} ${one.number}`), el("td", { class: "n" }, signed(one.contribution))),
      );
  return [
    el(
      "p",
      {},
      `Score ${number(answer.score, 3)} = ${number(answer.plain, 3)} plain ${signed(answer.learned)} learned: ` +
        `${share}\u00a0% of it is learned.`,
    ),
    share === 0
      ? null
      : el(
          "svg",
          { viewBox: "0 0 100 4", preserveAspectRatio: "none", class: "share", "aria-hidden": true },
          el("rect", { class: "grey", width: 100 - share, height: 4 }),
          el("rect", { class: "accent", x: 100 - share, width: share, height: 4 }),
        ),
    answer.directions.length === 0
      ? null
      : el(
          "table",
          {},
          el("caption", {}, "What the learned part is made of"),
          el("tbody", {}, rows("direction", answer.directions), rows("feature", answer.features)),
        ),
  ].filter(Boolean);
}

async function click(item) {
  const ids = found.results.map(({ id }) => id);
  const before = ids.indexOf(item.id);
  $("status").textContent = `Learning that you wanted ${titleOf(item)} …`;
  const own = query;
  const place = await tell("/impressions", { query, shown: ids, clicked: [item.id], version: found.version });
  const model = await learned(place);
  if (own !== query) return; // another search began meanwhile
  if (model === null) {
    $("status").textContent = "Your click is in the log. It is not learned from yet.";
    return;
  }
  await search(query);
  const button = document.querySelector(`[data-id="${CSS.escape(item.id)}"]`);
  button?.focus();
  const now = found.results.findIndex(({ id }) => id === item.id);
  const others = found.results.filter(
    ({ id }, at) => id !== item.id && ids.includes(id) && ids.indexOf(id) !== at,
  ).length;
  const change =
    now < 0 || now === before
      ? `${titleOf(item)} stays at ${before + 1}`
      : `${titleOf(item)} ${now < before ? "rose" : "fell"} from ${before + 1} to ${now + 1}`;
  const trust = Math.round(100 * (model.learners[model.served]?.trust.known ?? 0));
  $("status").textContent = model.pinned
    ? `Your click is in the log, but version ${model.version} is pinned: what is learned is not shown.`
    : `Learned: ${change}, ${others} other ${others === 1 ? "result" : "results"} moved. ` +
      `Version ${model.version} trusts what it learned about known queries by ${trust} %.`;
}

/** Wait until a place of the log is learned from; return the model, or null if that takes too long. */
async function learned(place) {
  for (let attempt = 0; attempt < 300; attempt++) {
    const model = await call("GET", "/model");
    if (model.learned >= place || model.pinned) return model;
    await pause(200);
  }
  return null;
}

await start(async () => {
  describe();
  $("kinds").addEventListener("change", describe);
  $("query").addEventListener("input", suggest);
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    safely(submit)();
  });
  const first = Math.floor(Math.random() * Math.max(1, collection.items - 8));
  const answer = await call("GET", `/items?start=${first}&n=8`);
  $("starts").replaceChildren(
    ...answer.items.map((item) =>
      el(
        "li",
        {},
        el("button", { class: "tile", onclick: safely(() => search({ item: item.id })) }, shown(item).slice(0, 2)),
      ),
    ),
  );
  $("start").hidden = answer.items.length === 0;
});
