/**
 * The conversation of a thread: what a step says while it works, its tools' cards, and its forms. Without this file these are plain forms and a
 * list. Words of a model come here as text and are put in as text; as HTML they come from the page alone, where the server has cleaned them.
 */

import { asksFirst, noteSent } from "./card.js";
import { gettext } from "./language.js";
import { announce, tell } from "./page.js";
import { saveCheckpoint, savedCheckpoint } from "./run-stream.js";

/** Events that are shown at once, without asking for the page. */
export const SPOKEN = new Set(["streaming_chunk", "tool_call_started", "tool_call_completed"]);
const LONGEST = 10_000;
const STATUSES = { done: gettext("Done"), failed: gettext("Failed"), rejected: gettext("Rejected"), answered: gettext("Answered by a person"), running: gettext("Running") };
const NEAR = 120;

/** @type {(html: string) => boolean} */
let showPage = () => false;
/** @type {import("./run-stream.js").LiveEvent[]} Events that came after what the page shows. */
let later = [];
let box = null;

/** An event of a step at work. */
export function take(event) {
  if (!box || !SPOKEN.has(event.event)) return;
  later.push(event);
  apply(event);
}

/** The page was swapped: what it does not hold yet is put in again, so that nothing is lost and nothing is seen twice. */
export function shown(root) {
  const next = root.querySelector('[data-live="stream"]');
  if (!next) return;
  later = later.filter(({ seq }) => seq > Number(next.dataset.upTo));
  if (next !== box) {
    box = next;
    later.forEach(apply);
  }
  if (root.dataset.waits !== "true") root.querySelector("[data-banner]")?.remove();
  enliven(root);
  remember(root);
}

function apply({ event, data, seq }) {
  if (seq <= Number(box.dataset.upTo)) return;
  const follows = isNearEnd();
  if (event === "streaming_chunk") {
    box.querySelector("[data-text]").append(data.content ?? "");
    if (data.thinking) think(data.thinking);
  }
  else fill(cardOf(data), event, data);
  box.hidden = false;
  if (follows) box.scrollIntoView({ block: "end" });
}

/** What a model thinks aloud stands apart from what it says, closed until somebody opens it. */
function think(words) {
  const thinking = box.querySelector("[data-thinking]");
  thinking.querySelector("[data-thoughts]").append(words);
  thinking.hidden = false;
}

const isNearEnd = () => !box.hidden && Math.abs(box.getBoundingClientRect().bottom - window.innerHeight) < NEAR;

function cardOf({ id }) {
  const cards = box.querySelector("[data-cards]");
  const known = [...cards.querySelectorAll(":scope > [data-call]")].find((one) => one.dataset.call === String(id));
  if (known) return known;
  const made = document.querySelector("[data-card-template]").firstElementChild.cloneNode(true);
  made.dataset.call = String(id);
  made.dataset.fold = `call-${id}`;
  cards.append(made);
  return made;
}

function fill(card, event, data) {
  const put = (name, text) => { card.querySelector(`[data-${name}]`).textContent = text; };
  const status = event === "tool_call_started" ? "running" : String(data.status ?? "done");
  put("tool", data.tool);
  put("status", STATUSES[status] ?? status);
  card.querySelector("[data-status]").className = `call-status ${status in STATUSES ? status : ""}`;
  if (data.arguments !== undefined) put("arguments", cut(JSON.stringify(data.arguments, null, 2)));
  if (event === "tool_call_started") return;
  put("result", cut(typeof data.result === "string" ? data.result : JSON.stringify(data.result ?? "")));
  card.querySelector("[data-has-result]").hidden = !card.querySelector("[data-result]").textContent;
  put("took", Number.isFinite(data.ms) ? (data.ms < 1_000 ? `${data.ms} ms` : `${(data.ms / 1_000).toFixed(1)} s`) : "");
}

const cut = (text) => (text.length <= LONGEST ? text : `${text.slice(0, LONGEST / 2)}\n...[truncated]...\n${text.slice(-LONGEST / 2)}`);

