/**
 * The badge on every page, and the inbox itself: rows never move under the pointer, new ones wait behind a pill. The socket brings what
 * changed, each row written once for all who have it; the list itself is fetched by who wants to see it anew, and while there is no socket.
 */

import { gettext } from "./language.js";
import { announce, notify, setState, setWaiting } from "./page.js";
import { carry, close, isGone, isOwn, setTotal } from "./rows.js";
import { openInbox } from "./run-stream.js";
import { tell } from "./time.js";

const PAUSE = 150; // between two looks; the first is at once
const PAST = 30, ASKED = 50; // lines of the history, and rows that are asked for at once
const inbox = () => document.querySelector("[data-inbox]");
const isInbox = () => inbox() !== null;
const isPlain = () => !location.search; // all that waits, its first page, what is due first: as the socket tells it
const rowsOf = (root) => new Map([...root.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
const parsed = (html) => new DOMParser().parseFromString(html, "text/html");
let timer = 0, lookedAt = 0, fresh = null, fetching = false, again = false, waiting = null;
const closedAt = new Map(); // question → when the socket said that it waits no longer
const offered = new Set(); // questions that are not shown: new ones, and such as wait again
let further = 0, moved = false, older = false; // how many more a look counted on other pages; whether the list is another one, or older than a question
const later = new Map(); // question → its row, which waits until nobody is about to act on the one that is there
const answers = []; // lines that wait for their place in the history

/** Fetch the inbox as it is now; tells whether the server answered. */
async function look() {
  if (fetching) { again = true; return true; }
  fetching = true;
  const began = Date.now();
  lookedAt = began;
  try {
    const response = await fetch(`/?${place()}live`, { credentials: "same-origin" });
    if (!response.ok || response.redirected) return false;
    const next = parsed(await response.text()).querySelector("[data-inbox]");
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

/** What the socket tells of this page's rows, and of such as are not on it. */
function take(message) {
  closeAll(message.gone, message);
  if (message.first) { begin(message); return; }
  if (isPlain()) {
    for (const id of message.new) offered.add(id);
    for (const id of message.changed) if (message.html?.[id]) later.set(id, message.html[id]);
    tellTotal(message.waiting);
  } else if (message.new.length + message.changed.length) fetchRows([...message.new, ...message.changed]);
  settle();
}

/** After a connect: is the page, which is older, still as it was? */
function begin({ first, waiting: now }) {
  const listed = new Map(first), here = rowsOf(document), { newest } = inbox().dataset;
  const isWhole = now === first.length;
  const isOther = ([id, row]) => !isGone(row) && (listed.has(id) ? Date.parse(listed.get(id)) !== Date.parse(row.dataset.changed) : !isWhole);
  if (!isPlain() || [...here].some(isOther) || (!isWhole && now !== Number(inbox().dataset.inbox))) { lookSoon(); return; }
  for (const [id, row] of here) if (!listed.has(id)) close(row);
  let up = 0;
  for (const id of listed.keys()) {
    if (here.has(id) && !isGone(here.get(id))) continue;
    if (id > newest || here.has(id)) offered.add(id);
    else if (!here.has(id)) up += 1;
  }
  moved = isMoved(up);
  tellTotal(now);
  settle();
}

/** Which of these the filters of this page leave; each as it is now. */
async function fetchRows(ids) {
  const query = new URLSearchParams(location.search);
  query.set("ids", ids.join());
  if (ids.length > ASKED) { lookSoon(); return; }
  try {
    const response = await fetch(`/rows?${query}`, { credentials: "same-origin" });
    if (!response.ok || response.redirected) { lookSoon(); return; }
    const here = rowsOf(document), there = rowsOf(parsed(await response.text()));
    for (const id of ids) {
      const row = there.get(id);
      if (!row) close(here.get(id));
      else if (here.has(id) && !isGone(here.get(id))) later.set(id, row.outerHTML);
      else if (!offered.has(id)) {
        offered.add(id);
        addOne();
      }
    }
    settle();
  } catch {
    lookSoon();
  }
}

/** One more fits than this page knows. */
function addOne() {
  const known = document.querySelector("[data-total]")?.textContent ?? "";
  if (/^\d+$/.test(known)) setTotal(String(Number(known) + 1));
}

/** At once, on the socket's word; who answered comes with it. */
function closeAll(ids, { html = {}, past = [] }) {
  for (const id of ids) {
    closedAt.set(id, Date.now());
    later.delete(id);
    if (!offered.delete(id) && further && id > inbox().dataset.newest) further -= 1;
    const row = rowsOf(document).get(id);
    for (const one of [row, fresh && rowsOf(fresh).get(id)]) close(one);
    if (!html[id]) continue;
    const line = parsed(html[id]).querySelector("[data-of]");
    if (row) sayWho(row, line);
    if (past.includes(id) && (row || isPlain())) answers.push(line);
  }
}

/** Everything that may be shown now is. */
function settle() {
  for (const [id, html] of later) renew(id, html);
  if (answers.length) recordAnswers();
  offer();
}

/** A row as it is now in place of the one as it was; not under somebody's pointer or focus, and never so that others move there. */
function renew(id, html) {
  const old = rowsOf(document).get(id);
  if (!old || isGone(old)) { later.delete(id); return; }
  if (old.matches(":hover, :focus-within, [aria-busy=true]")) return;
  const row = parsed(`<ul>${html}</ul>`).querySelector("[data-row]"), list = old.parentElement, height = old.offsetHeight;
  const box = row.querySelector('input[type="checkbox"]'), field = (name) => row.querySelector(`[name="${name}"]`);
  if (field("back")) {
    field("csrfmiddlewaretoken").value = document.querySelector("[name=csrfmiddlewaretoken]").value;
    field("back").value = inbox().dataset.back;
  }
  if (!document.getElementById("several")) box?.remove();
  else if (box) box.checked = Boolean(old.querySelector('input[type="checkbox"]:checked'));
  row.style.minHeight = `${height}px`;
  old.replaceWith(row);
  document.dispatchEvent(new Event("listed"));
  if (row.offsetHeight > height && list.matches(":hover, :focus-within")) { row.replaceWith(old); return; }
  later.delete(id);
  tell(/** @type {any} */ (row));
}

/** They stand below the rows and move none of them; under somebody's pointer or focus the history stays as it is. */
function recordAnswers() {
  const history = document.querySelector("[data-history]");
  if (!history || new URLSearchParams(location.search).has("past")) { answers.length = 0; return; }
  if (history.matches(":hover, :focus-within")) return;
  let list = /** @type {any} */ (history.querySelector("ul.rows"));
  if (!list) {
    list = document.createElement("ul");
    list.className = "rows card quiet";
    history.querySelector(".hint")?.replaceWith(list);
  }
  for (const line of answers.splice(0)) list.prepend(line);
  while (list.children.length > PAST) list.lastElementChild.remove();
  tell(list);
}

/** After a look: what was answered elsewhere says by whom and has no button any more; what changed is renewed where it stands; what is new, or waits again, is offered. */
function compare(next, began) {
  fresh = next;
  older = false;
  const here = rowsOf(document), there = rowsOf(next), { newest } = inbox().dataset;
  for (const [id, row] of there) if (closedAt.get(id) >= began) close(row); // this list may be older than the word
  for (const [id, row] of here) {
    if (there.has(id)) { keepLater(row, there.get(id)); continue; }
    close(row);
    sayWho(row, next.querySelector(`[data-of="${id}"]`));
  }
  renewHistory(next);
  setTotal(next.dataset.found);
  offered.clear();
  const notShown = [...there].filter(([id, row]) => !isGone(row) && (!here.has(id) || isGone(here.get(id))));
  for (const [id] of notShown) if (!newest || id > newest || here.has(id)) offered.add(id);
  further = Math.max(0, Number(next.dataset.news) - [...offered].filter((id) => id > newest).length);
  moved = isMoved(notShown.length - offered.size);
  settle();
}

/** Whether more moved up from other pages than one's own answers made room for. */
const isMoved = (up) => up > [...rowsOf(document)].filter(([id, row]) => isGone(row) && isOwn(id)).length;

/** Of a row that is shown and its copy of a look, the newer one; the socket may have told a newer one still. */
function keepLater(row, copy) {
  const changed = (html) => Date.parse(parsed(`<ul>${html}</ul>`).querySelector("[data-row]").dataset.changed);
  const id = row.dataset.row, at = Date.parse(copy.dataset.changed);
  if (isGone(row) || isGone(copy) || at <= Date.parse(row.dataset.changed)) return;
  if (!later.has(id) || changed(later.get(id)) < at) later.set(id, copy.outerHTML);
}

/** The whole history of a look, in place of the one that is there. */
function renewHistory(next) {
  const here = document.querySelector("[data-history]"), there = next.querySelector("[data-history]");
  const lines = (root) => [...root.querySelectorAll("[data-of]")].map((entry) => entry.dataset.of).join();
  if (!here || !there || lines(here) === lines(there) || here.matches(":hover, :focus-within")) return;
  const renewed = there.cloneNode(true); // who answered what is still read from this one
  here.replaceWith(renewed);
  tell(renewed);
}

function tellTotal(now) {
  setTotal(document.querySelector("[data-count]").textContent);
  inbox().dataset.inbox = String(now);
}

/** Rows that are not shown: new ones of all pages, some that wait again, or such as moved up from another page. */
function offer() {
  const news = offered.size + further;
  const pill = document.querySelector("[data-pill]"), isOld = older || later.has(document.querySelector("[data-row][aria-current]")?.dataset.row);
  const words = news ? gettext("%(news)s new — show", { news }) : isOld ? gettext("The list is older than this question — show") : gettext("The list has changed — show");
  pill.hidden = !news && !moved && !isOld;
  pill.dataset.news = String(news);
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
async function showFresh() {
  const { first } = inbox().dataset, pill = document.querySelector("[data-pill]");
  if (first && Number(pill.dataset.news)) { location.assign(first); return; }
  pill.firstElementChild.setAttribute("aria-busy", "true");
  while (fetching) await new Promise((resolve) => setTimeout(resolve, 50)); // that look began before the click
  const answered = await look();
  pill.firstElementChild.removeAttribute("aria-busy");
  if (!answered || !fresh) { announce(gettext("The server cannot be reached; the list is as it was. Try again.")); return; }
  pill.hidden = true;
  offered.clear();
  later.clear();
  [further, moved, older] = [0, false, false];
  carry(fresh);
  document.querySelector("[data-inbox]").replaceWith(fresh);
  document.dispatchEvent(new Event("listed"));
  tell(fresh);
  fresh.querySelector("h2").focus();
  fresh = null;
}

if (isInbox()) {
  document.querySelector("[data-pill] button").addEventListener("click", showFresh);
  document.addEventListener("listolder", () => { older = true; offer(); lookSoon(); });
  for (const left of ["pointerout", "focusout"]) document.addEventListener(left, () => { if (later.size || answers.length) requestAnimationFrame(settle); });
}

openInbox({
  look,
  page: isInbox(),
  resume: { maxAttempts: Infinity },
  onNews(message) {
    count(message.waiting);
    if (isInbox()) take(message);
  },
  onState(state) {
    if (isInbox()) setState(state);
  },
});
