/**
 * The keys of all pages: the one table of them, the one place that hears them, and the two seconds in which a decision by a single key can be taken
 * back. A single key acts where the focus is on the page itself or on a row, and nowhere else. Without this file there are buttons and links.
 */

import { gettext } from "./language.js";
import { announce } from "./page.js";

/**
 * Parts of pages, their names, and of each key what it does. Keys are written as `nameOf` gives them; where a line of the list stands for several,
 * or is shown otherwise, these follow.
 * @type {[string, string, [string, string, string[]?][]][]}
 */
export const KEYS = [
  [gettext("Inbox"), "[data-inbox]", [["J K", gettext("Next and previous question"), ["J", "K"]], ["Shift J", gettext("Select on the way"), ["Shift+J", "Shift+K"]], ["X", gettext("Select the question")], ["A", gettext("Approve the question, or answer what is selected")], ["R", gettext("Ask for a revision")], ["Enter", gettext("Open the question, and go to it")]]],
  [gettext("Question"), "[data-pause]", [["A", gettext("Approve")], ["R", gettext("Revise")], ["X", gettext("Cancel")], ["] [", gettext("Next and previous file of a patch that you have not seen"), ["]", "["]], ["Ctrl Enter", gettext("Send what you are typing"), ["Ctrl+Enter"]]]],
  [gettext("From question to question"), "[data-next]", [["N", gettext("Next question, without an answer")], ["Shift N", gettext("Previous question"), ["Shift+N"]]]],
  [gettext("Everywhere"), "body", [["Ctrl K", gettext("Find a page or an action"), ["Ctrl+K"]], ["G I", gettext("Go to the inbox; G O to the work orders, G T to the threads, G H to the history"), ["G", "G I", "G O", "G T", "G H"]], ["?", gettext("This list")], ["Esc", gettext("Take back what a key is about to send; close"), ["Escape"]]]],
];
const SOON = 1_500; // after G, for the place to go to
const WAIT = 2_000; // before a decision by a single key is sent
const AGAIN = new Set(["J", "K", "Shift+J", "Shift+K"]); // move: held down they go on, and what waits to be sent goes on waiting
const SCROLLS = /^(Arrow|Page|Home$|End$)/, HELD = /^(Shift|Control|Alt|AltGraph|Meta|CapsLock)$/;
const ROW = "[data-row] .main-link, [data-row] input[type=checkbox], .pager [rel=next]"; // where J and K go, and the row's own box
const PAGE = "html, body, main, [tabindex='-1']:not(a, button, input, select, textarea, summary)"; // a heading or a line that the page gave the focus
const listed = new Set(KEYS.flatMap(([, , keys]) => keys.flatMap(([shown, , names]) => names ?? [shown])));
/** @type {Map<string, ((event: KeyboardEvent & { target: any }) => unknown)[]>} */
const acts = new Map();
/** @type {Map<any, { key: string, line: HTMLElement, timer: number }>} Buttons that keys are about to press. */
const waiting = new Map();
let since = -SOON;

/** Let keys of the table act. What gives `false` had nothing to do, and leaves the key to what was bound to it later, and to the browser. */
export function bind(made) {
  for (const [name, act] of Object.entries(made)) {
    if (!listed.has(name)) throw new Error(`${name} stands in no line of KEYS`);
    acts.set(name, [...(acts.get(name) ?? []), act]);
  }
}

function nameOf({ key, shiftKey, ctrlKey, metaKey, altKey }) {
  const letter = /^\p{L}$/u.test(key);
  if (altKey && !letter && key.length === 1) return key; // many keyboards make brackets so
  return `${ctrlKey || metaKey ? "Ctrl+" : ""}${altKey ? "Alt+" : ""}${shiftKey && (letter || key.length > 1) ? "Shift+" : ""}${letter ? key.toUpperCase() : key}`;
}

/** What a reader hears of a button or a link, without its key. */
export function labelOf(node) {
  const label = node.getAttribute("aria-label");
  if (label) return label;
  const copy = node.cloneNode(true);
  for (const part of copy.querySelectorAll("kbd, .brief, [aria-hidden=true]")) part.remove();
  return copy.textContent.replace(/\s+/g, " ").trim();
}

