/** The pause card: reading, editing, revising, cancelling and sending an answer. Without this file it is plain forms and links. */

import { gettext, ngettext } from "./language.js";
import { bind, pressSoon } from "./keys.js";
import { mountLooks } from "./looks.js";
import { announce } from "./page.js";
import { mountKey } from "./factor.js";
import "./lines.js";
import { markLines, mountPatch } from "./patch.js";
import * as words from "./words.js";

/** @type {(html: string, submitter: HTMLElement) => boolean} */
let showAnswer = () => false;
let lastSent = 0, swapped = null;
/** When an answer was last sent from this page. */
export const sentAt = () => lastSent;
/** One is being sent from another form of this page. */
export const noteSent = () => { lastSent = Date.now(); };
/** `show(html, submitter)` shows the page that answered a form of the card, and tells whether it was one. */
export const onAnswer = (show) => { showAnswer = show; };
/** Words of a card that goes. While an answer is on its way it is not known yet whether they are in it. */
export const letGo = (found) => { if (swapped) swapped.push(...found); else words.keep(found); };

const find = (name) => document.querySelector(`[data-${name}]`);
const parse = (html) => new DOMParser().parseFromString(html, "text/html");

/** Bring what is inside `root` to life. */
export function mount(root) {
  for (const form of root.querySelectorAll("[data-decide]")) form.addEventListener("submit", send);
  for (const form of root.querySelectorAll("[data-once]")) form.addEventListener("submit", ({ submitter }) => setTimeout(() => busy(submitter)));
  const doc = root.querySelector("[data-clamp]"), looks = root.querySelector("[data-looks]");
  const foldOnce = () => { if (doc?.checkVisibility() && !doc.matches(".whole, .clamped")) fold(doc, root.querySelector("[data-more]")); };
  if (looks) mountLooks(looks, foldOnce);
  else foldOnce();
  const article = root.querySelector("[data-pause]");
  if (article) {
    words.restoreDraft(article);
    article.addEventListener("input", () => words.saveDraft(article));
    article.addEventListener("input", ({ target }) => {
      if (!target.closest("[data-edit], .call")) return;
      if (target.closest("[data-part]")) chooseEdit(target);
      showEdit();
    });
  }
  const bar = root.querySelector(".bar");
  if (bar) makeRoom.observe(bar);
  const revise = root.querySelector("[data-revise]");
  if (revise) mountRevision(revise, root.querySelector(".revision textarea"));
  root.querySelector("[data-reset]")?.addEventListener("click", reset);
  for (const button of root.querySelectorAll("[data-reset-call]")) button.addEventListener("click", resetCall);
  const patch = root.querySelector(".patch");
  if (patch) mountPatch(patch);
  else if (root.querySelector("[data-said-at]")) markLines(find("pause")?.querySelector(".patch"));
  showEdit();
  const dialog = root.querySelector("[data-confirm]");
  if (!dialog) return;
  root.querySelector("[data-cancel]").addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    dialog.querySelector("[data-unsaid]").hidden = !words.typed(dialog.closest("[data-pause]")).length;
    dialog.showModal();
  });
  dialog.querySelector("[data-back]").addEventListener("click", () => dialog.close());
}

const MOST = 0.6; // of the window; a higher bar stays where it stands
/** What is scrolled to comes to lie above the bar, which stays at the bottom of the window. */
const makeRoom = new ResizeObserver((entries) => {
  for (const { target } of entries) { if (target.isConnected) fit(/** @type {HTMLElement} */ (target)); else makeRoom.unobserve(target); }
});

function fit(target) {
  document.documentElement.style.setProperty("--bar", `${target.offsetHeight}px`);
  const { classList } = target.parentElement, before = classList.contains("tall"), inside = document.activeElement;
  if (classList.toggle("tall", target.offsetHeight > innerHeight * MOST) !== before && target.contains(inside)) inside.scrollIntoView({ block: "center" });
}

const SETTLES = 600; // longer than a double click, and than a hand that is on its way
/** What came in the place of something else takes no click at once: that was meant for what stood there before. */
export function settle(ground) {
  ground.classList.add("settling");
  setTimeout(() => ground.classList.remove("settling"), SETTLES);
}

/** How many lines one text has that the other has not, as `hitl.views.cards.typed` counts them. */
function changedLines(before, after) {
  const counts = new Map();
  for (const [text, sign] of [[before, -1], [after, 1]]) {
    for (const line of text.replaceAll("\r\n", "\n").split("\n")) if (line.trim()) counts.set(line, (counts.get(line) ?? 0) + sign);
  }
  const left = [...counts.values()], sum = (sign) => left.reduce((total, one) => total + Math.max(0, one * sign), 0);
  return Math.max(1, sum(1), sum(-1));
}

