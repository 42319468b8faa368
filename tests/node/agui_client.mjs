// AG-UI's own client, unmodified: `node agui_client.mjs URL TOKEN`. It checks the order of events
// itself. Prints what came of it as JSON.
import { HttpAgent } from "@ag-ui/client";

const [url, token] = process.argv.slice(2);

function agentOf(template, threadId) {
  const headers = { Authorization: `Bearer ${token}` };
  return new HttpAgent({ url: `${url}/agui/${template}`, headers, threadId });
}

async function run(agent, parameters = {}) {
  const events = [];
  const failed = [];
  const finished = [];
  const ids = [];
  const kept = [];
  const outcome = await agent
    .runAgent(parameters, {
      onEvent: ({ event }) => events.push(event.type),
      onTextMessageStartEvent: ({ event }) => ids.push(event.messageId),
      onMessagesSnapshotEvent: ({ event }) => kept.push(...event.messages.map(({ id }) => id)),
      onRunErrorEvent: ({ event }) => failed.push(event.message),
      onRunFinishedEvent: ({ event }) => finished.push(event.outcome),
    })
    .then(
      () => "",
      (error) => String(error.message),
    );
  return { events, failed, ids, kept, outcome: finished.at(-1) ?? null, refused: outcome };
}

const talk = agentOf("slow-talk", "a name of mine");
talk.addMessage({ id: "1", role: "user", content: "Hello" });
const first = await run(talk, { runId: "one" });
if (!first.outcome) throw new Error(JSON.stringify(first));
const again = await run(agentOf("slow-talk", "a name of mine"), { runId: "one" });
const [asked] = first.outcome.interrupts;
const second = await run(talk, {
  runId: "two",
  resume: [{ interruptId: asked.id, status: "resolved", payload: "Rome" }],
});
const late = await run(talk, {
  runId: "three",
  resume: [{ interruptId: asked.id, status: "resolved", payload: "Oslo" }],
});
const said = talk.messages.map((message) => message.content);

const ticks = agentOf("slow-chat", crypto.randomUUID());
ticks.addMessage({ id: "1", role: "user", content: "Go" });
const streamed = await run(ticks);

const four = agentOf("two-people", crypto.randomUUID());
four.addMessage({ id: "1", role: "user", content: "Go" });
const waits = await run(four);
const own = await run(four, {
  resume: [{ interruptId: waits.outcome.interrupts[0].id, status: "resolved", payload: true }],
});
const dropped = await run(four, {
  resume: [{ interruptId: waits.outcome.interrupts[0].id, status: "cancelled" }],
});
console.log(JSON.stringify({ first, again, asked, second, late, said, streamed, waits, own, dropped }));