const isOpen = () => document.querySelector("dialog[open], :popover-open") !== null;
const isForThePage = ({ target }) => !document.body.matches(".no-keys") && target.matches(`:is(${PAGE}), :is(${ROW})`) && !isOpen();

document.addEventListener("keydown", (event) => {
  if (event.isComposing || HELD.test(event.key)) return;
  const alone = nameOf(event), after = event.timeStamp - since < SOON, name = after && alone !== "G" ? `G ${alone}` : alone;
  if (takesBack(alone) && takeBack() && alone === "Escape") { event.preventDefault(); return; }
  const single = !name.startsWith("Ctrl+");
  since = name === "G" && isForThePage(event) ? event.timeStamp : -SOON;
  if (!acts.has(name) || (event.repeat && !AGAIN.has(name)) || (single && !isForThePage(event))) return;
  if (acts.get(name).some((act) => act(/** @type {any} */ (event)) !== false)) event.preventDefault();
}, { capture: true });

/** Ctrl+Enter sends what its field, or what the field stands in, says that it belongs to: an answer by name, or its own form. */
function sendTyped({ target }) {
  if (!target.matches("textarea, select, input")) return false;
  const place = target.closest("[data-send-keys]"), answer = place?.dataset.sendKeys;
  if (!place && !target.closest("[data-pause]")) return false;
  const button = answer ? [...target.form.elements].find((one) => one.name === "action" && one.value === answer) : null;
  if (!place || (answer && !button)) announce(gettext("Ctrl+Enter sends nothing here: choose the answer by its button."));
  else if (!button?.disabled) target.form.requestSubmit(button);
  return true;
}

bind({ "Ctrl+Enter": sendTyped });

/** Whether a key means something else than to let go on what waits to be sent: to move leaves the rows that wait, and takes the card away. */
const takesBack = (name) => !(AGAIN.has(name) && [...waiting.keys()].every((button) => button.closest("[data-row]"))) && !SCROLLS.test(name) && ![...waiting.values()].some(({ key }) => key === name);

/**
 * Press a button two seconds from now: a line says so until then. Escape takes it back, and so does all that shows that the reader means something
 * else: another key, a click, leaving the page; or that the button is no longer the one that was looked at.
 */
export function pressSoon(button, key) {
  if (waiting.has(button)) return;
  const line = document.createElement("p"), began = Date.now();
  line.textContent = gettext("%(answer)s: sent in 2 s. Esc takes it back.", { answer: labelOf(button) });
  document.querySelector("[data-will]").append(line);
  const timer = setTimeout(() => {
    if (!isAsItWas(button) || isOpen() || Date.now() - began > 2 * WAIT) { takeBack([button], CHANGED); return; } // or the machine slept
    if (button.closest("[inert]")) { takeBack([button], UNKNOWN); return; }
    forget(button).line.remove();
    button.click();
  }, WAIT);
  waiting.set(button, { key, line, timer });
  changes.observe(document.body, { subtree: true, childList: true, attributeFilter: ["disabled"] });
  addEventListener("beforeunload", leave);
}

const CHANGED = gettext("Not sent: what was asked has changed. Look at it again.");
const UNKNOWN = gettext("Not sent: the server has not said yet whether this is still asked. Try again.");
const isAsItWas = (button) => button.isConnected && !button.disabled;
const changes = new MutationObserver(() => takeBack([...waiting.keys()].filter((button) => !isAsItWas(button)), CHANGED));

function forget(button) {
  const one = waiting.get(button);
  clearTimeout(one.timer);
  waiting.delete(button);
  if (!waiting.size) { changes.disconnect(); removeEventListener("beforeunload", leave); }
  return one;
}

/** Tells whether there was anything to take back. */
function takeBack(buttons = [...waiting.keys()], words = gettext("Taken back: nothing was sent.")) {
  for (const button of buttons) {
    const { line } = forget(button);
    line.className = "over";
    line.textContent = words;
    setTimeout(() => line.remove(), 2 * WAIT);
  }
  return buttons.length > 0;
}

const leave = () => { takeBack(); };
for (const name of ["pointerdown", "click"]) document.addEventListener(name, ({ isTrusted }) => isTrusted && leave(), { capture: true });
document.addEventListener("visibilitychange", () => document.hidden && leave());
addEventListener("pagehide", leave);
