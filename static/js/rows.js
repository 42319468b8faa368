/** Rows of the inbox under clicks and keys: moving, choosing several, answering in the row. Without this file they are links, boxes and forms. */

import { gettext } from "./language.js";
import { bind, pressSoon } from "./keys.js";
import { announce } from "./page.js";

const SOON = 5 * 60_000; // as hitl/views/cards/rows.py has it
const find = (name) => document.querySelector(`[data-${name}]`);
const all = () => [...document.querySelectorAll("[data-row]")];
/** The row where the focus is, else the one whose question is open beside the list. */
const current = () => /** @type {any} */ (document.activeElement)?.closest("[data-row]") ?? document.querySelector("[data-row][aria-current]");
const isInPane = () => document.activeElement?.closest("[data-pane]") !== null;
const cardOf = (row) => row && document.querySelector(`[data-place]:is(.held, :not([inert])) [data-pause="${CSS.escape(row.dataset.row)}"]`);
const boxOf = (row) => row?.querySelector('input[type="checkbox"]:enabled');
const boxes = () => all().map(boxOf).filter(Boolean);
const linkOf = (row) => row.querySelector(".main-link");
export const isGone = (row) => row.classList.contains("gone");

const OWN = "answered";
const answeredHere = () => { try { return JSON.parse(sessionStorage.getItem(OWN)) ?? []; } catch { return []; } };
/** Whether the question was answered in this tab: the list is shorter by it, which is no news to who looks. */
export const isOwn = (id) => answeredHere().includes(id);
function own(id) {
  try { sessionStorage.setItem(OWN, JSON.stringify([id, ...answeredHere()].slice(0, 200))); } catch { /* full, or forbidden */ }
}

/** The row loses its buttons and keeps its place. */
export function close(row, words = find("inbox").dataset.gone) {
  if (!row || isGone(row)) return;
  const hadFocus = row.contains(document.activeElement) && document.activeElement.matches("button, .button, input");
  row.classList.add("gone");
  row.removeAttribute("aria-busy");
  const box = row.querySelector('input[type="checkbox"]');
  if (box) { box.checked = false; box.disabled = true; } // it can no longer be answered with others; its place stays, so that the words do not move
  row.querySelector("[data-row-answer]")?.remove();
  const line = document.createElement("span");
  line.className = "by";
  line.textContent = words;
  row.querySelector(".button").replaceWith(line);
  if (hadFocus) linkOf(row).focus({ preventScroll: true });
  if (!row.isConnected) return;
  count();
}

const gone = () => all().filter(isGone).length;

/** How many there are in all: `1000+` stays as it is, else `found` counts the rows that wait no longer, too. */
export function setTotal(now) {
  find("inbox").dataset.found = /^\d+$/.test(now) ? String(Number(now) + gone()) : now;
  count();
}

function showTotal() {
  const { found } = find("inbox").dataset, left = /^\d+$/.test(found) ? String(Number(found) - gone()) : found;
  for (const total of document.querySelectorAll("[data-total]")) total.textContent = left;
}

/** To the next row that waits, or the one before; past the last to the link of the next page. */
export function move(step, extend = false) {
  const rows = all(), at = rows.indexOf(current());
  let to = at < 0 && step < 0 ? rows.length : at;
  do to += step; while (rows[to] && isGone(rows[to]));
  const row = rows[to], target = row ? linkOf(row) : step > 0 ? document.querySelector('[aria-labelledby="waiting"] > .pager [rel="next"]') : null;
  if (!target) return row;
  if (extend && row) {
    for (const one of [rows[at], row]) { const box = boxOf(one); if (box) box.checked = true; }
    count(true);
  }
  const reads = row && isInPane();
  if (!reads) target.focus({ preventScroll: true });
  (row ?? target).scrollIntoView({ block: "nearest" });
  row?.dispatchEvent(new CustomEvent("reached", { bubbles: true, detail: reads }));
  return row;
}

/** How many are chosen, beside the box that chooses all. */
function count(aloud = false) {
  const box = find("all"), line = find("selected"), here = find("on-page");
  showTotal();
  if (here) here.textContent = String(all().length - gone());
  if (!box) return;
  const known = boxes(), chosen = known.filter((one) => one.checked).length, answer = find("answer");
  line.textContent = chosen ? gettext("%(chosen)s of %(count)s selected", { chosen, count: known.length }) : every(known.length);
  answer.disabled = !chosen;
  answer.textContent = chosen ? gettext("Answer %(chosen)s selected…", { chosen }) : gettext("Answer selected…");
  box.checked = chosen > 0 && chosen === known.length;
  box.indeterminate = chosen > 0 && !box.checked;
  box.form.classList.toggle("chosen", chosen > 0);
  box.form.classList.toggle("spent", !known.length);
  if (aloud) announce(gettext("%(chosen)s selected", { chosen }));
}

const every = (count) => find("cut") ? gettext("Select all %(count)s on this page", { count }) : gettext("Select all %(count)s", { count });

