/** The page of a work order or a thread, or the one that is open beside the inbox: news from the socket, HTML from the page. */

import * as card from "./card.js";
import * as chat from "./chat.js";
import { gettext } from "./language.js";
import { announce, setState as tellState, tellNotices } from "./page.js";
import * as presence from "./presence.js";
import { openStream } from "./run-stream.js";
import { stamp, tell } from "./time.js";
import * as words from "./words.js";

const PAUSE = 120; // events come in bursts: one fetch for all of them; where many watch the server names a longer time
const GATHERING = 5_000; // what child runs do is told on threads of their own; this page listens to one
const OURS = 15_000; // an answer that comes so soon after one was sent here is that one
const BROUGHT_WITHIN = 3_000; // behind an event, where the server brings the page
let root = null, isWhole = true; // whether it is the page itself, with the address and the state of the connection
let stream = null, timer = 0, lookedAt = 0, fetching = false, again = false;
let brought = false, waited = 0; // whether the server brings what changed while the order works, as it does for all who watch
const setState = (state) => { if (isWhole) tellState(state); };

/** Rows that came since the version that was had: at the end of a log, before all others of a timeline. */
function addNews(fresh) {
  for (const news of fresh.querySelectorAll("[data-news]")) {
    const list = root.querySelector(`[data-live="${news.dataset.news}"]`);
    if (!list) continue;
    list.querySelector("[data-none]")?.remove();
    const scroller = list.closest("[data-scroller]"), atEnd = scroller && isAtEnd(scroller);
    const rows = [...news.children].filter(({ id }) => !id || !document.getElementById(id));
    if (scroller) list.append(...rows);
    else list.prepend(...rows);
    if (atEnd) scroller.scrollTop = scroller.scrollHeight;
  }
}

const isAtEnd = ({ scrollTop, clientHeight, scrollHeight }) => scrollTop + clientHeight >= scrollHeight - 8;

/** Swap what changed between this page and another rendering of it. An unchanged card stays as it is: somebody may be typing in it. */
export function show(fresh) {
  tell(fresh); // so that equal parts compare equal
  addNews(fresh);
  for (const old of root.querySelectorAll("[data-live]")) {
    const next = fresh.querySelector(`[data-live="${old.dataset.live}"]`);
    if (!next) continue;
    keepOpen(old, next);
    if (isSame(old, next)) continue;
    const isCard = old.dataset.live === "card";
    const hadFocus = isCard && old.contains(document.activeElement);
    const typing = old.contains(document.activeElement) ? sameField(next, /** @type {any} */ (document.activeElement)) : null;
    if (isCard) letGo(old, next);
    else keepText(old, next);
    const scroller = old.closest("[data-scroller]");
    const atEnd = scroller && isAtEnd(scroller);
    old.replaceWith(next);
    if (atEnd) scroller.scrollTop = scroller.scrollHeight;
    card.mount(next);
    if (isCard) {
      card.settle(next);
      presence.stir();
      const heading = next.querySelector("h2");
      if (!heading) continue;
      announce([next.querySelector("[data-whose]"), heading].map((part) => part?.textContent.trim() ?? "").join(" ").trim());
      if (hadFocus) heading.focus();
    } else typing?.focus();
  }
  if (isWhole && fresh.dataset.page !== root.dataset.page) history.replaceState(null, "", fresh.dataset.page);
  Object.assign(root.dataset, { version: "" }, fresh.dataset);
  chat.shown(root);
  if (root.dataset.terminal === "true") end();
}

/** What a reader unfolded stays so. */
function keepOpen(old, next) {
  for (const one of old.querySelectorAll("details[data-fold][open]")) {
    const same = next.querySelector(`[data-fold="${CSS.escape(one.dataset.fold)}"]`);
    if (same) same.open = true;
  }
}

const sameField = (next, { id, name }) => (name ? next.querySelector(id ? `#${CSS.escape(id)}` : `textarea[name="${CSS.escape(name)}"]`) : null);

/** Words that wait to be sent move into the form that replaces theirs; where none does, they are shown as unsent. */
function keepText(old, next) {
  const gone = [];
  for (const typed of old.querySelectorAll("textarea")) {
    const field = sameField(next, typed);
    if (field && (!field.value || field.value === typed.defaultValue)) field.value = typed.value;
    else if (!field && !typed.readOnly) gone.push(typed.name);
  }
  for (const box of old.querySelectorAll("[data-keep]")) { // what was ticked or not stays so
    const same = next.querySelector(`[data-keep="${CSS.escape(box.dataset.keep)}"]`);
    if (same) same.checked = box.checked;
  }
  if (gone.length) card.letGo(words.typed(old).filter(({ name }) => gone.includes(name)));
}

