/** A button that puts a text on the clipboard: beside each text marked `data-copy`, and for other modules. Without this file a click selects the text. */

import { gettext } from "./language.js";
import { announce } from "./page.js";

/** A button for `text`, which stands in `body`; `label` says what it copies, to who listens. */
export function copyButton(text, body, label) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button";
  button.textContent = gettext("Copy");
  button.setAttribute("aria-label", gettext("Copy: %(label)s", { label }));
  button.addEventListener("click", async () => {
    const done = await copied(text, body);
    button.textContent = done ? gettext("Copied") : gettext("Press Ctrl+C");
    announce(done ? gettext("Copied.") : gettext("The text is selected: press Ctrl+C to copy it."));
  });
  return button;
}

/** Whether the text is on the clipboard. Where the page may not put it there, it is selected. */
async function copied(text, body) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(body);
    return document.execCommand("copy");
  }
}

for (const body of document.querySelectorAll("[data-copy]")) body.after(copyButton(body.textContent, body, body.dataset.copy));
