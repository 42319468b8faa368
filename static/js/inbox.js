/** The badge on every page, and the inbox itself: rows never move under the pointer, new ones wait behind a pill. */

import { connect } from "./live.js";
import { announce, setState, setWaiting } from "./page.js";
import { tell } from "./time.js";

const PAUSE = 150;
const isInbox = () => document.querySelector("[data-inbox]") !== null;
const rowsOf = (root) => new Map([...root.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row]));
let timer = 0, fresh = null, wasDown = false, fetching = false, again = false;

async function look() {
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const response = await fetch(`/?live${location.search.replace("?", "&")}`, { credentials: "same-origin" });
    if (response.ok && !response.redirected) compare(new DOMParser().parseFromString(await response.text(), "text/html").querySelector("[data-inbox]"));
  } catch { /* the connection's state says it */ } finally {
    fetching = false;
    if (again) { again = false; lookSoon(); }
  }
}

function lookSoon() {
  clearTimeout(timer);
  timer = setTimeout(look, PAUSE);
}

/** Grey what was answered elsewhere, and offer what is new. */
function compare(next) {
  if (!next) return;
  fresh = next;
  const here = rowsOf(document), there = rowsOf(next);
  for (const [id, row] of here) {
    if (there.has(id) || row.classList.contains("gone")) continue;
    row.classList.add("gone");
    row.querySelector(".button").textContent = "Answered";
  }
  const count = [...there.keys()].filter((id) => !here.has(id)).length;
  const pill = document.querySelector("[data-pill]");
  pill.hidden = count === 0;
  pill.firstElementChild.textContent = `${count} new — show`;
  if (count) announce(`${count} new in the inbox`);
}

function showFresh() {
  document.querySelector("[data-pill]").hidden = true;
  document.querySelector("[data-inbox]").replaceWith(fresh);
  tell(fresh);
  fresh.querySelector("h2").focus();
}

if (isInbox()) document.querySelector("[data-pill] button").addEventListener("click", showFresh);

connect(() => "/ws/inbox", {
  onMessage(message) {
    if (message.type !== "inbox" || !Number.isInteger(message.waiting)) return;
    setWaiting(message.waiting);
    if (isInbox()) lookSoon();
  },
  onState(state) {
    if (isInbox()) setState(state);
    if (state === "live" && wasDown && isInbox()) lookSoon();
    wasDown = state !== "live";
  },
});