/** A question that closed, or came anew, leaves what was typed for it. */
function letGo(old, next) {
  const article = old.querySelector("[data-pause]");
  if (!article || article.dataset.pause === next.querySelector("[data-pause]")?.dataset.pause) return;
  card.letGo(words.typed(article));
  words.dropDraft(article.dataset.pause);
}

/** A key that ends in `#` is a form that came back to who sent it: it is shown; what only looks again leaves it alone. */
const base = ({ dataset }) => dataset.key.replace(/#$/, "");
const isSame = (old, next) => (old.dataset.key ? !next.dataset.key?.endsWith("#") && base(old) === (next.dataset.key ?? "") : old.isEqualNode(next));

function refreshSoon() {
  if (root && !timer) timer = setTimeout(refresh, Math.max(PAUSE, lookedAt + Number(root.dataset.every ?? PAUSE) - Date.now()));
}

async function refresh() {
  timer = 0;
  if (fetching) { again = true; return; }
  fetching = true;
  lookedAt = Date.now();
  const page = root;
  try {
    const url = new URL(root.dataset.page, location.href); // it may choose a question already
    url.searchParams.set("live", root.querySelector("[data-pause]") ? "" : "work"); // which all who watch are shown alike
    const { version } = root.dataset; // of a page with a question: it is told what changed since
    const response = await fetch(url, { credentials: "same-origin", cache: "no-store", headers: version ? { "If-None-Match": `"${version}"` } : {} });
    if (response.ok && version !== root?.dataset.version) refreshSoon(); // an answer of one's own showed more
    else if (response.status === 304 && page === root) close(false);
    else if (response.ok || [403, 404].includes(response.status)) {
      const fresh = response.ok ? read(await response.text()) : null;
      if (page !== root) return;
      close(!fresh);
      if (fresh && !isOlder(fresh)) show(fresh);
      if (fresh && !brought && Number(fresh.dataset.seq) < stream?.cursor) refreshSoon(); // others were shown it a moment before
    }
  } catch { /* the connection's state says it; the next event or poll tries again */ } finally {
    fetching = false;
    if (again) { again = false; refreshSoon(); }
  }
}

/** Whether a page was made before the one that is shown: a request may overtake another. */
const isOlder = (fresh) => Number(fresh.dataset.seq) < Number(root.dataset.seq);

/** What a person may no longer see, or asks for without being logged in, is not answered here. What was typed can still be copied. */
function close(lost) {
  const bar = root.querySelector(".answering");
  if (bar) bar.inert = lost;
  root.querySelector("[data-closed]")?.remove();
  if (!lost) return;
  const told = Object.assign(document.createElement("p"), { className: "notice error", textContent: gettext("Nothing can be answered here any more: you are logged out, or this is no longer yours to see. What you typed is still here to be copied.") });
  told.dataset.closed = "";
  root.querySelector('[data-live="card"]').before(told);
  announce(told.textContent);
}

export const read = (html) => new DOMParser().parseFromString(html, "text/html").querySelector("[data-page]");

/** What a step says while it works; gone when it is done, since its result is in the page. */
function output({ event, data }) {
  const box = document.querySelector("[data-output]");
  if (!box) return;
  const text = box.querySelector("pre");
  if (event === "streaming_chunk") {
    const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
    text.append(data.content);
    if (atEnd) text.scrollTop = text.scrollHeight;
  } else if (event !== "log") text.textContent = "";
  box.hidden = !text.textContent;
}

/** A card that was answered elsewhere goes; a line says who answered it and how. */
function tellAnswer({ data, at }) {
  if (Date.now() - card.sentAt() < OURS) return;
  const told = { by: data.by, when: stamp(Date.parse(at)), answer: data.decision };
  const words = {
    approve: () => gettext("%(by)s approved at %(when)s.", told),
    revise: () => gettext("%(by)s asked for a revision at %(when)s.", told),
    cancel: () => gettext("%(by)s cancelled at %(when)s.", told),
    answer: () => gettext("%(by)s answered at %(when)s.", told),
  }[data.decision]?.() ?? gettext("%(by)s answered “%(answer)s” at %(when)s.", told);
  const line = document.querySelector("[data-answered]");
  line.textContent = words;
  line.hidden = false;
  announce(words);
}

/** What changed of an order at work, "" before anything did; null where the page is this person's own and is fetched. One or the other comes behind each event. */
function onWork(html) {
  clearTimeout(waited);
  waited = 0;
  brought = true;
  if (html === "") return;
  const fresh = html === null ? null : read(html);
  if (!fresh || root.querySelector("[data-pause]")) { refreshSoon(); return; }
  if (isOlder(fresh)) return; // an answer of one's own showed more
  for (const field of fresh.querySelectorAll("[name=csrfmiddlewaretoken]")) field.value = csrf();
  show(fresh);
}

/** How far a step is, in its bar; a bar that is not on the page yet comes with the next look at it. */
function onProgress({ run_id, progress }) {
  const line = root.querySelector(`[data-progress="${CSS.escape(run_id)}"]`);
  if (!line) return;
  line.hidden = !progress;
  if (!progress) return;
  const bar = line.querySelector("progress"), number = (value) => (Math.round(value * 10) / 10).toLocaleString(document.documentElement.lang);
  if (progress.of) [bar.max, bar.value] = [progress.of, progress.done];
  else bar.removeAttribute("value");
  const words = { done: number(progress.done), of: number(progress.of ?? 0), unit: progress.unit };
  line.querySelector("span").textContent = (progress.of ? gettext("%(done)s of %(of)s %(unit)s", words) : gettext("%(done)s %(unit)s", words)).trim();
}

/** Behind an event the page is brought, or fetched. */
function look() {
  if (!brought) refreshSoon();
  else if (!waited) waited = setTimeout(() => { waited = 0; brought = false; refreshSoon(); }, BROUGHT_WITHIN);
}

function onEvent(event) {
  output(event);
  chat.take(event);
  if (event.event === "approval_received" && !event.imported) tellAnswer(event);
  if (!chat.SPOKEN.has(event.event)) look();
}

function onState(state) {
  setState(state);
  if (state !== "live") brought = false;
  chat.tellState(root, state);
  if (state === "live" || state === "polling") presence.stir();
}

function end() {
  stream?.close();
  setState("ended");
}

const csrf = () => document.querySelector("[name=csrfmiddlewaretoken]")?.value ?? "";

function start() {
  if (root.dataset.terminal === "true") return;
  const { thread, seq } = root.dataset;
  stream = openStream({ thread, after: Number(seq), resume: { maxAttempts: Infinity }, onEvent, onState, csrf, onClosed: refreshSoon, onPresence: presence.stir, onProgress, onWork: root.dataset.order ? onWork : undefined });
  presence.start(stream);
}

/**
 * After an answer: show the page that the server sent, with its problem if there is one. False if it sent no such page. The focus goes to what
 * is to be put right, else to the line that says what came of it, else to where it was.
 */
function showAnswer(html, submitter) {
  const fresh = read(html);
  if (!fresh) return false;
  root.querySelector("[data-problem]")?.remove();
  const problem = fresh.querySelector("[data-problem]");
  if (isOlder(fresh)) refreshSoon();
  if (problem || !isOlder(fresh)) show(fresh);
  const ground = root.querySelector('[data-live="card"]');
  if (problem) ground.before(problem);
  const line = tellNotices(html);
  const wrong = problem && root.querySelector('[data-pause] :is([aria-invalid="true"]:not(fieldset), fieldset[aria-invalid="true"] input)');
  const same = submitter?.name && ground.querySelector(`button[name="${CSS.escape(submitter.name)}"][value="${CSS.escape(submitter.value)}"]`);
  (wrong || problem || line || same || ground.querySelector("h2"))?.focus();
  if (line) announce(line.textContent);
  return true;
}

/** Follow a page; with `whole: false` one that stands beside the inbox. */
export function open(page, { whole = true } = {}) {
  [root, isWhole] = [page, whole];
  const scroller = root.querySelector("[data-scroller]");
  if (scroller) scroller.scrollTop = scroller.scrollHeight;
  words.begin(root);
  card.mount(root);
  card.onAnswer(showAnswer);
  chat.mount(root, showAnswer);
  start();
}

/** Follow it no longer. What is typed in a field of its question is a draft; what is typed beside it is kept as unsent. */
export function leave() {
  if (!root) return;
  stream?.close();
  for (const one of [timer, waited]) clearTimeout(one);
  const article = root.querySelector("[data-pause]");
  if (article) words.saveDraft(article);
  words.keep(words.typed(root, article));
  [root, stream, timer, waited, lookedAt, brought, again] = [null, null, 0, 0, 0, false, false];
}

const page = document.querySelector("[data-page]");
if (page) open(page);
setInterval(() => { if (root?.dataset.gathers === "true" && !document.hidden) refreshSoon(); }, GATHERING);
