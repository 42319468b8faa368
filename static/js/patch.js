/** The patch of a question: lines that are brought where a reader comes near, files ticked as seen, comments at lines. Without this file there are links and forms. */

import { gettext } from "./language.js";
import { bind } from "./keys.js";
import { announce } from "./page.js";

const NEAR = "1500px 0px"; // so far outside of the window lines are brought
const LINE = 19.4; // pixels that a line is high, about: the bar at the side tells how long a patch is
const parse = (html) => new DOMParser().parseFromString(html, "text/html");

/** Bring a patch to life. */
export function mountPatch(patch) {
  patch.querySelector("[data-seen]")?.addEventListener("submit", choose);
  patch.querySelector("[data-next-unseen]")?.addEventListener("click", (event) => { event.preventDefault(); goUnseen(1); });
  patch.addEventListener("click", ({ target }) => {
    const name = target.closest(".tree a")?.hash;
    if (name) open(patch.querySelector(name));
  });
  const box = patch.querySelector(".at-line");
  if (box) takeComments(patch, box);
  mountFiles(patch);
}

function mountFiles(patch) {
  for (const later of patch.querySelectorAll("[data-later]")) watch(later);
  if (/^#file-\d+$/.test(location.hash)) open(patch.querySelector(location.hash));
  markLines(patch);
}

const open = (file) => { if (file) file.querySelector("details").open = true; };

/** Keep the place that lines will take, and bring them when it comes near. */
function watch(later) {
  later.style.minHeight = `${Math.min(Number(later.dataset.lines), 5_000) * LINE}px`;
  near.observe(later);
}

const near = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) bring(/** @type {any} */ (target));
}, { rootMargin: NEAR });

/** The next lines of a file, in the place of the way to them. */
async function bring(later) {
  near.unobserve(later);
  const pre = later.closest("details").querySelector(".diff pre");
  try {
    const response = await fetch(later.dataset.later, { credentials: "same-origin" });
    if (!response.ok || response.redirected) throw new Error(response.statusText);
    const fresh = parse(await response.text()), next = fresh.querySelector("[data-later]");
    if (!later.isConnected) return;
    pre.append(...fresh.querySelector(".diff pre").childNodes);
    if (next) { later.replaceWith(next); watch(next); } else later.remove();
    markLines(pre.closest(".patch"));
  } catch { later.style.minHeight = ""; } // its link is there
}

/** A click on a line opens the form for a comment below it. */
function takeComments(patch, box) {
  patch.classList.add("takes-comments");
  patch.addEventListener("click", ({ target }) => {
    const line = target.closest(".diff [data-at]"), file = target.closest("[data-path]");
    if (!line || target.closest(".at-line, .remark") || !getSelection().isCollapsed) return;
    const [side, number] = line.dataset.at.split(":"), field = (name) => box.querySelector(`[name=${name}]`);
    [field("path").value, field("side").value, field("line").value] = [file.dataset.path, side, number];
    endOf(line).after(box);
    box.open = true;
    field("text").focus();
  });
}

/** The last that stands in a line's row: its other side, and what was said about it. */
function endOf(line) {
  let last = line;
  if (line.dataset.at.startsWith("old") && line.closest(".beside")) last = line.nextElementSibling ?? line;
  while (last.nextElementSibling?.matches(".remark")) last = last.nextElementSibling;
  return last;
}

/** What was said about a line stands below it too, as a link to where it can be taken back. */
export function markLines(patch) {
  if (!patch) return;
  for (const old of patch.querySelectorAll(".remark")) old.remove();
  for (const line of patch.querySelectorAll(".said")) line.classList.remove("said");
  for (const said of document.querySelectorAll("[data-said-at]")) {
    const file = patch.querySelector(`[data-path="${CSS.escape(said.dataset.saidIn)}"]`);
    const line = file?.querySelector(`[data-at="${said.dataset.saidAt}"]`), comment = said.closest("li");
    if (!line) continue;
    line.classList.add("said");
    const remark = Object.assign(document.createElement("a"), { className: "remark", href: `#${comment.id}` });
    const name = Object.assign(document.createElement("b"), { textContent: comment.querySelector("b").textContent });
    remark.append(name, ` ${comment.querySelector("p[dir]").innerText}`);
    endOf(line).after(remark);
  }
}

