// Why a result is where it is, in words.
import { el, titleOf } from "./page.js";

const SKIPPED = "and are but for from into its not one that the their them then this until very when which who with";
const quoted = (text) => `“${text}”`;
const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

/** Return the words of texts by their beginnings, which are the same for soup and soups, or Asia and Asian. */
function words(values) {
  const text = values.filter((value) => typeof value === "string").join(" ");
  const all = (text.match(/\p{L}{3,}/gu) ?? []).filter((word) => !SKIPPED.split(" ").includes(word.toLowerCase()));
  return new Map(all.map((word) => [beginning(word.toLowerCase()), word]));
}

function beginning(word) {
  const singular = word.replace(/(?<=.{3})s$/, "");
  return singular.replace(/(?<=.{3})(e|y|ed|ing)$/, "").slice(0, 6);
}

/** Say which words a query, in words or by the item `origin`, and an item have in common. */
export function matches(query, origin, item) {
  const theirs = words(Object.values(item.payload));
  const common = (mine) => [...mine].filter(([start]) => theirs.has(start)).map(([, word]) => word);
  if (origin !== null) {
    const shared = common(words(Object.values(origin.payload))).slice(0, 6);
    return `It is similar to ${titleOf(origin)}${shared.length === 0 ? "" : `: both have ${listed(shared)}`}.`;
  }
  const shared = common(words([query.text ?? ""]));
  return shared.length === 0
    ? "None of your words is in its text, but it is similar to items that have them."
    : `It has your ${shared.length === 1 ? "word" : "words"} ${listed(shared.map(quoted))}.`;
}

/** Return what people chose that moved an item up or down, as a list. */
export function causes(all, item, up) {
  const which = all.filter((cause) => cause.raises === up).slice(0, 3);
  if (which.length === 0) return el("p", {}, "It moved because others did.");
  const reason = which.length > 1 ? "choices like these" : "this choice";
  return el(
    "div",
    {},
    el("p", {}, `It moved ${up ? "up" : "down"} because of ${reason}:`),
    el("ul", {}, ...which.map((cause) => el("li", {}, sentence(cause, item, up)))),
  );
}

function sentence(cause, item, up) {
  const { chosen, n, yours, users } = cause;
  const others = users > 2 ? `${users - 1} others` : "someone else";
  const you = users > 1 ? `You and ${others}` : "You";
  const who = yours ? you : users > 1 ? `${users} people` : "Someone";
  const other = up ? `${titleOf(chosen)}, which is similar,` : `${titleOf(chosen)} instead`;
  const what = chosen.id === item.id ? "this" : other;
  const times = n > 1 && users < 2 ? `, ${n} times` : "";
  const where =
    cause.item !== null
      ? ` among results like ${titleOf(cause.item)}`
      : cause.text === null
        ? " for a similar search"
        : ` for ${quoted(cause.text)}`;
  return `${who} chose ${what}${where}${times}.`;
}
