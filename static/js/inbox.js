/** The badge on every page, and the inbox itself: rows never move under the pointer, new ones wait behind a pill. */

import { announce, notify, setState, setWaiting } from "./page.js";
import { openInbox } from "./run-stream.js";
import { tell } from "./time.js";

const PAUSE = 150; // between two looks; the first is at once
const isInbox = () => document.querySelector("[data-inbox]") !== null;
const rowsOf = (root) => new Map([...root.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
let timer = 0, lookedAt = 0, fresh = null, wasDown = false, fetching = false, again = false, waiting = null;

/** Fetch the inbox as it is now; tells whether the server answered. */
async function look() {
  if (fetching) { again = true; return true; }
  fetching = true;
  lookedAt = Date.now();
  try {
    const response = await fetch(isInbox() ? `/?live${location.search.replace("?", "&")}` : "/?live", { credentials: "same-origin" });
    if (!response.ok || response.redirected) return false;
    const next = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-inbox]");
    if (next) count(Number(next.dataset.inbox));
    if (isInbox()) compare(next);
    return true;
  } catch {
    return false;
  } finally {
    fetching = false;
    if (again) { again = false; lookSoon(); }
  }
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

/** What was answered elsewhere says by whom and has no button any more; what is new is offered. */
function compare(next) {
  if (!next) return;
  fresh = next;
  const here = rowsOf(document), there = rowsOf(next);
  for (const [id, row] of here) {
    if (there.has(id) || row.classList.contains("gone")) continue;
    row.classList.add("gone");
    const box = row.querySelector("input");
    if (box) box.disabled = true; // it can no longer be answered with others; its place stays, so that the words do not move
    row.querySelector(".button").replaceWith(verdict(next.querySelector(`[data-of="${id}"]`)));
  }
  const news = [...there.keys()].filter((id) => !here.has(id)).length;
  const pill = document.querySelector("[data-pill]"), words = `${news} new — show`;
  pill.hidden = news === 0;
  if (news && pill.firstElementChild.textContent !== words) announce(`${news} new in the inbox`);
  pill.firstElementChild.textContent = words;
}

/** Who answered, how and when; `entry` is the decision in the history, missing where the run ended without one. */
function verdict(entry) {
  const line = document.createElement("span");
  line.className = "by";
  if (entry) line.append(entry.querySelector(".verdict").textContent.trim(), " · ", ...entry.querySelector(".by").cloneNode(true).childNodes);
  else line.textContent = "No longer waits for you";
  return line;
}

function showFresh() {
  document.querySelector("[data-pill]").hidden = true;
  document.querySelector("[data-inbox]").replaceWith(fresh);
  tell(fresh);
  fresh.querySelector("h2").focus();
}

if (isInbox()) document.querySelector("[data-pill] button").addEventListener("click", showFresh);

openInbox({
  look,
  resume: { maxAttempts: Infinity },
  onCount(now) {
    count(now);
    if (isInbox()) lookSoon();
  },
  onState(state) {
    if (isInbox()) setState(state);
    if (state === "live" && wasDown && isInbox()) lookSoon();
    wasDown = state !== "live";
  },
});