/** A file that is ticked folds; a choice of how patches look draws this one anew. */
async function choose(event) {
  event.preventDefault();
  const form = event.currentTarget, button = event.submitter, ticks = button.name === "file";
  try {
    const body = new URLSearchParams(/** @type {any} */ (new FormData(form, button)));
    const response = await fetch(button.getAttribute("formaction") ?? form.getAttribute("action"), { method: "POST", body, credentials: "same-origin" });
    if (!response.ok) throw new Error(response.statusText);
    if (ticks) tick(button);
    else redraw(form.closest(".patch"), await response.text(), button.name);
  } catch {
    announce(ticks ? gettext("The tick was not kept: the server did not answer.") : gettext("The patch stays as it is: the server did not answer."));
  }
}

function tick(button) {
  const file = button.closest("[data-path]"), seen = !button.value.endsWith(":0"), digest = button.value.replace(/:0$/, "");
  button.value = seen ? `${digest}:0` : digest;
  button.textContent = seen ? gettext("Not seen after all") : gettext("Mark as seen");
  file.classList.toggle("seen", seen);
  document.querySelector(`.tree [href="#${file.id}"]`)?.classList.toggle("seen", seen);
  const count = /** @type {any} */ (document.querySelector("[data-seen-count]"));
  const words = gettext("%(seen)s of %(count)s seen", { seen: document.querySelectorAll(".file.seen").length, count: count.dataset.seenCount });
  count.textContent = words;
  announce(words);
  file.querySelector("details").open = !seen;
  if (seen) goUnseen(1, file);
}

/** The same patch as the page that came shows it; the file that was read stays where it is. */
function redraw(patch, html, focused) {
  const fresh = parse(html).querySelector(".patch [data-files]")?.closest(".patch");
  if (!fresh) { location.reload(); return; }
  const at = current(patch), box = patch.querySelector(".at-line");
  if (box) patch.querySelector("[data-files]").after(box); // with what is typed there
  for (const part of [".tools", "[data-files]"]) patch.querySelector(part).replaceWith(fresh.querySelector(part));
  const note = ":scope > .notice";
  patch.querySelector(note)?.remove();
  const told = fresh.querySelector(note);
  if (told) patch.querySelector("[data-files]").before(told);
  patch.querySelector("[data-next-unseen]")?.addEventListener("click", (event) => { event.preventDefault(); goUnseen(1); });
  mountFiles(patch);
  if (at) patch.querySelector(`#${at.id}`)?.scrollIntoView({ block: "nearest" });
  patch.querySelector(`.looks [name=${focused}]`)?.focus({ preventScroll: true });
}

/** The file at the top of the window. */
const current = (patch) => [...patch.querySelectorAll(".file")].find((file) => file.getBoundingClientRect().bottom > innerHeight / 3);

/** Go to the next file that was not seen, or with -1 to the one before; from the last to the first. */
function goUnseen(by, from = null) {
  const patch = document.querySelector(".patch"), files = [...patch?.querySelectorAll(".file") ?? []];
  const at = files.indexOf(from ?? document.activeElement?.closest(".file") ?? null);
  const unseen = [...files.slice(at + 1), ...files.slice(0, Math.max(at, 0))].filter((file) => !file.matches(".seen"));
  const next = unseen.at(by > 0 ? 0 : -1);
  if (!next) {
    if (files.length) announce(gettext("You have seen all files."));
    from?.focus();
    return files.length > 0;
  }
  open(next);
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "start" });
}

bind({ "]": () => goUnseen(1), "[": () => goUnseen(-1) });
