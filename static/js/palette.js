/** Ctrl+K: a dialog that finds every link and action of the page by words; `?` shows the keys of the page. Without this file both are only on the page itself. */

import { gettext } from "./language.js";
import { bind, KEYS, labelOf, pressSoon } from "./keys.js";
import { announce } from "./page.js";

const MOST = 40;
const HERE = "main :is(a[href], button, summary), .top :is(a[href], button)";
const DECIDES = "button[name=action], [data-row-answer] button"; // a click on one of them is an answer
let dialog = null, commands = [], at = 0;

function made(tag, more = {}, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(more)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
}

const isThere = (node) => !node.disabled && !node.matches("[tabindex='-1']") && !node.closest("dialog, [aria-hidden=true]") && (node.closest("[popover]") !== null || node.checkVisibility());

/** Every link and button that can be pressed now, each name once: what acts first, then the page's links, then the other pages. */
function look() {
  const found = new Map();
  for (const node of document.querySelectorAll(HERE)) {
    if (node.matches("[data-palette], [data-help], [popovertarget], .brand") || !isThere(node)) continue;
    const name = labelOf(node), key = `${name} ${node.getAttribute("href") ?? ""}`;
    const place = node.closest(".top") ? gettext("Go to") : node.matches("a") && !node.matches("[role=button], .button") ? gettext("On this page") : gettext("Action");
    if (name && !found.has(key)) found.set(key, { name, place, node });
  }
  const places = [gettext("Action"), gettext("On this page"), gettext("Go to")];
  return [...found.values()].sort((one, other) => places.indexOf(one.place) - places.indexOf(other.place));
}

function build() {
  const field = made("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "commands", "aria-autocomplete": "list", "aria-label": gettext("Find a page or an action"), autocomplete: "off", spellcheck: "false", placeholder: gettext("Find a page or an action") });
  const list = made("ul", { role: "listbox", id: "commands", "aria-label": gettext("Pages and actions") }), line = made("p", { class: "quiet", role: "status" });
  dialog = made("dialog", { class: "confirm palette", "aria-label": gettext("Commands") }, field, list, line);
  field.addEventListener("input", () => show(field.value));
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); choose(at + step); }
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) { event.preventDefault(); run(commands[at]); }
  });
  list.addEventListener("click", ({ target }) => { const option = target.closest("[role=option]"); if (option) run(commands[[...list.children].indexOf(option)]); });
  dialog.addEventListener("click", ({ target }) => { if (target === dialog) dialog.close(); });
  document.body.append(dialog);
}

function open() {
  if (document.querySelector("dialog[open]")) return;
  if (!dialog) build();
  dialog.querySelector("input").value = "";
  const known = look(); // before the dialog makes the rest inert
  dialog.showModal();
  dialog.known = known;
  show("");
}

function show(words) {
  const whole = words.trim().toLowerCase(), wanted = whole.split(/\s+/).filter(Boolean);
  const begins = ({ name }) => Number(name.toLowerCase().startsWith(whole)); // such come first
  const fits = dialog.known.filter(({ name }) => wanted.every((word) => name.toLowerCase().includes(word))).sort((one, other) => begins(other) - begins(one));
  commands = fits.slice(0, MOST);
  dialog.querySelector("ul").replaceChildren(...commands.map(({ name, place }, number) => made("li", { role: "option", id: `command-${number}`, "aria-selected": "false" }, made("span", {}, name), made("small", {}, place))));
  dialog.querySelector("p").textContent = fits.length > MOST ? gettext("%(most)s of %(count)s shown", { most: MOST, count: fits.length }) : fits.length ? gettext("%(total)s found", { total: fits.length }) : gettext("Nothing on this page has these words.");
  choose(0);
}

function choose(to) {
  const options = [...dialog.querySelectorAll("[role=option]")], field = dialog.querySelector("input");
  at = options.length ? (to + options.length) % options.length : 0;
  for (const [number, option] of options.entries()) option.setAttribute("aria-selected", String(number === at));
  if (options[at]) field.setAttribute("aria-activedescendant", options[at].id);
  else field.removeAttribute("aria-activedescendant");
  options[at]?.scrollIntoView({ block: "nearest" });
}

/** As if it had been pressed where it stands; an answer in two seconds, as by its key, so Ctrl+K and a wrong word or Enter decide nothing. */
function run(command) {
  if (!command) return;
  dialog.close();
  if (!command.node.isConnected || command.node.disabled) { announce(gettext("The page has changed: look again.")); return; }
  if (command.node.matches(DECIDES)) { pressSoon(command.node, "Enter"); return; }
  if (!command.node.closest("[popover]")) command.node.focus();
  command.node.click();
}

function help() {
  if (document.querySelector("dialog[open]")) return;
  const parts = KEYS.filter(([, where]) => document.querySelector(where)).map(([title, , keys]) => made("section", {}, made("h3", {}, title), made("dl", {}, ...keys.map(([key, does]) => made("div", {}, made("dt", {}, ...key.split(" ").flatMap((one) => [made("kbd", {}, one), " "])), made("dd", {}, does))))));
  const back = made("button", { class: "button", type: "button" }, gettext("Close"));
  const box = made("dialog", { class: "confirm keys", "aria-labelledby": "keys-title" }, made("h2", { id: "keys-title" }, gettext("Keys")), made("div", { class: "sheet" }, ...parts), made("div", { class: "buttons" }, back));
  back.addEventListener("click", () => box.close());
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

/** To a place of the navigation, where it is on this page. */
const go = (letter) => () => {
  const place = document.querySelector(`[data-go="${letter}"]`);
  if (!place) return false;
  place.click();
};

bind({
  "Ctrl+K": () => { dialog?.open ? dialog.close() : open(); },
  "?": help,
  N: () => document.querySelector("[data-next]")?.click(),
  "Shift+N": () => document.querySelector("[data-previous]")?.click(),
  ...Object.fromEntries(["i", "o", "t", "h"].map((letter) => [`G ${letter.toUpperCase()}`, go(letter)])),
});
for (const [name, act] of /** @type {[string, () => void][]} */ ([["palette", open], ["help", help]])) {
  document.querySelector(`[data-${name}]`)?.addEventListener("click", () => { document.querySelector("#menu")?.hidePopover(); act(); });
}