const withEdits = (count, edits) => ngettext("with %(edits)s edit", "with %(edits)s edits", count, { edits });
/** What the server puts behind a button's name where the page comes back with edits. */
const SUFFIX = new RegExp(`\\s+(?:${[1, 2].map((count) => withEdits(count, "\\d+")).join("|")})$`);

/** Whether the call is rejected, or answered in the tool's place. */
const isNotMade = (call) => Boolean(call.querySelector('[type="radio"]:is([value="reject"], [value="respond"]):checked'));

/** The main button says what it does: with the text and the arguments as they were asked, or as they were edited. */
function showEdit() {
  const field = find("edit")?.querySelector("textarea"), button = find("reset");
  let edits = field && words.isEdited(field) ? changedLines(words.beginning(field), field.value) : 0;
  if (button) button.hidden = !edits;
  for (const call of document.querySelectorAll(".call")) {
    const changed = [...call.querySelectorAll("[data-part] textarea")].filter(words.isEdited).length;
    if (!isNotMade(call)) edits += changed;
    const back = call.querySelector("[data-reset-call]");
    if (back) back.hidden = !changed;
  }
  for (const one of document.querySelectorAll("[data-goes-on] [data-label]")) {
    one.dataset.plain ??= one.textContent.replace(SUFFIX, "");
    const { plain } = one.dataset;
    one.textContent = edits ? `${plain} ${withEdits(edits, edits)}` : plain;
  }
}

/** Who edits an argument wants the call made so. */
function chooseEdit(field) {
  const call = field.closest(".call"), choice = call.querySelector('[type="radio"][value="edit"]');
  if (choice && words.isEdited(field) && !isNotMade(call)) choice.checked = true;
}

/** The arguments of a call as they were asked again; the button, which goes, gives the focus to them. */
function resetCall(event) {
  event.preventDefault();
  const call = event.currentTarget.closest(".call"), fields = [...call.querySelectorAll("[data-part] textarea")];
  for (const field of fields) field.value = words.beginning(field);
  const edit = call.querySelector('[type="radio"][value="edit"]');
  if (edit?.checked) edit.checked = false;
  fields[0].focus();
  fields[0].dispatchEvent(new Event("input", { bubbles: true }));
  announce(gettext("The arguments are as they were asked again."));
}

/** The text as it was asked again; the button, which goes, gives the focus to it. */
function reset(event) {
  event.preventDefault();
  const field = find("edit").querySelector("textarea");
  field.value = words.beginning(field);
  find("edit").open = true;
  field.focus();
  field.dispatchEvent(new Event("input", { bubbles: true }));
  announce(gettext("The text is as it was asked again."));
}

function fold(doc, button) {
  if (doc.scrollHeight <= doc.clientHeight + 24) { doc.classList.add("whole"); return; }
  const set = (whole) => {
    doc.classList.toggle("whole", whole);
    doc.classList.toggle("clamped", !whole);
    button.textContent = whole ? gettext("Show Less") : gettext("Show More");
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
  const panel = textarea.closest(".revision");
  const set = (open) => { panel.classList.toggle("open", open); button.setAttribute("aria-expanded", String(open)); };
  button.setAttribute("role", "button");
  button.setAttribute("aria-controls", panel.id);
  set(panel.classList.contains("open") || textarea.value !== "" || panel.querySelector(":checked") !== null);
  const toggle = (event) => {
    event.preventDefault();
    set(!panel.classList.contains("open"));
    if (!panel.classList.contains("open")) return;
    textarea.focus({ preventScroll: true });
    panel.scrollIntoView({ block: "nearest" });
  };
  button.addEventListener("click", toggle);
  button.addEventListener("keydown", (event) => event.key === " " && toggle(event));
  textarea.addEventListener("keydown", (event) => { if (event.key === "Escape") { set(false); button.focus(); } });
}

/** Send an answer and show what the server says; if it cannot be reached, say so and keep everything. */
async function send(event) {
  event.preventDefault();
  const form = event.currentTarget; // form.action would be the button of that name
  const article = form.closest("[data-pause]") ?? document.body, { pause } = article.dataset, beside = article.closest("[data-pane]") !== null;
  if (article.matches("[aria-busy=true]")) return;
  const submitter = event.submitter ?? form.querySelector("button");
  const data = new FormData(form, submitter); // before anything is disabled
  const body = form.enctype === "multipart/form-data" ? data : new URLSearchParams(/** @type {any} */ (data));
  const unsaid = unsaidBy(form, article);
  const free = busy(submitter, article);
  let answered = false, sent = false, decided = false;
  swapped = [];
  lastSent = Date.now();
  try {
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, credentials: "same-origin" });
    const html = await response.text();
    sent = true;
    free();
    closeDialogs();
    if (article.isConnected) submitter.focus({ preventScroll: true }); // where a dialog that is closed again gives it back to
    if (article.isConnected && asksFirst(html)) return;
    if (isComment(form) && response.ok && response.redirected) {
      form.reset(); // it is among the comments now
      if (form.closest(".at-line")) form.closest("details").open = false;
      words.saveDraft(article);
      form.dispatchEvent(new Event("taken", { bubbles: true }));
    }
    answered = showAnswer(html, submitter);
    decided = answered && response.ok && response.redirected && form.matches("#answer, .sure, [data-confirm] form"); // a claim takes no words
    if (decided) words.dropDraft(pause);
    if (decided) form.dispatchEvent(new Event("taken", { bubbles: true }));
    if (decided) document.dispatchEvent(new CustomEvent("decided", { detail: { pause, html, beside } }));
  } catch { /* told below */ } finally {
    const found = decided ? unsaid : swapped;
    swapped = null;
    words.keep(found);
    free();
  }
  closeDialogs();
  if (!answered) tellLost(article, sent, isComment(form));
}

