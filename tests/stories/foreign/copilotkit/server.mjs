// CopilotKit's runtime before Waystation's AG-UI door, and the page: `node server.mjs PORT`, with
// AGENT_URL and AGENT_TOKEN.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { HttpAgent } from "@ag-ui/client";
import { CopilotRuntime } from "@copilotkit/runtime/v2";
import { createCopilotNodeListener } from "@copilotkit/runtime/v2/node";

const agent = new HttpAgent({
  url: process.env.AGENT_URL,
  headers: { Authorization: `Bearer ${process.env.AGENT_TOKEN}` },
});
const runtime = new CopilotRuntime({ agents: { default: agent } });
const copilot = createCopilotNodeListener({ runtime, basePath: "/api/copilotkit" });
const files = { "/page.js": "text/javascript", "/page.css": "text/css" };
const page = `<!doctype html><meta charset="utf-8"><title>CopilotKit</title>
<link rel="stylesheet" href="/page.css"><div id="page" style="height: 95vh"></div>
<script src="/page.js"></script>`;

createServer((request, response) => {
  const path = request.url.split("?")[0];
  if (path.startsWith("/api/copilotkit")) return copilot(request, response);
  const type = files[path] ?? "text/html";
  response.writeHead(200, { "Content-Type": `${type}; charset=utf-8` });
  response.end(files[path] ? readFileSync(path.slice(1)) : page);
}).listen(Number(process.argv[2]), "127.0.0.1");
