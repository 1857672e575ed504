// Shared by all tabs: the API, the chosen collection, and elements made of text.
export const $ = (id) => document.getElementById(id);

/** Return an element. Children are elements or text, which is never read as HTML. */
export function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "rect", "line", "path", "circle", "text", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null && value !== undefined)
      made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const unseen = (text) => el("span", { class: "unseen" }, text);
export const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace(/^-/, "−");
export const signed = (value, digits = 3) => (value > 0 ? "+" : "") + number(value, digits);
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));
export let collection = null;

const KEY = "mahala key";
const key = () => sessionStorage.getItem(KEY);

/** Send a request to the API; throw what it says is wrong. */
export async function ask(method, address, body, headers = {}) {
  if (key()) headers.Authorization = `Bearer ${key()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({ detail: answer.statusText }));
  if (answer.status === 401) {
    $("problem").hidden = key() === null;
    $("problem").textContent = "This key is not known here.";
    sessionStorage.removeItem(KEY);
    $("tab").hidden = true;
    $("key").hidden = false;
    $("key").elements.key.focus();
  }
  throw Object.assign(new Error(problem.detail), { status: answer.status });
}

export async function call(method, path, body, headers) {
  return (await ask(method, `/v1/collections/${encodeURIComponent(collection.name)}${path}`, body, headers)).json();
}

/** Send something for the log; return its place, or throw why it is ignored. */
export async function tell(path, body) {
  const key = crypto.randomUUID?.() ?? `${Date.now()}${Math.random()}`;
  const { places, problems } = await call("POST", path, body, { "Idempotency-Key": key });
  if (places[0] === null) throw new Error(problems[0].reason);
  return places[0];
}

/** Say what went wrong, unless a key is asked for. */
export function failed(error) {
  if (error.status === 401) return;
  $("problem").textContent = error.message;
  $("problem").hidden = false;
}

/** Run something that asks the API, and say what went wrong. */
export const safely =
  (work) =>
  (...given) => {
    $("problem").hidden = true;
    return work(...given).catch(failed);
  };

export const titleOf = (item) => String(item.payload.title ?? item.payload.name ?? item.id);

/** Return what is shown of an item: its image, its title with a few short facts or its id, and a line of text. */
export function shown(item) {
  const { title, name, text, image, ...rest } = item.payload;
  const facts = Object.entries(rest).filter(([, value]) => typeof value !== "object" && String(value).length < 25);
  const small = text ? facts.map(([, value]) => value).slice(0, 3) : titleOf(item) === item.id ? [] : [item.id];
  const named = facts.slice(0, 3).map(([field, value]) => `${field} ${value}`);
  const line = text ?? named.join(" · ");
  return [
    typeof image === "string" && collection.images ? picture(image) : null,
    el("span", { class: "title" }, titleOf(item), " ", small.length ? el("small", {}, small.join(" · ")) : null),
    line ? el("span", { class: "line" }, String(line).slice(0, 300)) : null,
  ];
}

function picture(file) {
  const made = el("img", { alt: "", loading: "lazy" });
  const path = file.split("/").map(encodeURIComponent).join("/");
  const address = `/v1/collections/${encodeURIComponent(collection.name)}/images/${path}`;
  if (!key()) made.src = address;
  else {
    // An image cannot send a key by itself, and keys are in no address.
    ask("GET", address)
      .then((answer) => answer.blob())
      .then(
        (blob) => {
          const reader = new FileReader();
          reader.onload = () => (made.src = reader.result);
          reader.readAsDataURL(blob);
        },
        () => {},
      );
  }
  return made;
}

/** Choose the collection, and begin. */
export async function start(tab) {
  $("key").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(KEY, $("key").elements.key.value.trim());
    location.reload();
  });
  await safely(async () => {
    const all = await (await ask("GET", "/v1/collections")).json();
    const wanted = new URLSearchParams(location.search).get("collection");
    collection = all.find((one) => one.name === wanted) ?? (wanted === null ? all[0] : undefined);
    if (!collection)
      throw new Error(wanted === null ? "There are no collections yet." : `There is no collection ${wanted}.`);
    const search = wanted === null ? "" : `?${new URLSearchParams({ collection: wanted })}`;
    for (const link of document.querySelectorAll("nav a")) link.search = search;
    $("collections").replaceChildren(
      ...all.map(({ name }) => el("option", { selected: name === collection.name }, name)),
    );
    $("collections").parentElement.hidden = all.length < 2;
    $("collections").onchange = () => (location.search = new URLSearchParams({ collection: $("collections").value }));
    $("tab").hidden = false;
    await tab();
  })();
}