/** The boxes that were ticked stay so in a list that takes this one's place. */
export function carry(fresh) {
  const chosen = new Set(boxes().filter((one) => one.checked).map((one) => one.value));
  for (const box of fresh.querySelectorAll('[data-row] input[type="checkbox"]')) box.checked = chosen.has(box.value);
  requestAnimationFrame(() => count());
}

function toggle() {
  const box = boxOf(current());
  if (!box) return;
  box.checked = !box.checked;
  count(true);
}

/** A answers what is chosen, or the row where the focus is. */
function approve() {
  if (boxes().some((one) => one.checked)) { find("all").form.requestSubmit(); return; }
  const row = current(), button = row?.querySelector("[data-row-answer] button"), card = cardOf(row);
  if (card && (!button || card.matches("[data-drafted]"))) return false; // what is typed there goes with the answer
  if (button) pressSoon(button, "A");
  else announce(row ? gettext("This question is answered on its own page: press Enter.") : gettext("Press J to go to a question first."));
}

/** R opens the question where it is sent back. */
function revise() {
  const row = current();
  if (cardOf(row)) return false;
  if (!row) return;
  const place = new URL(/** @type {any} */ (linkOf(row)).href);
  place.hash = "revision";
  location.assign(place);
}

/** Answer in the row: what the server says stands there, and the next question has the focus. */
async function send(event) {
  const form = event.target.closest("[data-row-answer]");
  if (!form) return;
  event.preventDefault();
  const row = form.closest("[data-row]");
  if (row.matches("[aria-busy=true]")) return;
  const button = form.querySelector("button"), body = new URLSearchParams(/** @type {any} */ (new FormData(form, button)));
  for (const one of [row, button]) one.setAttribute("aria-busy", "true");
  row.querySelector(".row-problem")?.remove();
  try {
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html"), line = page.querySelector("main > [data-what]");
    if (response.ok && response.redirected && line?.dataset.what) answered(row, line);
    else refused(row, page, response.status);
  } catch {
    tellProblem(row, gettext("The server cannot be reached. Nothing was decided; try again."));
  } finally {
    for (const one of [row, button]) one.removeAttribute("aria-busy");
  }
}

function answered(row, line) {
  const hadFocus = row.contains(document.activeElement);
  own(row.dataset.row);
  close(row, line.dataset.what === "voted" ? gettext("You voted") : gettext("Answered by you"));
  const next = hadFocus ? move(1) : null;
  announce(`${line.textContent.trim()}${next ? ` ${gettext("Next: %(question)s", { question: linkOf(next).textContent })}` : ""}`);
}

function refused(row, page, status) {
  const problem = page.querySelector("[data-problem]")?.textContent.trim();
  if (page.querySelector("[data-sure]")) location.assign(/** @type {any} */ (linkOf(row)).href); // it asks for a second look
  else if (status === 409 && !page.querySelector(`[data-pause="${row.dataset.row}"]`)) close(row);
  if (row.isConnected) tellProblem(row, problem ?? gettext("The server did not take the answer: you may be logged out. Reload the page and look again."));
}

function tellProblem(row, words) {
  const line = document.createElement("p");
  line.className = "row-problem";
  line.textContent = words;
  row.querySelector(".what").append(line);
  announce(words);
}

/** What is over in less than five minutes says so. */
function tellSoon() {
  const now = Date.now();
  for (const due of document.querySelectorAll("[data-due]")) {
    const left = Date.parse(due.querySelector("time").dateTime) - now;
    due.querySelector(".soon").hidden = left <= 0 || left >= SOON;
    due.classList.toggle("late", left <= 0);
  }
}

/** Keys of rows, where there are any; those that do more than move are the question's while the focus is in it. */
const onRows = (act, moves = false) => () => (all().length && (moves || !isInPane()) ? act() : false);

/** An answer from the question itself, on its page or beside the list. */
document.addEventListener("decided", ({ detail: { pause, html } }) => {
  const row = document.querySelector(`[data-row="${CSS.escape(pause)}"]`), what = new DOMParser().parseFromString(html, "text/html").querySelector("main > [data-what]")?.dataset.what;
  own(pause);
  close(row, what === "voted" ? gettext("You voted") : gettext("Answered by you"));
});

if (find("inbox")) {
  document.addEventListener("submit", send);
  document.addEventListener("change", ({ target }) => {
    if (target.closest("[data-all]")) for (const box of boxes()) box.checked = target.closest("[data-all]").checked;
    if (target.closest("[data-all], [data-row]")) count(true);
  });
  bind({
    J: onRows(() => { move(1); }, true),
    K: onRows(() => { move(-1); }, true),
    "Shift+J": onRows(() => { move(1, true); }),
    "Shift+K": onRows(() => { move(-1, true); }),
    X: onRows(toggle),
    A: onRows(approve),
    R: onRows(revise),
  });
  setInterval(tellSoon, 20_000);
  count();
}
