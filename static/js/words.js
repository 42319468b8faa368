/**
 * What somebody typed on a card and has not sent. It survives a reload as a draft; when its question changes or closes it stays on the page
 * as "Your unsent text", until it is put away. Without this file the server shows words that it did not take.
 */

import { copyButton } from "./copy.js";
import { gettext } from "./language.js";
import { announce } from "./page.js";

const FIELDS = "textarea, select, input:not([type=hidden], [type=submit], [type=file])";
const DRAFT = "draft:", UNSENT = "unsent:";
const thread = () => document.querySelector("[data-thread]")?.dataset.thread ?? "";
const plain = (text) => text.replaceAll("\r\n", "\n").trim();

/** The text that a field began with. On a card that came back with what was typed, a field began empty, but for the text that is edited. */
export function beginning(field) {
  const edited = field.closest("[data-edit], [data-part]"), original = edited?.querySelector("[data-original]");
  if (original) return original.content.textContent;
  return field.closest("[data-typed]") && !edited ? "" : field.defaultValue;
}

export const isEdited = (field) => plain(field.value) !== plain(beginning(field));

const said = (node) => node?.textContent.replace(/\s+/g, " ").trim() ?? "";

function labelOf(field) {
  const own = said(field.labels?.[0]) || field.getAttribute("aria-label") || field.name;
  const group = said(field.closest("fieldset")?.querySelector("legend"));
  return group && group !== own ? `${group}: ${own}` : own;
}

/** Names, labels and texts of what was typed inside `root`, and outside of a part of it. */
export function typed(root, but = null) {
  const found = [];
  for (const field of root.querySelectorAll(FIELDS)) {
    if (but?.contains(field) || field.matches(".at-line :not(textarea)")) continue; // how something is shown, and where
    if (field.matches("select")) {
      if (field.closest(".later")) continue; // times that are offered, no words
      const first = [...field.options].find((one) => one.defaultSelected) ?? field.options[0];
      if (field.selectedOptions[0] !== first) found.push({ name: field.name, value: field.value, label: labelOf(field), text: field.selectedOptions[0]?.textContent.trim() });
    } else if (field.matches("[type=checkbox], [type=radio]")) {
      if (field.checked && !field.defaultChecked) found.push({ name: field.name, value: field.value, checked: true, label: labelOf(field), text: said(field.labels?.[0]) || "chosen" });
    } else if (plain(field.value) && isEdited(field)) found.push({ name: field.name, value: field.value, label: labelOf(field), text: field.value });
  }
  return found;
}

const read = (key) => { try { return JSON.parse(sessionStorage.getItem(key)) ?? []; } catch { return []; } };
function write(key, value) {
  try { value.length ? sessionStorage.setItem(key, JSON.stringify(value)) : sessionStorage.removeItem(key); } catch { /* full, or forbidden */ }
}
const draftOf = (pause) => `${DRAFT}${thread()}:${pause}`;

export function saveDraft(article) {
  const found = typed(article);
  write(draftOf(article.dataset.pause), found);
  article.toggleAttribute("data-drafted", found.length > 0);
}
export const dropDraft = (pause) => sessionStorage.removeItem(draftOf(pause));

/** Put a draft back into the fields of its card, where nothing else was typed. */
export function restoreDraft(article) {
  if ("typed" in article.dataset) return;
  for (const { name, value, checked } of read(draftOf(article.dataset.pause))) {
    const field = [...article.querySelectorAll(`[name="${CSS.escape(name)}"]`)].find((one) => !checked || one.value === value);
    if (!field) continue;
    if (checked) field.checked = true;
    else if (!isEdited(field)) field.value = value;
    const folded = field.closest("details");
    if (folded) folded.open = true;
    article.toggleAttribute("data-drafted", true);
  }
}

/** Show words that no card takes any more, each once, and keep them over a reload. */
export function keep(words) {
  const before = read(UNSENT + thread());
  const news = words.filter(({ label, text }, at) => text && ![...before, ...words.slice(0, at)].some((one) => one.label === label && one.text === text));
  if (!news.length) return;
  write(UNSENT + thread(), [...before, ...news.map(({ label, text }) => ({ label, text }))]);
  show();
  setTimeout(() => announce(gettext("Your unsent text is kept on this page.")), 1_000); // after what is said of the new question
}

function show() {
  const box = document.querySelector("[data-unsent]");
  if (!box) return;
  const words = read(UNSENT + thread());
  box.querySelector("ul").replaceChildren(...words.map(entry));
  box.querySelector("[data-away]")?.remove();
  if (words.length) {
    const away = button(gettext("Dismiss"));
    away.dataset.away = "";
    away.addEventListener("click", () => { write(UNSENT + thread(), []); show(); document.querySelector("#question, .ground h2")?.focus(); });
    box.append(away);
  }
  box.hidden = !words.length;
}

function button(words) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "button";
  made.textContent = words;
  return made;
}

function entry({ label, text }) {
  const item = document.createElement("li"), name = document.createElement("b"), body = document.createElement("pre");
  name.textContent = label;
  body.textContent = text;
  body.tabIndex = 0;
  body.setAttribute("aria-label", label);
  item.append(name, body, copyButton(text, body, label));
  return item;
}

/** What the server shows as unsent, where the page was loaded anew. */
const unsentIn = (root) =>
  [...root.querySelectorAll("[data-words]")].map((one) => ({ label: one.querySelector("b").textContent, text: one.querySelector("pre").textContent }));

/** At the beginning: words of questions that closed while nobody looked. Those of a question that the page links to wait for it. */
export function begin(root) {
  const own = root.querySelector("[data-pause]")?.dataset.pause, mine = `${DRAFT}${thread()}:`, kept = [];
  for (const key of Object.keys(sessionStorage).filter((one) => one.startsWith(mine))) {
    const pause = key.slice(mine.length);
    if (pause === own || root.querySelector(`a[href*="pause=${CSS.escape(pause)}"]`)) continue;
    kept.push(...read(key));
    sessionStorage.removeItem(key);
  }
  const told = unsentIn(root).filter(({ text }) => !kept.some((one) => plain(one.text) === plain(text)));
  show();
  keep([...kept, ...told]);
}