/** A connection that is lost while a run works: the run does not mind, and the reader is told so. */
export function tellState(root, state) {
  const line = root.querySelector("[data-lost]");
  if (line) line.hidden = !((state === "reconnecting" || state === "unavailable") && root.dataset.busy === "true");
}

/** What this browser remembers of the thread is brought up to date; the server knows better. */
function remember({ dataset: { thread, saved } }) {
  if (!saved) return;
  const now = JSON.parse(saved), before = savedCheckpoint(thread);
  if (!before || before.seq < now.seq) saveCheckpoint(thread, now);
}

const AUTO_RESUME = "auto_resume";

/** Whether this browser resumes what waits as soon as it is opened: only where its user has chosen so. */
function resumesByItself() {
  try {
    return localStorage.getItem(AUTO_RESUME) === "on";
  } catch { // forbidden
    return false;
  }
}

function offerAutoResume(root) {
  const choice = root.querySelector("[data-auto-resume]:not([data-enlivened])"), box = choice?.querySelector("input");
  if (!box) return;
  choice.dataset.enlivened = "";
  choice.hidden = false;
  box.checked = resumesByItself();
  box.addEventListener("change", () => {
    try {
      localStorage.setItem(AUTO_RESUME, box.checked ? "on" : "off");
    } catch { // forbidden: the button is there
      box.checked = false;
    }
  });
}

/** `show(html)` shows the page that answered a form, and tells whether it was one. */
export function mount(root, show) {
  box = root.querySelector('[data-live="stream"]');
  later = [];
  if (!box) return;
  showPage = show;
  const before = savedCheckpoint(root.dataset.thread);
  const waits = before?.status === "pending_input" && root.dataset.waits === "true";
  if (waits && !root.closest("[data-pane]")) announce(gettext("Your previous session is waiting for input.")); // beside a list, what became of the last answer is being said
  enliven(root);
  remember(root);
  if (waits && resumesByItself()) root.querySelector("form[data-resume]")?.requestSubmit();
}

function enliven(root) {
  offerAutoResume(root);
  for (const form of root.querySelectorAll("form[data-chat]:not([data-enlivened])")) {
    form.dataset.enlivened = "";
    form.addEventListener("submit", send);
  }
}

/** Send a form and show the page that comes of it. Words that were not taken stay where they are. */
async function send(event) {
  event.preventDefault();
  const form = event.currentTarget;
  if (form.getAttribute("aria-busy") === "true") return;
  const body = new URLSearchParams(/** @type {any} */ (new FormData(form, event.submitter)));
  const typed = form.querySelector("textarea")?.value;
  form.setAttribute("aria-busy", "true");
  if (form.matches("[data-say]")) noteSent();
  try {
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, credentials: "same-origin" });
    const html = await response.text();
    if (asksFirst(html, () => forget(form, typed))) return;
    if (response.ok) forget(form, typed);
    if (!showPage(html)) throw new TypeError("no page of this thread");
    if (response.ok) arrived(form);
  } catch {
    tell("error", gettext("It is not known whether this arrived: the server could not be reached, or you may be logged out. Your text is kept; reload the page to see."));
  } finally {
    form.removeAttribute("aria-busy");
  }
}

/** Words that were taken are no draft any more, also where the page was swapped meanwhile. */
function forget(form, typed) {
  if (!form.matches("[data-say]")) form.closest("details")?.removeAttribute("open");
  else for (const field of document.querySelectorAll("[data-say] textarea")) if (field.value === typed) field.value = "";
}

/** Where the reader looks next: at the question that was resumed, or at the field for more words. */
function arrived(form) {
  if (form.matches("[data-resume]")) {
    form.closest("[data-banner]")?.remove();
    document.querySelector("#question")?.focus();
  } else if (form.matches("[data-say]")) document.querySelector("[data-say] textarea:enabled")?.focus();
}
