// The client that openapi-typescript gives lists, reads, pages, follows and answers. `make check` type-checks it;
// tests/stories/live/test_clients.py runs it.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { env: Record<string, string> };

const client = createClient<paths>({ baseUrl: process.env.BASE_URL, headers: { Authorization: `Bearer ${process.env.TOKEN}` } });
const order_id: string = process.env.ORDER;

// pages
const first = await client.GET("/api/v1/work-orders", { params: { query: { limit: 1 } } });
if (first.error) throw new Error(first.error.code);
if (first.data.results.length !== 1 || first.data.next === null) throw new Error("the first page holds one order and names the next");
const cursor = new URL(first.data.next).searchParams.get("cursor") ?? "";
const second = await client.GET("/api/v1/work-orders", { params: { query: { limit: 1, cursor } } });
if (second.error) throw new Error(second.error.code);
if (second.data.results[0].id === first.data.results[0].id) throw new Error("the second page holds another order");

// creates, with what an order needs; what has a default may be left out
const create = () => client.POST("/api/v1/work-orders", { body: { template: "repo-tidy", input: { rules: "F401" } } });
export type Created = Awaited<ReturnType<typeof create>>;

// reads, what is null among it
const order = await client.GET("/api/v1/work-orders/{order_id}", { params: { path: { order_id } } });
if (order.error) throw new Error(order.error.code);
const message: string | null = order.data.error_message;

// lists and answers
const open = await client.GET("/api/v1/pauses", { params: { query: { open: true } } });
if (open.error) throw new Error(open.error.code);
const pause = open.data.results.find((one) => one.agent_work_order_id === order_id);
if (pause === undefined) throw new Error("the order asks nothing");

// follows: the document names the stream, its events and their kinds
type RunEvent = components["schemas"]["EventOut"];
const wanted: components["schemas"]["EventKind"] = "approval_requested";
const stream = await client.GET("/api/v1/work-orders/{order_id}/logs/stream", {
  params: { path: { order_id }, query: { after: 0 } },
  parseAs: "stream",
});
if (stream.error || stream.data == null) throw new Error("the order has no stream");
let told = "", asked: RunEvent | undefined;
for await (const chunk of stream.data.pipeThrough(new TextDecoderStream())) {
  told += chunk;
  asked = [...told.matchAll(/^data: (.*)\n/gm)].map((found): RunEvent => JSON.parse(found[1])).find((one) => one.event === wanted);
  if (asked) break;
}
if (asked?.data.pause_id !== pause.id || asked.seq < 1) throw new Error("the stream tells of the question");

const path = { pause_id: pause.id };
const given = await client.POST("/api/v1/pauses/{pause_id}/decisions", { params: { path }, body: { decision: "approve", revision: pause.revision } });
if (given.error) throw new Error(given.error.code);
const late = await client.POST("/api/v1/pauses/{pause_id}/decisions", { params: { path }, body: { decision: "approve" } });
console.log(JSON.stringify({ status: given.response.status, refused: late.error?.code, message }));
