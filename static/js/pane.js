/**
 * The question beside the list, where the window is wide: rows open there, a decision goes on to the next row, and each question is the page of its
 * order or thread, as it looks when it is asked again. Without this file, and on a narrow window, rows are links to these pages.
 */

import * as follow from "./follow.js";
import { settle } from "./card.js";
import { gettext } from "./language.js";
import { announce } from "./page.js";
import { isGone, move } from "./rows.js";
import { tell } from "./time.js";

const WIDE = matchMedia("(min-width: 1200px)"); // as static/css/app.css has it
const QUICK = 90; // between two moves: who holds a key down passes the questions by
const KEPT = 12; // pages that are held to come back to; none is shown before its version was asked for
const pane = document.querySelector("[data-pane]"), place = pane?.querySelector("[data-place]");
/** @type {Map<string, { html: string, version: string }>} */
const known = new Map();
/** @type {Map<string, Promise<unknown>>} Pages that are on their way before somebody asks for them. */
const coming = new Map();
const nothing = [...place?.childNodes ?? []];
let open = "", asked = 0, movedAt = -QUICK, step = 1;

const isOn = () => pane !== null && WIDE.matches;
const rowOf = (id) => document.querySelector(`[data-row="${CSS.escape(id)}"]`);
const addressOf = (row) => row.querySelector(".main-link").href;
const isSending = () => place.querySelector("[data-pause][aria-busy=true]") !== null;

/** The row whose question is beside the list. */
function mark() {
  for (const row of document.querySelectorAll("[data-row][aria-current]")) if (row.dataset.row !== open) row.removeAttribute("aria-current");
  rowOf(open)?.setAttribute("aria-current", "true");
}

/** A page as the server has it now, or what changed of the one that is held: neither, where that is the version still. */
async function fetchPage(address, held = known.get(address)) {
  const url = new URL(address);
  url.searchParams.set("live", "");
  const response = await fetch(url, { credentials: "same-origin", cache: "no-store", headers: held ? { "If-None-Match": `"${held.version}"` } : {} });
  if (response.status === 304) return {};
  const html = response.ok ? await response.text() : "", root = follow.read(html);
  if (!root) throw new Error(response.statusText);
  if (held && !root.querySelector("header")) return { news: root };
  known.delete(address);
  if (root.dataset.version) known.set(address, { html, version: root.dataset.version });
  if (known.size > KEPT) known.delete(known.keys().next().value);
  return { root };
}

/** Show a page, which nobody can answer while the place is inert. */
function draw(root) {
  place.replaceChildren(root);
  place.classList.add("held");
  pane.scrollTop = 0;
  tell(/** @type {any} */ (place));
  return root;
}

/** Open the question of a row: at once as it is held, to be answered once the server has said that it is so still. `reads` gives it the focus. */
async function show(row, reads = false) {
  if (isSending()) { announce(gettext("Your answer is being sent; the next question can be opened then.")); return false; }
  const id = row.dataset.row, mine = ++asked, since = performance.now() - movedAt, wasInside = place.contains(document.activeElement);
  movedAt = performance.now();
  if (id === open && place.querySelector("[data-page]") && !place.inert) { if (reads) read(); return true; }
  open = id;
  mark();
  remember();
  place.inert = true; // no key and no click answers what stands there
  follow.leave(); // what comes of the question before is said of its row
  if (wasInside) pane.focus({ preventScroll: true });
  pane.setAttribute("aria-busy", "true");
  place.classList.remove("held");
  const address = addressOf(row), drawHeld = () => { held = known.get(address); return held && draw(follow.read(held.html)); };
  pane.querySelector("[data-whole]").href = address;
  let held, found = null, root = drawHeld();
  if (since < QUICK) await new Promise((resolve) => setTimeout(resolve, QUICK));
  if (mine === asked && !root) { await coming.get(address); root = mine === asked ? drawHeld() : null; }
  if (mine !== asked) return false;
  try { found = await fetchPage(address, held); } catch { /* told below */ }
  if (mine !== asked) return false;
  if (found?.root) root = draw(found.root);
  if (!found) draw(lost());
  pane.removeAttribute("aria-busy");
  place.classList.remove("held");
  place.inert = false;
  if (!found) { announce(place.textContent); return false; }
  follow.open(root, { whole: false });
  settle(root);
  if (found.news) follow.show(found.news);
  if (reads) read();
  compare(id);
  fetchSoon();
  return true;
}

const read = () => (place.querySelector("[data-problem], #question, .ground h2") ?? pane).focus({ preventScroll: true });

function lost() {
  const line = document.createElement("p");
  line.className = "notice error";
  line.textContent = gettext("The question could not be opened: the server did not answer, or it is no longer yours to see. Try again, or open its own page.");
  return line;
}

