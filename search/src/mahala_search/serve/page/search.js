// Search: two rankings, results that open and teach, and addresses that can be shared.
import { $, call, collection, el, pause, safely, shown, start, tell, titleOf, unseen } from "./page.js";
import { causes, matches } from "./why.js";

const SHOWN = 10;
let query = null; // as the API takes it
let answer = null; // to the last search
let suggestions = [];
let opened = null; // the item whose details are shown, and the button that opened them

const quoted = (text) => `“${text}”`;
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

const suggest = safely(async () => {
  const like = $("query").value;
  if (collection.text || !like) return;
  const { items } = await call("GET", `/items?${new URLSearchParams({ like, n: 12 })}`);
  if (like !== $("query").value) return;
  suggestions = items;
  $("suggestions").replaceChildren(...items.map((item) => el("option", { value: item.id }, titleOf(item))));
});

/** Go to the address of a search: `q` is what is in the box, `item` an item that results should be like. */
function visit(q, item) {
  const address = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries({ q, item }))
    if (value) address.set(name, value);
    else address.delete(name);
  const search = `?${address}`;
  if (search !== location.search) history.pushState(null, "", search);
  return follow();
}

function submit() {
  const value = $("query").value;
  if (collection.text) return visit(value);
  const item = suggestions.find(({ id, ...rest }) => id === value || titleOf({ id, ...rest }) === value);
  return visit(value, (item ?? suggestions[0])?.id ?? value);
}

/** Show what the address says. */
async function follow() {
  const address = new URLSearchParams(location.search);
  const q = address.get("q") ?? "",
    item = address.get("item");
  $("detail").close();
  $("query").value = q || (collection.text ? "" : (item ?? ""));
  document.title = `${item ?? (q || "Search")} · mahala`;
  if (item === null && (q === "" || !collection.text)) return begin();
  await search(item === null ? { text: q } : { item });
}

/** Show where one can start. */
async function begin() {
  clear();
  $("status").textContent = "";
  if ($("starts").childElementCount === 0) {
    const items = await sample(8);
    const tile = (item) =>
      el("button", { class: "tile", onclick: safely(() => visit("", item.id)) }, shown(item).slice(0, 2));
    $("starts").replaceChildren(...items.map((item) => el("li", {}, tile(item))));
  }
  $("examples").hidden = collection.examples.length === 0;
  $("start").hidden = $("starts").childElementCount === 0;
}

/** Return random items, all different. */
async function sample(n) {
  const step = Math.max(1, Math.floor(collection.items / n));
  const starts = Array.from({ length: n }, (_, at) => at * step + Math.floor(Math.random() * step));
  const answers = await Promise.all(starts.map((first) => call("GET", `/items?start=${first}&n=1`)));
  return answers.flatMap(({ items }) => items);
}

function clear() {
  query = answer = null;
  $("rankings").hidden = $("start").hidden = $("examples").hidden = true;
}

/** Search, and show the results; nothing of an earlier search stays if this one fails. */
async function search(wanted) {
  query = wanted;
  const mine = wanted;
  let next;
  try {
    next = await call("POST", "/search", { query, k: SHOWN, plain: true });
  } catch (error) {
    if (query === mine) clear();
    $("status").textContent = "";
    throw error;
  }
  if (query !== mine) return; // another search began meanwhile
  answer = next;
  const name = query.text === undefined ? null : quoted(query.text);
  if (answer.results.length === 0 && answer.plain.length === 0) {
    clear();
    $("examples").hidden = collection.examples.length === 0;
    $("status").textContent = name === null ? "There are no others." : `Nothing here fits ${name}. Try other words.`;
    return;
  }
  draw();
  const n = answer.results.filter(({ id }, at) => answer.plain[at]?.id !== id).length;
  const learned = n === 0 ? "Both rankings are the same so far." : `${n} of them are elsewhere in the plain ranking.`;
  $("status").textContent =
    `${count(answer.results.length, "result")} ${name === null ? `like ${query.item}` : `for ${name}`}. ${learned}`;
}

/** Return a function that focuses the button again that has the focus now, after its list is drawn anew. */
function focusKept() {
  const result = document.activeElement?.closest(".result");
  if (!result) return () => {};
  const place = [...result.querySelectorAll("button")].indexOf(document.activeElement),
    button = buttonOf(result.parentElement.id, result.querySelector(".body").dataset.id);
  return () => document.querySelector(button)?.closest(".result").querySelectorAll("button")[place]?.focus();
}

const buttonOf = (list, id) => `#${list} [data-id="${CSS.escape(id)}"]`;

function draw() {
  const focus = focusKept();
  const before = new Map(answer.plain.map(({ id }, at) => [id, at])),
    now = new Set(answer.results.map(({ id }) => id));
  $("learned").replaceChildren(...answer.results.map((item, at) => result(item, at, before.get(item.id))));
  $("plain").replaceChildren(
    ...answer.plain.map((item) =>
      el(
        "li",
        { class: "result" },
        el(
          "button",
          { class: "body", "data-id": item.id, onclick: () => open(item, "plain") },
          shown(item).slice(0, 2),
          now.has(item.id) ? null : el("span", { class: "gone" }, "no longer in the top ten"),
        ),
      ),
    ),
  );
  $("rankings").hidden = false;
  $("start").hidden = $("examples").hidden = true;
  focus();
}

function mark(now, before) {
  if (before === now) return null;
  const badge = (kind, sign, text) =>
    el("span", { class: `move ${kind}` }, el("span", { "aria-hidden": true }, sign), unseen(`, ${text}`));
  if (before === undefined) return badge("up", "new", "not in the top ten of the plain ranking");
  const by = Math.abs(before - now);
  return before > now
    ? badge("up", `↑${by}`, `${count(by, "place")} higher than in the plain ranking`)
    : badge("down", `↓${by}`, `${count(by, "place")} lower than in the plain ranking`);
}

