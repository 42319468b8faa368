/** Keeps "5 minutes ago" true, by the rule of the template filter `ago`. */

const UNITS = [["day", 86_400], ["hour", 3_600], ["minute", 60]];

export function ago(at, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - at) / 1000));
  for (const [unit, length] of UNITS) {
    if (seconds >= length) {
      const count = Math.floor(seconds / length);
      return `${count} ${unit}${count > 1 ? "s" : ""} ago`;
    }
  }
  return "just now";
}

/** Write the times inside `root` anew; `data-ago` holds what stands before them. */
export function tell(root = document) {
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const at = Date.parse(time.dateTime);
    const text = time.dataset.ago + ago(at);
    if (time.textContent !== text) time.textContent = text;
    if (!time.title) time.title = new Date(at).toLocaleString();
  }
}

setInterval(() => tell(), 20_000);
document.addEventListener("visibilitychange", () => document.hidden || tell());
tell();
