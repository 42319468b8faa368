/** What the filters of a list leave to choose, with how many rows: counted when they are opened, and put in then. Without this file a button of theirs brings the page with it. */

const place = /** @type {any} */ (document.querySelector("[data-choices]")), more = place?.closest("details");

async function bring() {
  if (!more.open || place.matches("[aria-busy]")) return;
  place.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(place.dataset.choices, { credentials: "same-origin" });
    if (response.ok && !response.redirected) show(new DOMParser().parseFromString(await response.text(), "text/html"));
  } catch {
    // the button that brings them is still there
  } finally {
    place.removeAttribute("aria-busy");
  }
}

/** What was chosen meanwhile stays chosen, and who was in one of these fields still is. */
function show(page) {
  const fields = (root) => /** @type {any[]} */ ([...root.querySelectorAll("select")]);
  const active = place.contains(document.activeElement) ? document.activeElement : null;
  for (const field of fields(page)) {
    const before = fields(place).find((one) => one.name === field.name);
    if (before) field.value = before.value;
  }
  place.replaceChildren(...page.body.childNodes);
  if (active) (document.getElementById(active.id) ?? fields(place)[0])?.focus();
  more.removeEventListener("toggle", bring);
}

if (more) {
  more.addEventListener("toggle", bring);
  bring();
}
