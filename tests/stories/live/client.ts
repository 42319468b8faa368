// What tests/stories/test_clients.py runs: the client that openapi-typescript gives lists, reads, pages and answers.
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

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

// reads, what is null among it
const order = await client.GET("/api/v1/work-orders/{order_id}", { params: { path: { order_id } } });
if (order.error) throw new Error(order.error.code);
const message: string | null = order.data.error_message;

// lists and answers
const open = await client.GET("/api/v1/pauses", { params: { query: { open: true } } });
if (open.error) throw new Error(open.error.code);
const pause = open.data.results.find((one) => one.agent_work_order_id === order_id);
if (pause === undefined) throw new Error("the order asks nothing");
const path = { pause_id: pause.id };
const given = await client.POST("/api/v1/pauses/{pause_id}/decisions", { params: { path }, body: { decision: "approve", revision: pause.revision } });
if (given.error) throw new Error(given.error.code);
const late = await client.POST("/api/v1/pauses/{pause_id}/decisions", { params: { path }, body: { decision: "approve" } });
console.log(JSON.stringify({ status: given.response.status, refused: late.error?.code, message }));
