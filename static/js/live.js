/** News of the server: a socket that comes back by itself, and a poll for the time without one. */

const FINAL = new Set([4400, 4401, 4403, 4404]); // malformed, not logged in, not allowed, not there: trying again would not help
const FIRST = 1_000, LONGEST = 10_000, STALE = 45_000;

/**
 * Keep a socket open. `url` is asked before each attempt; `onMessage` gets each parsed message;
 * `onState` gets "live", "reconnecting" or "closed". Returns a function that ends it.
 */
export function connect(url, { onMessage, onState }) {
  let socket, timer, stale, wait = FIRST, ended = false, beats = false;

  const open = () => {
    const address = new URL(url(), location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(address);
    socket.onopen = () => { wait = FIRST; onState("live"); listen(); };
    socket.onmessage = ({ data }) => {
      const message = parse(data);
      if (message === null) return;
      beats ||= message.type === "ping" || message.type === "heartbeat";
      listen();
      onMessage(message);
    };
    socket.onclose = ({ code }) => {
      clearTimeout(stale);
      if (ended) return;
      if (FINAL.has(code)) { stop(); onState("closed"); return; }
      onState("reconnecting");
      timer = setTimeout(open, wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, LONGEST);
    };
  };
  // A server that beats and then falls silent is gone, though the socket does not know it yet.
  const listen = () => { clearTimeout(stale); if (beats) stale = setTimeout(() => socket.close(), STALE); };
  const stop = () => { ended = true; clearTimeout(timer); clearTimeout(stale); socket?.close(); };
  const soon = () => { if (!ended && socket.readyState === WebSocket.CLOSED) { clearTimeout(timer); open(); } };

  window.addEventListener("online", soon);
  open();
  return stop;
}

function parse(data) {
  try {
    const message = JSON.parse(data);
    return typeof message === "object" ? message : null;
  } catch {
    return null;
  }
}

/** Follow a thread's events after number `after`: each once, in order, across reconnects. Returns a function that ends it. */
export function watch(threadId, after, { onEvent, onState }) {
  let cursor = after;
  return connect(() => `/ws/threads/${threadId}/stream?after=${cursor}`, {
    onState,
    onMessage(message) {
      if (!Number.isInteger(message.seq) || message.seq <= cursor) return;
      cursor = message.seq;
      onEvent(message);
    },
  });
}

const EVERY = 2_000;

/** Ask every 2 s whether something happened. `onNews` is called when it did, `onAnswer(true|false)` after each try. Returns a function that ends it. */
export function poll(url, { onNews, onAnswer }) {
  let etag = "", timer, ended = false;
  const ask = async () => {
    if (!document.hidden) {
      let ok = false;
      try {
        const response = await fetch(url, { headers: etag ? { "If-None-Match": etag } : {}, cache: "no-store", credentials: "same-origin" });
        ok = response.ok || response.status === 304;
        if (response.status === 200 && !ended) {
          etag = response.headers.get("ETag") ?? "";
          onNews();
        }
      } catch { /* the network is away; the next try tells */ }
      if (!ended) onAnswer(ok);
    }
    if (!ended) timer = setTimeout(ask, EVERY);
  };
  ask();
  return () => { ended = true; clearTimeout(timer); };
}
