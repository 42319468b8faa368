// What a page does with LangGraph's client for JavaScript, in the words that all its released versions
// have: `node langgraph_released.mjs URL TOKEN` says what held, word by word.
import { Client } from "@langchain/langgraph-sdk";

const [apiUrl, apiKey] = process.argv.slice(2);
const client = new Client({ apiUrl, apiKey });

function said(word, so) {
  if (!so) throw new Error(`${word} is not so`);
  console.log(word);
}

async function all(stream) {
  const parts = [];
  for await (const { event, data } of stream) parts.push({ event, data });
  return parts;
}

const metadata = { title: "Trip to Oslo" };
const { thread_id: thread } = await client.threads.create({ metadata });
said("title", (await client.threads.get(thread)).metadata.title === metadata.title);
const asked = await client.runs.wait(thread, "slow-talk", { input: { input: "Hello" } });
said("asked", "question" in asked.__interrupt__[0].value.action_request.args);
const values = await client.runs.wait(thread, "slow-talk", { command: { resume: "Rome" } });
said("answered", values.messages.at(-1).content === "Rome it is.");

// by looking: an older version may not have it
async function kept(word, methods, so) {
  if (methods.every((name) => typeof client[word]?.[name] === "function")) said(word, await so());
  else console.log(`no-${word}`);
}

await kept("store", ["putItem", "getItem", "searchItems", "deleteItem"], async () => {
  const space = ["released", thread];
  await client.store.putItem(space, "city", { name: "Rome" });
  const item = await client.store.getItem(space, "city");
  const { items } = await client.store.searchItems(space);
  await client.store.deleteItem(space, "city");
  return item.value.name === "Rome" && items[0].key === "city";
});
const methods = ["create", "update", "getVersions", "setLatest", "delete"];
await kept("assistants", methods, async () => {
  const about = { of: thread };
  const mine = await client.assistants.create({ graphId: "slow-talk", metadata: about });
  const key = mine.assistant_id;
  await client.assistants.update(key, { metadata: { more: 1 } });
  const back = await client.assistants.setLatest(key, 1);
  const versions = await client.assistants.getVersions(key);
  const listed = await client.assistants.search({ metadata: about });
  await client.assistants.delete(key);
  return back.version === 1 && versions.length === 2 && listed.length === 1;
});
await kept("crons", ["create", "search", "delete"], async () => {
  const yearly = { schedule: "0 0 1 1 *", input: { input: "x" }, metadata: { name: thread } };
  const { cron_id: cron } = await client.crons.create("slow-talk", yearly);
  const there = async () =>
    (await client.crons.search({ limit: 100 })).some((one) => one.cron_id === cron);
  const before = await there();
  await client.crons.delete(cron);
  return before && !(await there());
});
await client.threads.updateState(thread, { values: { noted: "by hand" } });
said("edited", (await client.threads.getState(thread)).values.noted === "by hand");

const { thread_id: chat } = await client.threads.create();
const given = { input: { input: "Trends" }, streamMode: "custom" };
const live = await all(client.runs.stream(chat, "slow-chat", given));
said("custom", live.slice(1).length && live.slice(1).every((part) => part.event === "custom"));
const again = await all(client.runs.joinStream(chat, live[0].data.run_id, { lastEventId: "-1" }));
said("joined", JSON.stringify(again) === JSON.stringify(live));
said("state", (await client.threads.getState(chat)).tasks.length === 1);
said("history", (await client.threads.getHistory(thread)).length > 2);
const found = await client.threads.search({ metadata, limit: 1 });
said("found", found[0].thread_id === thread);
const { run_id: begun } = await client.runs.create(thread, "slow-sleep", { input: {} });
await client.runs.cancel(thread, begun);
said("cancelled", (await client.runs.get(thread, begun)).status === "interrupted");