/** Whether the list is older than what stands beside it. */
function compare(id) {
  const article = place.querySelector("[data-pause]"), row = rowOf(id);
  if (!row || isGone(row)) return;
  const isOld = article?.dataset.pause !== id || Date.parse(article.dataset.changed) > Date.parse(row.dataset.changed);
  if (isOld) document.dispatchEvent(new Event("listolder"));
}

/** Where a reload and the way back find it. */
function remember() {
  history.replaceState({ ...history.state, open }, "");
}

/** Ask for the questions on both sides while this one is read, first for the one that is likely next. */
function fetchSoon() {
  const rows = [...document.querySelectorAll("[data-row]")], waiting = rows.filter((row) => row.dataset.row === open || !isGone(row));
  const at = waiting.findIndex((row) => row.dataset.row === open), mine = asked;
  const near = [waiting[at + step], waiting[at - step]].filter((row) => row?.querySelector(".main-link").pathname.startsWith("/work-orders/")).map(addressOf);
  setTimeout(async () => {
    for (const address of near) {
      if (mine !== asked) return;
      if (!known.has(address) && !coming.has(address)) coming.set(address, fetchPage(address).catch(() => {}).finally(() => coming.delete(address)));
      await coming.get(address);
    }
  }, QUICK);
}

/** On a window that is narrow by now a question is a page of its own: none is followed, and answered by a key, that nobody sees. Where it widens again, the question is back. */
function fit() {
  const row = rowOf(open || history.state?.open || "");
  if (isOn()) { if (row && !open) show(row); return; }
  if (!open) return;
  if (isSending()) { setTimeout(fit, QUICK); return; }
  const active = document.activeElement, wasInside = active === document.body || pane.contains(active); // the browser may have taken it from what is hidden already
  follow.leave();
  place.replaceChildren(...nothing);
  pane.removeAttribute("aria-busy");
  place.classList.remove("held");
  [open, asked, place.inert] = ["", asked + 1, false];
  mark();
  if (!wasInside || !row) return;
  row.querySelector(".main-link").focus();
  announce(gettext("The window is narrow now: open the question from its row. What you typed is kept."));
}

/** To the question before or after, without an answer; at the end of the page to where the list goes on. */
function go(by) {
  step = by;
  const row = move(by);
  if (row) return;
  const line = by > 0 ? gettext("This is the last question of this page.") : gettext("This is the first question of this page.");
  announce(line);
}

/** After an answer: what came of it stands above the next question, with the way to it and back. */
function goOn(id) {
  if (!isOn()) return;
  const [line] = pane.querySelectorAll("[data-notices] .notice"), undo = place.querySelector("[data-undo] form");
  const still = place.querySelector(`[data-pause="${CSS.escape(id)}"] [data-approve]:enabled`);
  if (still || place.querySelector("[data-unsent]:not([hidden])")) return; // another vote of one's own is asked, or words are left
  const rows = [...document.querySelectorAll("[data-row]")], at = rows.indexOf(rowOf(open)); // which is that of an earlier revision, where the question came anew
  const next = [...rows.slice(at + 1), ...rows.slice(0, Math.max(at, 0)).reverse()].find((row) => !isGone(row));
  const link = Object.assign(document.createElement("a"), { href: pane.querySelector("[data-whole]").href, textContent: gettext("Look at it") });
  const which = Object.assign(document.createElement("b"), { dir: "auto", textContent: rowOf(open)?.querySelector(".main-link").textContent ?? "" });
  if (next) line?.prepend(which, " ");
  if (next) line?.append(" ", link, ...(undo ? [undo.cloneNode(true)] : []));
  if (!next) return;
  next.scrollIntoView({ block: "nearest" });
  show(next, true);
}

const opens = (event) => isOn() && !event.defaultPrevented && event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);

if (pane) {
  document.addEventListener("click", (event) => {
    const row = opens(event) ? event.target.closest("[data-row] a:is(.main-link, .button)")?.closest("[data-row]") : null;
    if (!row) return;
    event.preventDefault();
    forget();
    show(row, true);
  });
  document.addEventListener("reached", ({ target, detail }) => {
    if (!isOn()) return;
    forget();
    const rows = [...document.querySelectorAll("[data-row]")], row = target.closest("[data-row]");
    step = rows.indexOf(row) < rows.indexOf(rowOf(open)) ? -1 : 1;
    show(row, detail);
  });
  document.addEventListener("decided", ({ detail: { pause, beside } }) => beside && setTimeout(() => goOn(pause)));
  WIDE.addEventListener("change", fit);
  document.addEventListener("listed", mark);
  for (const [name, by] of /** @type {[string, number][]} */ ([["previous", -1], ["next", 1]])) pane.querySelector(`[data-${name}]`).addEventListener("click", () => go(by));
  addEventListener("hashchange", remember); // a link within the question
  const before = rowOf(history.state?.open ?? "");
  if (before && isOn()) show(before);
}

/** What came of an answer is read by now. */
function forget() {
  pane.querySelector("[data-notices]").replaceChildren();
}
