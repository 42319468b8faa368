// A page of React with LangGraph's own hook, unmodified, in jsdom:
// `node langgraph_hook.mjs URL TOKEN PACKAGE ASSISTANT END`, where END is in its last words. Prints what the page came to as JSON.
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html><div id=root></div>", { url: "http://localhost/" });
const globals = { window, document: window.document, navigator: window.navigator };
for (const [name, value] of Object.entries(globals))
  Object.defineProperty(globalThis, name, { value, configurable: true });

const [apiUrl, apiKey, name, assistantId, last] = process.argv.slice(2);
const React = await import("react"); // behind the page that it looks for
const { createRoot } = await import("react-dom/client");
const { useStream } = await import(name);
const isOlder = name.endsWith("/react") && name.includes("langgraph-sdk");

let stream;
let wasLoading = false;

function Page() {
  stream = useStream({ apiUrl, apiKey, assistantId, fetchStateHistory: true });
  wasLoading ||= stream.isLoading;
  return null;
}

async function until(what, look) {
  const end = Date.now() + 20_000;
  while (!look()) {
    if (Date.now() > end) throw new Error(`waited for ${what}: ${stream.error}`);
    await new Promise((go) => setTimeout(go, 20));
  }
}

createRoot(window.document.getElementById("root")).render(React.createElement(Page));
await until("the page", () => stream);
stream.submit({ input: "Hello" });
await until("the question", () => stream.interrupt && !stream.isLoading);
const { question } = stream.interrupt.value.action_request.args;
if (isOlder) stream.submit(undefined, { command: { resume: "Rome" } });
else stream.respond("Rome");
const words = (message) => message?.text ?? message?.content ?? "";
await until("the end", () => !stream.isLoading && words(stream.messages.at(-1)).includes(last));
const said = stream.messages.map((message) => message.content);
const ids = new Set(stream.values.messages.map((message) => message.id));
const known = stream.messages.every((message) => ids.has(message.id));
const error = stream.error ?? null;
console.log(JSON.stringify({ question, said, error, wasLoading, known, asks: Boolean(stream.interrupt) }));
process.exit(0);
