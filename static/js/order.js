/** The page of a work order: news from the socket, HTML from the page. */

import * as card from "./card.js";
import { poll, watch } from "./live.js";
import { announce, setState } from "./page.js";
import { tell } from "./time.js";

const PAUSE = 120; // events come in bursts: one fetch for all of them
const root = document.querySelector("[data-order]");
let stopWatch = () => {}, stopPoll = null, timer = 0, fetching = false, again = false;

/** Swap what changed between this page and another rendering of it. An unchanged card stays as it is: somebody may be typing in it. */
function show(fresh) {
  tell(fresh); // so that equal parts compare equal
  for (const old of root.querySelectorAll("[data-live]")) {
    const next = fresh.querySelector(`[data-live="${old.dataset.live}"]`);
    if (!next || isSame(old, next)) continue;
    const isCard = old.dataset.live === "card";
    const hadFocus = isCard && old.contains(document.activeElement);
    const scroller = old.closest("[data-scroller]");
    const atEnd = scroller && scroller.scrollTop + scroller.clientHeight >= scroller.scrollHeight - 8;
    old.replaceWith(next);
    if (atEnd) scroller.scrollTop = scroller.scrollHeight;
    if (isCard) {
      card.mount(next);
      const heading = next.querySelector("h2");
      announce(heading.textContent.trim());
      if (hadFocus) heading.focus();
    }
  }
  Object.assign(root.dataset, { seq: fresh.dataset.seq, terminal: fresh.dataset.terminal });
  if (root.dataset.terminal === "true") end();
}

const isSame = (old, next) => (old.dataset.key ? old.dataset.key === next.dataset.key : old.isEqualNode(next));

function refreshSoon() {
  clearTimeout(timer);
  timer = setTimeout(refresh, PAUSE);
}

async function refresh() {
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const response = await fetch(`${root.dataset.page}?live`, { credentials: "same-origin" });
    if (response.ok) {
      const fresh = read(await response.text());
      if (fresh) show(fresh);
    }
  } catch { /* the connection's state says it; the next event or poll tries again */ } finally {
    fetching = false;
    if (again) { again = false; refreshSoon(); }
  }
}

const read = (html) => new DOMParser().parseFromString(html, "text/html").querySelector("[data-order]");

function onState(state) {
  if (state === "live") {
    stopPoll?.();
    stopPoll = null;
    setState("live");
  } else if (state === "reconnecting") {
    if (stopPoll) return; // its own answers say how it stands
    setState("reconnecting");
    const url = `/api/v1/work-orders/${root.dataset.order}/pause-state`;
    stopPoll = poll(url, { onNews: refreshSoon, onAnswer: (ok) => setState(ok ? "polling" : "reconnecting") });
  } else {
    end();
  }
}

function end() {
  stopWatch();
  stopPoll?.();
  stopPoll = null;
  setState("ended");
}

function start() {
  if (root.dataset.terminal === "true") return;
  stopWatch = watch(root.dataset.thread, Number(root.dataset.seq), {
    onEvent: ({ event }) => event === "streaming_chunk" || refreshSoon(),
    onState,
  });
}

/** After an answer: show the page that the server sent, with its problem if there is one. False if it sent no such page. */
function showAnswer(html) {
  const fresh = read(html);
  if (!fresh) return false;
  root.querySelector("[data-problem]")?.remove();
  const problem = fresh.querySelector("[data-problem]");
  show(fresh);
  if (problem) {
    root.querySelector('[data-live="card"]').before(problem);
    problem.focus();
  }
  return true;
}

const scroller = document.querySelector("[data-scroller]");
scroller.scrollTop = scroller.scrollHeight;
card.mount(root);
card.onAnswer(showAnswer);
start();
