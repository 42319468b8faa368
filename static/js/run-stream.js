/**
 * Follow a run or a thread of Waystation live: a WebSocket, else server-sent events, else a poll every 2 s, whichever the way between
 * lets through. Every event arrives once and in order, across reconnects. No dependencies; browsers and Node 22. See docs/how-to/live.md.
 *
 *     import { openStream } from "./run-stream.js";
 *     const stream = openStream({ run: "run_…", on: { approval_requested: (event) => show(event.data) }, onState: tell });
 *     await stream.decide("pse_…", { decision: "approve", revision: 1 });
 *
 * @typedef {{event: string, data: Record<string, any>, seq: number, run_id: string | null, thread_id: string, at: string, type?: "presence"}} LiveEvent
 * @typedef {"connecting" | "live" | "unavailable" | "reconnecting" | "polling" | "ended" | "closed"} State
 *   `unavailable`: the server answers, its database does not; nothing is lost, and it goes on by itself.
 *   `ended`: the run is over and all of it was told. `closed`: closed, refused or given up; see `onClosed`.
 * @typedef {{status: number, code: string, detail: string, [more: string]: any}} Problem
 * @typedef {{maxAttempts?: number, delayMs?: number}} Resume
 *   How often to try again in a row without any answer (0, the default: never), and how long to wait before (1000; doubled each time).
 *
 * @typedef {object} Options
 * @property {string} [run] Follow this run, `run_…`, to its end.
 * @property {string} [thread] Or this thread, `thr_…`.
 * @property {number} [after] The number of the last event you have; 0 tells all.
 * @property {string} [base] Where Waystation is; this page's own site by default.
 * @property {() => string} [token] Gives an API token; without it the session's cookie counts. Keep tokens out of pages.
 * @property {() => string} [csrf] Gives the CSRF token for answers without a socket, where there is no API token.
 * @property {Resume} [resume]
 * @property {Record<string, (event: LiveEvent) => void>} [on] Callbacks by kind.
 * @property {(event: LiveEvent) => void} [onEvent] Called for every event.
 * @property {() => void} [onPresence] Other people look at the question, or no longer: ask `present` who.
 * @property {(news: Progress) => void} [onProgress] How far a run's step is, by its own words, as it works: no event, so nothing of it is told again.
 * @property {(html: string | null) => void} [onWork] For the product's own page of an order: what changed of it, "" for nothing yet, null to fetch it.
 * @property {(state: State) => void} [onState]
 * @property {(problem: Problem) => void} [onClosed] Why there will be no more: refused, or given up.
 * @property {Storage | null} [storage] Where the latest checkpoint is remembered; `localStorage` by default.
 */

import { Line, Refused } from "./run-stream-line.js";

export { Refused };

const TERMINAL = new Set(["run_completed", "run_failed", "run_cancelled", "run_expired"]);

