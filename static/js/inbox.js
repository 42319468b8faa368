/** The badge on every page, and the inbox itself: rows never move under the pointer, new ones wait behind a pill. */

import { gettext } from "./language.js";
import { announce, notify, setState, setWaiting } from "./page.js";
import { carry, close, isGone } from "./rows.js";
import { openInbox } from "./run-stream.js";
import { tell } from "./time.js";

const PAUSE = 150; // between two looks; the first is at once
const inbox = () => document.querySelector("[data-inbox]");
const isInbox = () => inbox() !== null;
const rowsOf = (root) => new Map([...root.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
let timer = 0, lookedAt = 0, fresh = null, wasDown = false, fetching = false, again = false, waiting = null;
const closedAt = new Map(); // question → when the socket said that it waits no longer

/** Fetch the inbox as it is now; tells whether the server answered. */
async function look() {
  if (fetching) { again = true; return true; }
  fetching = true;
  const began = Date.now();
  lookedAt = began;
  try {
    const response = await fetch(`/?${place()}live`, { credentials: "same-origin" });
    if (!response.ok || response.redirected) return false;
    const next = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-inbox]");
    if (next) count(Number(next.dataset.inbox));
    if (isInbox() && next) compare(next, began);
    return true;
  } catch {
    return false;
  } finally {
    fetching = false;
    if (again) { again = false; lookSoon(); }
  }
}

/** Which page of the inbox this is, and up to which question it knows all: what was asked later is new, on whichever page it stands. */
function place() {
  if (!isInbox()) return "";
  const query = new URLSearchParams(location.search), { newest } = inbox().dataset;
  if (newest) query.set("seen", newest);
  return query.size ? `${query}&` : "";
}

function count(now) {
  setWaiting(now);
  if (waiting !== null && now > waiting) notify(now);
  waiting = now;
}

function lookSoon() {
  clearTimeout(timer);
  timer = setTimeout(look, Math.max(0, lookedAt + PAUSE - Date.now()));
}

/** At once, on the socket's word: the list, which says who answered, may take a second to come. */
function closeAll(ids) {
  for (const id of ids) {
    closedAt.set(id, Date.now());
    for (const root of [document, fresh]) if (root) close(rowsOf(root).get(id));
  }
}

/** What was answered elsewhere says by whom and has no button any more; what is new, or waits again, is offered. */
function compare(next, began) {
  fresh = next;
  const here = rowsOf(document), there = rowsOf(next);
  for (const [id, row] of there) if (closedAt.get(id) >= began) close(row); // this list may be older than the word
  for (const [id, row] of here) {
    if (there.has(id)) continue;
    close(row);
    sayWho(row, next.querySelector(`[data-of="${id}"]`));
  }
  renewHistory(next);
  const cut = document.querySelector("[data-cut]"), cutNow = next.querySelector("[data-cut]");
  if (cut && cutNow) cut.textContent = cutNow.textContent;
  offer([...there].filter(([, row]) => !isGone(row)).filter(([id]) => !here.has(id) || isGone(here.get(id))), here, Number(next.dataset.news));
}

/** It stands below the rows and moves none of them; under somebody's pointer or focus it stays as it is. */
function renewHistory(next) {
  const here = document.querySelector("[data-history]"), there = next.querySelector("[data-history]");
  const answers = (root) => [...root.querySelectorAll("[data-of]")].map((entry) => entry.dataset.of).join();
  if (!here || !there || answers(here) === answers(there) || here.matches(":hover, :focus-within")) return;
  const renewed = there.cloneNode(true); // who answered what is still read from this one
  here.replaceWith(renewed);
  tell(renewed);
}

/** Rows that are not shown: new ones, some that wait again, or such as moved up from another page. `asked` counts the new ones of all pages. */
function offer(rows, here, asked) {
  const known = inbox().dataset.newest;
  const news = known ? asked + rows.filter(([id]) => id <= known && here.has(id)).length : rows.length;
  const pill = document.querySelector("[data-pill]"), words = news ? gettext("%(news)s new — show", { news }) : gettext("The list has changed — show");
  pill.hidden = !news && !rows.length;
  pill.dataset.news = news;
  if (news && pill.firstElementChild.textContent !== words) announce(gettext("%(news)s new in the inbox", { news }));
  pill.firstElementChild.textContent = words;
}

/** Who answered, how and when, told once; `entry` is the decision in the history, missing where the run ended without one. */
function sayWho(row, entry) {
  if (!entry || row.dataset.told) return;
  row.dataset.told = "";
  row.querySelector(".by").replaceChildren(entry.querySelector(".verdict").textContent.trim(), " · ", ...entry.querySelector(".by").cloneNode(true).childNodes);
}

/** New questions may stand on any page, what is due soonest on the first: that one is shown. */
function showFresh() {
  const { first } = inbox().dataset;
  if (first && Number(document.querySelector("[data-pill]").dataset.news)) { location.assign(first); return; }
  document.querySelector("[data-pill]").hidden = true;
  carry(fresh);
  document.querySelector("[data-inbox]").replaceWith(fresh);
  tell(fresh);
  fresh.querySelector("h2").focus();
}

if (isInbox()) document.querySelector("[data-pill] button").addEventListener("click", showFresh);

openInbox({
  look,
  resume: { maxAttempts: Infinity },
  onCount(now, gone) {
    count(now);
    if (!isInbox()) return;
    closeAll(gone);
    lookSoon();
  },
  onState(state) {
    if (isInbox()) setState(state);
    if (state === "live" && wasDown && isInbox()) lookSoon();
    wasDown = state !== "live";
  },
});
