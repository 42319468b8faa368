/** Who else is at a question: said every few seconds while this page is looked at. Without this file, or the server, nothing is shown. */

import { gettext } from "./language.js";

const EVERY = 8_000, LOST = 20_000; // as hitl/decisions/presence.py has it
const WRITING = 10_000; // after the last key
let timer = 0, typedAt = 0, writing = false, heardAt = 0, asked = 0, stream = null;

const slot = () => document.querySelector("[data-presence]");

/**
 * Over `stream` where its socket is open, else by requests; first when that is known: the socket tells of whoever comes behind its answer, a
 * request before it does not.
 */
export function start(openStream) {
  const listens = stream !== null;
  stream = openStream;
  if (listens) return;
  document.addEventListener("visibilitychange", say);
  document.addEventListener("input", ({ target }) => {
    if (!target.closest("[data-pause]")) return;
    typedAt = Date.now();
    if (!writing) say();
  });
  document.addEventListener("taken", () => { typedAt = 0; say(); }); // what was written is sent
}

/** Something changed, or there is another way to ask: ask anew. */
export const stir = () => say();

async function say() {
  clearTimeout(timer);
  timer = setTimeout(say, EVERY);
  const line = slot();
  if (!line || document.hidden) return;
  writing = Date.now() - typedAt < WRITING && typedAt > 0;
  const mine = ++asked;
  try {
    const { present } = await stream.present(line.dataset.presence, writing);
    if (mine !== asked) return; // what was asked later is told later, whichever answer comes first
    show(line.dataset.presence, present);
    heardAt = Date.now();
  } catch {
    if (Date.now() - heardAt > LOST) show(line.dataset.presence, []); // what was said is old
  }
}

function show(pause, present) {
  const line = slot();
  if (line?.dataset.presence !== pause) return; // another question by now
  const near = document.querySelector("[data-present]");
  const words = present.map(({ name, writing: busy }) => busy ? gettext("%(name)s is writing a decision", { name }) : gettext("%(name)s is viewing", { name })).join(" · ");
  for (const one of [line, near]) {
    if (!one) continue;
    if (one.textContent !== words) one.textContent = words;
    one.hidden = !words;
    one.classList.toggle("writing", present.some(({ writing: busy }) => busy));
  }
}
