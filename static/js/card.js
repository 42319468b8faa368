/** The pause card: reading, revising, cancelling and sending an answer. Without this file it is plain forms and links. */

import { announce, keysAreOn } from "./page.js";

let showAnswer = () => false, lastSent = 0;
/** When an answer was last sent from this page. */
export const sentAt = () => lastSent;
/** One is being sent from another form of this page. */
export const noteSent = () => { lastSent = Date.now(); };
/** `show(html)` shows the page that answered a decision and tells whether it was one. */
export const onAnswer = (show) => { showAnswer = show; };

const draftKey = (node) => `draft:${node.closest("[data-run]").dataset.run}`; // each run that asks has its own words
const find = (name) => document.querySelector(`[data-${name}]`);

/** Bring what is inside `root` to life. */
export function mount(root) {
  for (const form of root.querySelectorAll("[data-decide]")) form.addEventListener("submit", send);
  for (const form of root.querySelectorAll("[data-once]")) form.addEventListener("submit", ({ submitter }) => setTimeout(() => busy(submitter)));
  const doc = root.querySelector("[data-clamp]");
  if (doc) fold(doc, root.querySelector("[data-more]"));
  const revise = root.querySelector("[data-revise]");
  if (revise) mountRevision(revise, root.querySelector(".revision textarea"));
  const dialog = root.querySelector("[data-confirm]");
  if (!dialog) return;
  root.querySelector("[data-cancel]").addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    dialog.showModal();
  });
  dialog.querySelector("[data-back]").addEventListener("click", () => dialog.close());
}

function fold(doc, button) {
  if (doc.scrollHeight <= doc.clientHeight + 24) { doc.classList.add("whole"); return; }
  const set = (whole) => {
    doc.classList.toggle("whole", whole);
    doc.classList.toggle("clamped", !whole);
    button.textContent = whole ? "Show Less" : "Show More";
    button.setAttribute("aria-expanded", String(whole));
  };
  doc.addEventListener("focusin", () => set(true)); // a link in the folded part
  button.addEventListener("click", () => {
    const whole = doc.classList.contains("whole");
    set(!whole);
    if (whole) doc.scrollIntoView({ block: "nearest" });
  });
  button.hidden = false;
  set(false);
}

function mountRevision(button, textarea) {
  const panel = textarea.form;
  const set = (open) => { panel.classList.toggle("open", open); button.setAttribute("aria-expanded", String(open)); };
  button.setAttribute("role", "button");
  button.setAttribute("aria-controls", panel.id);
  set(panel.classList.contains("open"));
  const toggle = (event) => {
    event.preventDefault();
    set(!panel.classList.contains("open"));
    if (!panel.classList.contains("open")) return;
    textarea.focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest" });
  };
  button.addEventListener("click", toggle);
  button.addEventListener("keydown", (event) => event.key === " " && toggle(event));
  textarea.value ||= sessionStorage.getItem(draftKey(textarea)) ?? "";
  textarea.addEventListener("input", () => sessionStorage.setItem(draftKey(textarea), textarea.value));
  textarea.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) panel.requestSubmit(panel.querySelector(".submit"));
    if (event.key === "Escape") { set(false); button.focus(); }
  });
}

/** Send an answer and show what the server says; if it cannot be reached, say so and keep everything. */
async function send(event) {
  event.preventDefault();
  const form = event.currentTarget; // form.action would be the button of that name
  if (form.closest("[aria-busy=true]")) return;
  const article = form.closest("[data-pause]");
  const body = new URLSearchParams(new FormData(form, event.submitter)); // before anything is disabled
  const key = draftKey(form);
  const free = busy(event.submitter, article);
  let answered = false, sent = false;
  lastSent = Date.now();
  try {
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, credentials: "same-origin" });
    sent = true;
    if (response.ok) sessionStorage.removeItem(key);
    answered = showAnswer(await response.text());
  } catch { /* told below */ }
  free();
  find("confirm")?.close();
  if (!answered) tellLost(article, sent);
}

function tellLost(article, sent) {
  article.querySelector(".lost")?.remove();
  const line = document.createElement("p");
  line.className = "notice error lost";
  line.textContent = sent
    ? "The server did not take the answer: you may be logged out. Your text is kept; reload the page and answer again."
    : "The server could not be reached, so it is not known whether your answer arrived. Your text is kept; answer again, it counts only once.";
  article.querySelector(".bar").prepend(line);
  announce(line.textContent);
}

/** Spinner on the pressed button, the others off; returns the way back. */
function busy(button, article = button.form) {
  const others = [...article.querySelectorAll("button")].filter((one) => !one.disabled);
  button.setAttribute("aria-busy", "true");
  article.setAttribute("aria-busy", "true");
  for (const one of others) one.disabled = true;
  return () => {
    for (const one of others) one.disabled = false;
    button.removeAttribute("aria-busy");
    article.removeAttribute("aria-busy");
  };
}

const isOnScreen = (node) => {
  const { top, bottom } = node.getBoundingClientRect();
  return top >= 0 && bottom <= window.innerHeight;
};

/** A approves; a button that was off screen is shown first and asks again. */
function approve(button) {
  const label = button.querySelector("[data-label]");
  if (isOnScreen(button)) { button.click(); return; }
  button.scrollIntoView({ block: "center" });
  button.focus({ preventScroll: true });
  const words = label.dataset.words ??= label.textContent;
  label.textContent = `${words}?`;
  announce(`${words}? Press A again.`);
  setTimeout(() => { label.textContent = words; }, 4_000);
}

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !keysAreOn()) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog, [popover]") || document.querySelector("dialog[open]")) return;
  const button = { a: find("approve"), r: find("revise"), x: find("cancel") }[event.key.toLowerCase()];
  if (!button || button.disabled) return;
  event.preventDefault();
  if (button.matches("[data-approve]")) approve(button);
  else button.click();
});
