// LangGraph's own package for JavaScript, unmodified: `node langgraph_sdk.mjs URL TOKEN`. Prints what
// came of it as JSON.
import { Client } from "@langchain/langgraph-sdk";
import WebSocket from "ws";

const [apiUrl, apiKey] = process.argv.slice(2);
const client = new Client({ apiUrl, apiKey });
const later = () => new Promise((go) => setTimeout(go, 20));

async function overRuns() {
  const metadata = { by: "javascript" };
  const { thread_id: thread } = await client.threads.create({ metadata });
  const parts = [];
  const options = { input: { input: "Hello" }, streamMode: ["values", "updates"] };
  for await (const part of client.runs.stream(thread, "slow-talk", options)) parts.push(part);
  const [asked] = parts.at(-1).data.__interrupt__;
  const values = await client.runs.wait(thread, "slow-talk", { command: { resume: "Rome" } });
  const followed = [];
  const whole = { lastEventId: "-", streamMode: "lifecycle" };
  for await (const { data } of client.threads.joinStream(thread, whole)) {
    followed.push(data.status ?? "begun");
    if (followed.length === 4) break;
  }
  return {
    followed,
    question: asked.value.action_request.args.question,
    said: values.messages.at(-1).content,
    runs: (await client.runs.list(thread)).map((run) => run.status),
    found: (await client.threads.search({ metadata })).map((found) => found.thread_id === thread),
    steps: (await client.threads.getHistory(thread)).length > 2,
  };
}

async function overEvents(transport) {
  const offers = ["waystation", `bearer.${apiKey}`]; // a browser's socket can set no header
  const bySocket = { transport, webSocketFactory: (url) => new WebSocket(url, offers) };
  const owner = transport === "sse" ? client : new Client({ apiUrl, apiKey: null });
  const stream = owner.threads.stream({
    assistantId: "slow-talk",
    ...(transport === "sse" ? {} : bySocket),
  });
  await stream.run.start({ input: { input: "Hello" } });
  while (!stream.interrupts.length || !stream.interrupted) await later();
  const [{ interruptId, payload }] = stream.interrupts;
  const answer = { namespace: [], interrupt_id: interruptId, response: "Oslo" };
  await stream.input.respond(answer);
  const told = [];
  let [hasEnded, hasSaid] = [false, false];
  for await (const event of await stream.subscribe({ channels: ["lifecycle", "values"] })) {
    told.push(event);
    const { data } = event.params;
    if (data.event === "completed") hasEnded = true;
    if (data.messages?.at(-1).content.startsWith("Oslo")) hasSaid = true;
    if (hasEnded && hasSaid) break; // the end may come by what the client follows besides
  }
  const values = told.filter((event) => event.method === "values");
  const late = await stream.input.respond(answer).catch((error) => error.code);
  const { tree } = await stream.agent.getTree();
  await stream.close();
  return {
    question: payload.action_request.args.question,
    said: values.sort((one, other) => one.seq - other.seq).at(-1).params.data.messages.at(-1).content,
    once: new Set(told.map((event) => event.event_id)).size === told.length,
    late,
    tree: tree.status,
  };
}

async function inTheStore() {
  const space = ["javascript", "likes"];
  await client.store.putItem(space, "city", { name: "Rome", seen: 2 });
  const item = await client.store.getItem(space, "city");
  const filter = { seen: { $gte: 2 } };
  const { items } = await client.store.searchItems(["javascript"], { filter });
  const { namespaces } = await client.store.listNamespaces({ prefix: ["javascript"], maxDepth: 1 });
  await client.store.deleteItem(space, "city");
  return {
    name: item.value.name,
    dated: item.createdAt <= item.updatedAt,
    found: items.map((found) => found.key),
    namespaces,
    left: await client.store.getItem(space, "city"),
  };
}

const came = { runs: await overRuns(), store: await inTheStore() };
for (const transport of ["sse", "websocket"]) came[transport] = await overEvents(transport);
console.log(JSON.stringify(came));
process.exit(0);
