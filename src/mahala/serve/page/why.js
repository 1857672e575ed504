// Why a result is where it is, in words.
import { el, titleOf } from "./page.js";

const SKIPPED = "and are but for from into its not one that the their them then this until very when which who with";
const quoted = (text) => `“${text}”`;
const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

/** Return the words of texts in lower case, by their beginnings, which are the same for soup and soups. */
function words(values) {
  const text = values.filter((value) => typeof value === "string").join(" ");
  const all = (text.toLowerCase().match(/\p{L}{3,}/gu) ?? []).filter((word) => !SKIPPED.split(" ").includes(word));
  return new Map(all.map((word) => [word.replace(/(?<=.{3})(s|es|y|ed|ing)$/, ""), word]));
}

/** Say which words a query and an item have in common. */
export function matches(query, origin, item) {
  const theirs = words(Object.values(item.payload));
  const common = (mine) => [...mine].filter(([beginning]) => theirs.has(beginning)).map(([, word]) => word);
  if (query.item !== undefined) {
    const shared = origin ? common(words(Object.values(origin.payload))).slice(0, 6) : [];
    const name = origin ? titleOf(origin) : query.item;
    return shared.length === 0 ? `It is similar to ${name}.` : `It is similar to ${name}: both have ${listed(shared)}.`;
  }
  const shared = common(words([query.text ?? ""]));
  return shared.length === 0
    ? "None of your words is in its text, but it is similar to items that have them."
    : `It has your ${shared.length === 1 ? "word" : "words"} ${listed(shared.map(quoted))}.`;
}

/** Return what people chose that moved an item up or down, as a list. */
export function causes(all, item, up) {
  const which = all.filter((cause) => cause.raises === up);
  if (which.length === 0)
    return el("p", {}, "It moved with the whole ranking, as many choices for other searches changed it.");
  return el(
    "div",
    {},
    el("p", {}, up ? "It moved up because of choices like these:" : "It moved down because of choices like these:"),
    el("ul", {}, ...which.map((cause) => el("li", {}, sentence(cause, item)))),
  );
}

function sentence(cause, item) {
  const { chosen, n, yours, users } = cause;
  const others = users > 2 ? `${users - 1} others` : "someone else";
  const you = users > 1 ? `You and ${others}` : "You";
  const who = yours ? you : users > 1 ? `${users} people` : "Someone";
  const what = chosen.id === item.id ? "this" : titleOf(chosen);
  const times = n > 1 && users < 2 ? `, ${n} times` : "";
  const where =
    cause.item !== null
      ? ` among results like ${titleOf(cause.item)}`
      : cause.text === null
        ? " for a similar search"
        : ` for ${quoted(cause.text)}`;
  return `${who} chose ${what}${where}${times}.`;
}
