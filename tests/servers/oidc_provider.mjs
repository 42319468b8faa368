// An OpenID Connect provider for the tests: `node oidc_provider.mjs FOLDER PORT CALLBACK`, where FOLDER holds node_modules.
// People are told to it by PUT /people/SUBJECT with their claims as JSON.
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [, , folder, port, callback] = process.argv;
const { default: Provider } = await import(createRequire(`${folder}/`).resolve("oidc-provider"));
const people = new Map();
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: "waystation", client_secret: "a secret of the tests", redirect_uris: [callback] }],
  claims: { openid: ["sub"], profile: ["name", "preferred_username", "groups"], email: ["email", "email_verified"] },
  cookies: { keys: ["tests"] },
  pkce: { required: () => true },
  findAccount: (_, sub) => ({ accountId: sub, claims: async () => ({ sub, ...people.get(sub) }) }),
});
const handle = provider.callback();
createServer((request, response) => {
  if (request.method !== "PUT") { handle(request, response); return; }
  let body = "";
  request.on("data", (part) => { body += part; });
  request.on("end", () => {
    people.set(request.url.split("/").pop(), JSON.parse(body));
    response.end("{}");
  });
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