function result(item, now, before) {
  const panel = el("div", { class: "why", hidden: true });
  const explain = safely(async () => {
    const isOpen = panel.hidden;
    if (isOpen) panel.replaceChildren(...(await reasons(item, now, before)));
    panel.hidden = !isOpen;
    why.setAttribute("aria-expanded", String(isOpen));
  });
  const name = () => unseen(` ${titleOf(item)}`);
  const why = el("button", { class: "link", "aria-expanded": "false", onclick: explain }, "Why is this here?", name());
  const like = el("button", { class: "link", onclick: () => alike(item) }, "More like this", name());
  return el(
    "li",
    { class: "result" },
    el(
      "button",
      { class: "body", "data-id": item.id, onclick: () => open(item, "results") },
      shown(item),
      mark(now, before),
    ),
    el("p", { class: "links" }, why, like),
    panel,
  );
}

const alike = safely((item) => visit($("query").value, item.id));

/** Return why an item is where it is, in words. */
async function reasons(item, now, before) {
  const moved = before !== now;
  const { causes: all } = moved ? await call("POST", "/explain", { query, item: item.id, n: 10 }) : { causes: [] };
  const origin = query.item === undefined ? null : await call("GET", `/items/${encodeURIComponent(query.item)}`);
  const place =
    before === undefined ? "outside the top ten" : before === now ? `at ${now + 1} as well` : `at ${before + 1}`;
  return [
    el("p", {}, matches(query, origin, item)),
    el("p", {}, `The plain ranking has it ${place}.${moved ? "" : " Nothing that was learned moves it."}`),
    moved ? causes(all, item, before === undefined || before > now) : null,
  ].filter(Boolean);
}

/** Show the details of a result. That it was opened is what is learned from. */
function open(item, ranking) {
  opened = { item, button: buttonOf(ranking === "plain" ? "plain" : "learned", item.id) };
  const { title, name, text, image, ...rest } = item.payload;
  const fields = Object.entries(rest).filter(([, value]) => typeof value !== "object");
  $("detail-body").replaceChildren(
    el("h2", { id: "detail-title" }, titleOf(item)),
    shown(item)[0] ?? "",
    el("p", {}, typeof text === "string" ? text : ""),
    el("dl", { class: "fields" }, ...fields.map(([field, value]) => [el("dt", {}, field), el("dd", {}, link(value))])),
  );
  $("detail-status").textContent = "";
  $("detail").showModal();
  teach(item, ranking).catch((error) => ($("detail-status").textContent = `This does not count: ${error.message}`));
}

/** Return a value as a link, if it is an address in the web. */
function link(value) {
  const address = typeof value === "string" && URL.canParse(value) ? new URL(value) : null;
  if (!["http:", "https:"].includes(address?.protocol)) return String(value);
  return el("a", { href: address.href, target: "_blank", rel: "noopener noreferrer" }, value);
}

/** Send what was shown and opened, and show the ranking that has learned from it. */
async function teach(item, ranking) {
  const before = answer.results.findIndex(({ id }) => id === item.id),
    order = answer.results.map(({ id }) => id),
    mine = query;
  const say = (text) => {
    if (query === mine) $("status").textContent = text;
    if (opened?.item === item) $("detail-status").textContent = text;
  };
  const place =
    ranking === "results"
      ? await tell("/events", { search_id: answer.search_id, item: item.id, type: "click" })
      : await tell("/impressions", { query, shown: answer.plain.map(({ id }) => id), clicked: [item.id], version: 0 });
  say("Noted. The ranking is learning from it.");
  const model = await learned(place);
  if (query !== mine) return; // another search began meanwhile
  if (model === null) return say("Noted. The ranking will learn from it later.");
  if (model.pinned) return say(`Noted. Version ${model.version} stays in use, so that the ranking does not change.`);
  await search(query);
  if (query !== mine) return;
  const now = answer.results.findIndex(({ id }) => id === item.id),
    moved = answer.results.filter(({ id }, at) => id !== item.id && order[at] !== id).length;
  const others = moved === 0 ? "nothing else" : count(moved, "other result");
  say(`Learned: ${titleOf(item)} ${change(before, now)}, and ${others} moved.`);
}

/** Say how an item moved between two places, of which -1 is below the top ten. */
function change(before, now) {
  if (now < 0) return before < 0 ? "stays below the top ten" : "is no longer in the top ten";
  if (before < 0) return `rose to ${now + 1}`;
  if (before === now) return `stays at ${now + 1}`;
  return `${now < before ? "rose" : "fell"} from ${before + 1} to ${now + 1}`;
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
  $("query-label").textContent = collection.text ? "Words" : "Item";
  $("query").placeholder = collection.text ? "what you are looking for" : "id or title";
  if (!collection.text) $("query").setAttribute("list", "suggestions");
  const examples = collection.examples.map((text) => el("button", { onclick: safely(() => visit(text)) }, text));
  $("examples").replaceChildren("For example: ", ...examples);
  $("query").addEventListener("input", suggest);
  $("form").addEventListener("submit", (event) => {
    event.preventDefault();
    safely(submit)();
  });
  $("rankings").addEventListener("change", (event) => ($("rankings").dataset.shown = event.target.value));
  $("detail").addEventListener("close", () => {
    if (opened !== null) document.querySelector(opened.button)?.focus(); // drawn anew, perhaps
    opened = null;
  });
  $("detail-like").addEventListener("click", () => alike(opened.item));
  addEventListener("popstate", safely(follow));
  await follow();
});
