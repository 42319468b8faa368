/** Lists of objects as tables: a row more or less at once. Without this file the same buttons send the form, and the server answers with the table. */

import { gettext } from "./language.js";
import { announce } from "./page.js";

const BLANK = "~n", NAMED = ["name", "value", "id", "for", "aria-describedby"];
const idOf = (name) => `id_${name.replace(/[^\p{L}\p{N}_-]/gu, "_")}`;
const rowsOf = (lines) => [...lines.querySelector("tbody").children];

/** The row's fields are those of another number from now on. */
function renumber(row, name, from, to) {
  const pairs = [[`${name}.${from}`, `${name}.${to}`], [idOf(`${name}.${from}`), idOf(`${name}.${to}`)]];
  for (const node of [row, ...row.querySelectorAll("*")]) {
    for (const attribute of NAMED.filter((one) => node.hasAttribute(one))) {
      if (attribute === "value" && !node.matches("button")) continue;
      for (const [old, fresh] of pairs) node.setAttribute(attribute, node.getAttribute(attribute).replaceAll(old, fresh));
    }
  }
  for (const node of [row, ...row.querySelectorAll("[aria-label]")]) node.setAttribute("aria-label", said(node.getAttribute("aria-label") ?? "", to));
  for (const node of row.querySelectorAll("button .sr")) node.textContent = said(node.textContent, to);
}

/** The words with the row's number in them. */
const said = (words, number) => words.replace(/\d+(?=\D*$)/, String(number + 1));

function tidy(lines) {
  const [least, most] = lines.dataset.lines.split("-").map(Number), { length } = rowsOf(lines);
  lines.querySelector(':scope > [name$=".count"]').value = String(length);
  lines.querySelector(":scope > .scroll").hidden = !length;
  lines.querySelector(':scope > [value^="add:"]').hidden = length >= most;
  for (const button of lines.querySelectorAll('[value^="remove:"]')) button.hidden = length <= least;
  lines.dispatchEvent(new Event("input", { bubbles: true }));
}

function add(lines, template) {
  const row = /** @type {HTMLElement} */ (template.content.firstElementChild.cloneNode(true)), at = rowsOf(lines).length;
  renumber(row, template.dataset.line, BLANK, at);
  lines.querySelector("tbody").append(row);
  tidy(lines);
  row.querySelector(":is(input, select, textarea):not([type=hidden])")?.focus();
  announce(row.getAttribute("aria-label"));
}

function remove(lines, template, row) {
  const at = rowsOf(lines).indexOf(row), words = row.getAttribute("aria-label");
  row.remove();
  rowsOf(lines).forEach((one, number) => { if (number >= at) renumber(one, template.dataset.line, number + 1, number); });
  tidy(lines);
  (rowsOf(lines)[at]?.querySelector(":is(input, select, textarea):not([type=hidden])") ?? lines.querySelector(':scope > [value^="add:"]')).focus();
  announce(gettext("%(row)s was removed.", { row: words }));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest('[data-lines] button[name="change"]'), lines = button?.closest("[data-lines]");
  const template = lines?.querySelector(":scope > template");
  if (!template) return;
  event.preventDefault();
  if (button.value.startsWith("add:")) add(lines, template);
  else remove(lines, template, button.closest("tr"));
});
