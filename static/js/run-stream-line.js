/**
 * The connection under `run-stream.js`: it keeps one of three ways open, and comes back by itself.
 *
 * @typedef {object} Source
 * @property {() => URL} socket
 * @property {() => URL} [events] Server-sent events; left out where there are none.
 * @property {() => URL} [poll]
 * @property {() => Promise<boolean>} [look] Instead of `poll`: looks by itself and tells whether the server answered.
 * @property {() => number} [cursor]
 * @property {() => boolean} [isOver] Whether the run's terminal event was taken.
 * @property {boolean} [ends] Whether it ends: then the server closes behind the last event.
 * @property {(message: any) => void} take
 * @property {() => string} [token]
 * @property {() => string} [csrf]
 * @property {import("./run-stream.js").Resume} [resume]
 * @property {(state: import("./run-stream.js").State) => void} [onState]
 * @property {(problem: import("./run-stream.js").Problem) => void} [onClosed]
 */

/** The server said no, and why. */
export class Refused extends Error {
  /** @param {import("./run-stream.js").Problem} problem */
  constructor(problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

const FINAL = { 4400: [400, "cursor_invalid"], 4401: [401, "not_authenticated"], 4403: [403, "forbidden"], 4404: [404, "not_found"] };
const AWAY = 4503; // the close code that says so; server-sent events and answers say it by their problem's code
const LONGEST = 10_000, EVERY = 2_000, OPEN_WITHIN = 5_000, STALE = 45_000, ANSWER_WITHIN = 20_000, BRIEF = 1_000;
const isHidden = () => globalThis.document?.hidden ?? false;

/** How an attempt ended: all was told, refused for good, lost after it worked, or it never worked. */
const DONE = "done", REFUSED = "refused", LOST = "lost", FAILED = "failed";

export class Line {
  /** @type {import("./run-stream.js").State} */
  state = "connecting";
  #ended = false;
  #wake = () => {};
  #stop = () => {};
  #probe = () => {};
  /** @type {WebSocket | null} */
  #socket = null;
  #said = new Map();
  #names = 0;
  #etag = "";
  #away = false; // the server's database, as it was last said

  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    const { maxAttempts = 0, delayMs = 1_000 } = source.resume ?? {};
    this.maxAttempts = maxAttempts;
    this.delayMs = delayMs;
    this.soon = () => { if (!isHidden()) { this.#wake(); this.#probe(); } };
    globalThis.window?.addEventListener("online", this.soon);
    globalThis.document?.addEventListener("visibilitychange", this.soon);
    this.#keep();
  }

  close() { this.#end("closed"); }

  #end(state, problem) {
    if (this.#ended) return;
    this.#ended = true;
    globalThis.window?.removeEventListener("online", this.soon);
    globalThis.document?.removeEventListener("visibilitychange", this.soon);
    this.#stop();
    this.#wake();
    this.#set(state);
    if (problem) this.source.onClosed?.(problem);
  }

  #set(state) {
    if (state === this.state) return;
    this.state = state;
    this.source.onState?.(state);
  }

  /** Rounds of socket, events, poll, until it ends. */
  async #keep() {
    for (let failures = 0, waits = 0; !this.#ended; ) {
      let how = await this.#bySocket();
      if (how === FAILED && this.source.events && !this.#ended) how = await this.#byEvents();
      if (this.#ended) return;
      if (how === DONE) return this.#end("ended");
      failures = how === LOST ? 0 : failures + 1;
      waits = how === LOST ? 0 : waits + 1;
      if (this.maxAttempts === 0 || failures > this.maxAttempts) return this.#end("closed", { status: 0, code: "gave_up", detail: "The server cannot be reached." });
      const wait = Math.min(this.delayMs * 2 ** Math.max(0, waits - 1), LONGEST) * (0.75 + Math.random() / 2);
      if (how === LOST) { this.#set(this.#lost()); await this.#sleep(wait); }
      else if (await this.#byPoll(wait)) failures = 0;
    }
  }

  #lost() { return this.#away ? "unavailable" : "reconnecting"; }

  /** What is said of the database: true where the message says nothing else. */
  #heardOfDatabase({ type }) {
    if (type !== "error" && type !== "recovered") return false;
    this.#away = type === "error";
    this.#set(this.#away ? "unavailable" : "live");
    return true;
  }

  #sleep(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => { clearTimeout(timer); resolve(); };
    });
  }

  /** @returns {Promise<string>} */
  #bySocket() {
    return new Promise((resolve) => {
      const url = this.source.socket();
      url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
      const token = this.source.token?.();
      let socket;
      try {
        socket = new WebSocket(url, token ? ["waystation", `bearer.${token}`] : ["waystation"]);
      } catch { // no token that a header can hold
        resolve(FAILED);
        return;
      }
      let openedAt = 0, heard = false, beats = false, timer = setTimeout(() => finish(FAILED), OPEN_WITHIN);
      let live = 0;
      const finish = (how) => {
        clearTimeout(timer);
        clearTimeout(live);
        this.#probe = () => {};
        if (this.#socket === socket) this.#socket = null;
        socket.onopen = socket.onmessage = socket.onclose = null;
        socket.close();
        this.#forget();
        resolve(how);
      };
      // A server that beats and then falls silent is gone, though the socket does not know it yet.
      const listen = () => { clearTimeout(timer); if (beats) timer = setTimeout(() => finish(LOST), STALE); };
      this.#stop = () => finish(LOST);
      // Who comes back to the page, or to a network, is not told "live" by a socket that died meanwhile: it must answer now.
      const probe = () => {
        clearTimeout(timer);
        timer = setTimeout(() => finish(LOST), OPEN_WITHIN);
        socket.send('{"type": "ping"}');
      };
      const works = () => { this.#away = false; this.#set("live"); };
      socket.onopen = () => {
        openedAt = Date.now();
        this.#socket = socket;
        this.#probe = probe;
        listen();
        if (this.#away) live = setTimeout(works, BRIEF); // a server without its database accepts, and then closes
        else works();
      };
      socket.onmessage = ({ data }) => {
        const message = parsed(data);
        if (message === null) return;
        heard = true;
        beats ||= message.type === "ping";
        listen();
        if (this.#heardOfDatabase(message)) clearTimeout(live);
        else if (message.type === "accepted" || message.type === "refused" || message.type === "pong") this.#reply(message);
        else this.source.take(message);
      };
      socket.onclose = ({ code }) => {
        if (code in FINAL) {
          const [status, name] = FINAL[code];
          this.#end("closed", { status, code: name, detail: "The server does not serve this." });
          finish(REFUSED);
        } else if (code === 1000 && this.source.ends) finish(DONE);
        else if (code === AWAY) {
          this.#away = true;
          finish(FAILED);
        } else finish(openedAt && (heard || Date.now() - openedAt > BRIEF) ? LOST : FAILED);
      };
    });
  }

  /** Server-sent events, read by `fetch`, since an EventSource can send no token. */
  async #byEvents() {
    const abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), OPEN_WITHIN), worked = false;
    this.#stop = () => abort.abort();
    try {
      const cursor = this.source.cursor();
      const headers = { Accept: "text/event-stream", ...this.#credentials(), ...(cursor ? { "Last-Event-ID": String(cursor) } : {}) };
      const response = await fetch(this.source.events(), { headers, credentials: "same-origin", cache: "no-store", signal: abort.signal });
      if (response.status === 204) return DONE;
      if (await this.#isFinal(response)) return REFUSED;
      this.#away = await isAway(response);
      if (!response.ok || !response.body) return FAILED;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { done, value } = await reader.read();
        if (done) return worked ? LOST : FAILED;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), STALE);
        if (!worked) { worked = true; this.#set("live"); }
        const frames = (text + value).split("\n\n");
        text = frames.pop();
        for (const frame of frames) {
          const lines = frame.split("\n"), data = lines.find((one) => one.startsWith("data: "));
          const message = data && parsed(data.slice(6));
          if (message && !this.#heardOfDatabase({ type: lines.find((one) => one.startsWith("event: "))?.slice(7) })) this.source.take(message);
        }
      }
    } catch {
      return worked ? LOST : FAILED;
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }

  /** Ask every 2 s for a while; tells whether the server answered. */
  async #byPoll(ms) {
    let answered = false;
    const end = Date.now() + ms;
    do {
      if (!isHidden()) {
        answered = await (this.source.look ? this.source.look() : this.#ask());
        if (this.#ended) return answered;
        this.#set(answered ? "polling" : this.#lost());
      }
      await this.#sleep(EVERY);
    } while (Date.now() < end && !this.#ended);
    return answered;
  }

  async #ask() {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), OPEN_WITHIN);
    try {
      const headers = { ...this.#credentials(), ...(this.#etag ? { "If-None-Match": this.#etag } : {}) };
      const response = await fetch(this.source.poll(), { headers, credentials: "same-origin", cache: "no-store", signal: abort.signal });
      if (await this.#isFinal(response)) return true;
      this.#away = await isAway(response);
      if (response.status !== 200 && response.status !== 304) return false;
      const events = response.status === 200 ? (await response.json()).results : [];
      for (const event of events) this.source.take(event);
      if (!events.length && this.source.isOver?.()) this.#end("ended");
      this.#etag = events.length ? "" : response.headers.get("ETag") ?? ""; // with news there may be another page of it
      return true;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  async #isFinal(response) {
    if (![400, 401, 403, 404].includes(response.status)) return false;
    this.#end("closed", await problemOf(response));
    return true;
  }

  #credentials() {
    const token = this.source.token?.();
    return token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** Over the socket where it is open, else by a request. */
  say(message, path, body, { repeats = false } = {}) {
    return this.#socket?.readyState === WebSocket.OPEN ? this.#saySocket(message) : this.#sayRequest(path, body, repeats);
  }

  #saySocket(message) {
    return new Promise((resolve, reject) => {
      const id = `m${++this.#names}`;
      const timer = setTimeout(() => { this.#said.delete(id); reject(lost()); }, ANSWER_WITHIN);
      this.#said.set(id, { resolve, reject, timer });
      this.#socket.send(JSON.stringify({ ...message, id }));
    });
  }

  #reply({ type, id, result, problem }) {
    const said = this.#said.get(id);
    if (!said) return;
    this.#said.delete(id);
    clearTimeout(said.timer);
    if (type === "refused") said.reject(new Refused(problem));
    else said.resolve(result);
  }

  #forget() {
    for (const { reject, timer } of this.#said.values()) { clearTimeout(timer); reject(lost()); }
    this.#said.clear();
  }

  /** `repeats`: the same again is no repetition of it, so it gets no key. */
  async #sayRequest(path, body, repeats) {
    const csrf = this.source.csrf?.();
    const headers = { "Content-Type": "application/json", ...(repeats ? {} : { "Idempotency-Key": crypto.randomUUID() }), ...this.#credentials(), ...(csrf ? { "X-CSRFToken": csrf } : {}) };
    const url = new URL(path, this.source.socket());
    let response;
    try {
      response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin" });
    } catch {
      throw lost();
    }
    if (!response.ok) throw new Refused(await problemOf(response));
    return response.json();
  }
}

const lost = () => new Refused({ status: 0, code: "connection_lost", detail: "It is not known whether this arrived. Send it again; an answer counts only once." });

/** A clone is read: who asked may want the answer too. @param {Response} response */
const isAway = async (response) => response.status === 503 && (await problemOf(response.clone())).code === "database_unavailable";

async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return { status: response.status, code: "error", detail: `The server answered ${response.status}.` };
  }
}

function parsed(text) {
  try {
    const message = JSON.parse(text);
    return message !== null && typeof message === "object" ? message : null;
  } catch {
    return null;
  }
}
