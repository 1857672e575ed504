// Teach: which of two items is more like a third one, by buttons and arrow keys.
import { $, call, safely, shown, start, tell, titleOf, unseen } from "./page.js";

let question = null;
const asked = new Set();
const counts = { answers: 0, skipped: 0 };

async function next() {
  question = null;
  let own, name;
  for (let attempt = 0; attempt < 5; attempt++) {
    // in a small collection the same may come again
    own = await call("GET", "/question");
    name = JSON.stringify([own.query.id, ...[own.left.id, own.right.id].sort()]);
    if (!asked.has(name)) break;
  }
  asked.add(name);
  $("query").replaceChildren(...shown(own.query).filter(Boolean));
  for (const side of ["left", "right"])
    $(side).replaceChildren(unseen(`${side}: `), ...shown(own[side]).filter(Boolean));
  $("question").hidden = false;
  $("question").dataset.number = counts.answers + counts.skipped + 1;
  question = own;
  const model = await call("GET", "/model");
  const { answers = 0, used = true } = model.taught ?? {};
  $("learned").textContent = answers;
  $("unused").hidden = used || answers === 0;
}

const answer = safely(async (better, worse) => {
  if (question === null) return; // the last answer is on its way
  const own = question;
  question = null;
  await tell("/comparisons", {
    query: { item: own.query.id },
    better: own[better].id,
    worse: own[worse].id,
    version: own.version,
  });
  count("answers");
  $("status").textContent = `${titleOf(own[better])} is more like ${titleOf(own.query)}: noted.`;
  await next();
});

const skip = safely(async () => {
  if (question === null) return;
  question = null;
  count("skipped");
  $("status").textContent = "Skipped.";
  await next();
});

function count(name) {
  counts[name] += 1;
  $(name).textContent = counts[name];
}

await start(async () => {
  $("left").onclick = () => answer("left", "right");
  $("right").onclick = () => answer("right", "left");
  $("skip").onclick = skip;
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.repeat || event.target.closest("input, select")) return;
    const actions = { ArrowLeft: $("left"), ArrowRight: $("right"), ArrowDown: $("skip"), s: $("skip") };
    if (!(event.key in actions) || $("question").hidden) return;
    event.preventDefault();
    actions[event.key].click();
  });
  await next();
});