/** This browser's memory, or null where it is forbidden: then even to look for it throws. */
function ownStorage() {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

/** @param {string} threadId */
const storageKey = (threadId) => `checkpoint_${threadId}`;

/**
 * The latest checkpoint that this browser saw of a thread, or null. With status `pending_input` the thread waits for an answer.
 * @param {string} threadId
 * @param {Storage | null} [storage]
 * @returns {{id: string, status: string, loopNum: number | null, nodeId: string | null, runId: string | null, seq: number} | null}
 */
export function savedCheckpoint(threadId, storage = ownStorage()) {
  try {
    return JSON.parse(storage?.getItem(storageKey(threadId)) ?? "null");
  } catch {
    return null;
  }
}

/** Who reads an older run again does not forget the newer one. @param {LiveEvent} event @param {Storage | null} storage */
function saveEvent({ data, run_id: runId, thread_id: threadId, seq }, storage) {
  if ((savedCheckpoint(threadId, storage)?.seq ?? 0) > seq) return;
  saveCheckpoint(threadId, { id: data.checkpoint_id, status: data.status, loopNum: data.loop_num, nodeId: data.node_id, runId, seq }, storage);
}

/** A callback that throws is reported as any error is; it takes neither the connection nor the next callback along. */
function call(callback, value) {
  try {
    callback?.(value);
  } catch (error) {
    queueMicrotask(() => { throw error; });
  }
}

/**
 * Remember the latest checkpoint of a thread. `openStream` does it with each event that tells one.
 * @param {string} threadId
 * @param {object} checkpoint As `savedCheckpoint` gives it.
 * @param {Storage | null} [storage]
 */
export function saveCheckpoint(threadId, checkpoint, storage = ownStorage()) {
  try {
    storage?.setItem(storageKey(threadId), JSON.stringify(checkpoint));
  } catch { /* full or forbidden: the server has it */ }
}

/**
 * @typedef {object} Progress
 * @property {string} run_id
 * @property {{ done: number, of: number | null, unit: string } | null} progress null where the step is done.
 */

/** @param {Options} options */
export function openStream(options) {
  const { run, thread, token, csrf, on = {}, onEvent, storage = ownStorage() } = options;
  if (!run === !thread) throw new TypeError("Name either a run or a thread.");
  const base = options.base ?? globalThis.location?.href;
  const path = run ? `runs/${run}` : `threads/${thread}`;
  let cursor = options.after ?? 0, over = false;

  /** @param {LiveEvent} event */
  const take = (event) => {
    if (event.type === "presence") { call(options.onPresence); return; }
    if (event.type === "progress") { call(options.onProgress, /** @type {any} */ (event)); return; }
    if (event.type === "work") { call(options.onWork, /** @type {any} */ (event).html); return; }
    if (!Number.isInteger(event.seq) || event.seq <= cursor) return;
    cursor = event.seq;
    over ||= event.run_id === run && TERMINAL.has(event.event);
    if (event.event === "checkpoint_created") saveEvent(event, storage);
    call(onEvent, event);
    call(on[event.event], event);
  };

  const line = new Line({
    socket: () => new URL(`/ws/${path}/stream?after=${cursor}${options.onWork ? "&page" : ""}`, base),
    events: () => new URL(`/api/v1/${path}/stream`, base),
    poll: () => new URL(`/api/v1/${path}/events?after=${cursor}`, base),
    cursor: () => cursor,
    isOver: () => over,
    ends: Boolean(run),
    take,
    token,
    csrf,
    resume: options.resume,
    onState: options.onState,
    onClosed: options.onClosed,
  });

  return {
    get cursor() { return cursor; },
    get state() { return line.state; },
    /** No more events, no more attempts. */
    close: () => line.close(),
    /**
     * Answer a question. Resolves with the committed decision; rejects with `Refused`, whose `problem` says why and, of a question that
     * is closed, who answered it. After `connection_lost` it is not known whether the answer arrived: send it again, it counts once.
     * @param {string} pauseId @param {{decision: string, feedback?: string, revision?: number, input?: any}} answer
     */
    decide: (pauseId, answer) => line.say({ type: "decision", pause_id: pauseId, ...answer }, `/api/v1/pauses/${pauseId}/decisions`, answer),
    /**
     * Say that a person looks at a question, or writes an answer; holds for 20 s. Resolves with who else does.
     * @param {string} pauseId @param {boolean} writing @returns {Promise<{present: {name: string, writing: boolean}[]}>}
     */
    present: (pauseId, writing) => line.say({ type: "presence", pause_id: pauseId, writing }, `/api/v1/pauses/${pauseId}/presence`, { writing }, { repeats: true }),
    /**
     * Say something: it answers the open question, or on a thread begins the next turn. The result's `how` tells which.
     * @param {string} content
     */
    input: (content) => line.say({ type: "input", content }, `/api/v1/${run ? `${path}/input` : `${path}/runs`}`, run ? { content } : { input: content }),
  };
}

/**
 * Which questions wait for the person who is logged in: now, and whenever other ones do.
 * @typedef {object} InboxNews
 * @property {number} waiting
 * @property {string[]} gone Questions, `pse_…`, that waited for this person a message before and do no longer.
 * @property {string[]} new Those that wait since.
 * @property {string[]} changed Those that wait as before, and are not as they were.
 * @property {[string, string][]} [first] In the first message of a page: the first page of the inbox, with when each of them changed.
 * @property {Record<string, string>} [html] For a page: rows of what changed, lines of what was answered.
 * @property {string[]} [past] Of those lines the ones of this person's history.
 *
 * @param {{onNews: (news: InboxNews) => void, page?: boolean, onState?: (state: State) => void, look: () => Promise<boolean>, resume?: Resume}} options
 *   `look` is called every 2 s while there is no socket; it tells whether the server answered.
 */
export function openInbox({ onNews, onState, look, page = false, resume }) {
  const line = new Line({
    socket: () => new URL(page ? "/ws/inbox?page" : "/ws/inbox", location.href),
    look,
    take: (message) => { if (message.type === "inbox") onNews(message); },
    resume,
    onState,
  });
  return { get state() { return line.state; }, close: () => line.close() };
}