const isComment = (form) => form.matches(".talk form, .at-line form, .who-answers details form");

const closeDialogs = () => { for (const one of document.querySelectorAll("dialog[open]")) one.close(); };

/** What an answer does not send: its second look names it; a dialog of the card sends its own fields alone. */
function unsaidBy(form, article) {
  if (form.matches(".sure")) return [...form.querySelectorAll("[data-left]")].map((one) => ({ label: one.dataset.left, text: one.textContent }));
  return form.closest("[data-confirm]") ? words.typed(article).filter(({ name, text }) => name && text !== form.querySelector("textarea")?.value) : [];
}

/** Where the server asks before it takes an answer, that is a dialog here. Tells whether it asks. */
export function asksFirst(html, taken = () => {}) {
  const form = parse(html).querySelector("[data-sure]");
  if (!form) return false;
  const dialog = document.createElement("dialog");
  dialog.className = "confirm";
  dialog.setAttribute("aria-labelledby", "sure-title");
  dialog.append(form);
  (find("pause") ?? document.querySelector("main")).append(dialog);
  form.addEventListener("submit", send);
  form.addEventListener("taken", taken);
  mountKey(form);
  form.querySelector("[data-back]").addEventListener("click", (event) => { event.preventDefault(); dialog.close(); });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return true;
}

function tellLost(article, sent, comment) {
  article.querySelector(".lost")?.remove();
  const line = document.createElement("p");
  line.className = "notice error lost";
  line.textContent = sent
    ? comment ? gettext("The server did not take the comment: you may be logged out. Your text is kept; reload the page and send it again.")
    : gettext("The server did not take the answer: you may be logged out. Your text is kept; reload the page and send it again.")
    : comment ? gettext("The server could not be reached, so it is not known whether your comment arrived. Your text is kept; look at the comments before you send it again.")
    : gettext("The server could not be reached, so it is not known whether your answer arrived. Your text is kept; answer again, it counts only once.");
  article.querySelector(".bar")?.prepend(line);
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

/** What somebody opens has the focus in its field, or in its text, and lies above the bar: who types then types there. */
const INSIDE = "textarea, select, input:not([type=hidden]), .raw > pre";
document.addEventListener("click", (event) => {
  const opened = event.target.closest("main summary:not(.finding *, .later *)")?.parentElement;
  if (!opened || opened.open) return;
  event.preventDefault();
  opened.open = true; // here, and not after the click: the next key may come at once
  const inside = [...opened.querySelectorAll(INSIDE)].find((one) => one.checkVisibility());
  if (!inside) return;
  inside.focus({ preventScroll: true });
  opened.scrollIntoView({ block: "nearest" });
  inside.scrollIntoView({ block: "nearest" });
});

/** Press a button of the card, where it is there. */
const press = (name, how, closed = "[inert]") => {
  const button = find(name);
  if (!button || button.disabled || button.closest(closed) || !button.checkVisibility()) return false; // or another question is being opened beside the inbox
  how(button);
};

bind({
  A: () => press("approve", (button) => pressSoon(button, "A"), "[inert]:not(.held)"), // by the time that it is sent, it is known whether it is asked still
  R: () => press("revise", (button) => button.click()),
  X: () => press("cancel", (button) => button.click()),
});
