// An OpenID Connect provider for the tests: `node oidc_provider.mjs FOLDER PORT CALLBACK`, where FOLDER holds node_modules.
// People are told to it by PUT /people/SUBJECT with their claims as JSON, under `id_token` those that stand in the ID token, all others at
// userinfo; and log out there by DELETE.
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [, , folder, port, callback] = process.argv;
const { default: Provider } = await import(createRequire(`${folder}/`).resolve("oidc-provider"));
const people = new Map();
const sent = [];
function said(sub, use) {
  const { id_token: signed, ...told } = people.get(sub) ?? {};
  return { sub, ...(use === "id_token" ? signed : told) };
}
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "waystation", client_secret: "a secret of the tests", redirect_uris: [callback],
    backchannel_logout_uri: `${new URL(callback).origin}/login/elsewhere/ended`,
  }],
  features: { backchannelLogout: { enabled: true } },
  fetch: async (_url, options) => { sent.push(String(options.body)); return new Response(null, { status: 200 }); },
  claims: { openid: ["sub"], profile: ["name", "preferred_username", "groups"], email: ["email", "email_verified"] },
  cookies: { keys: ["tests"] },
  pkce: { required: () => true },
  conformIdTokenClaims: false,
  findAccount: (_, sub) => ({ accountId: sub, claims: async (use) => said(sub, use) }),
});
const handle = provider.callback();
createServer((request, response) => {
  if (request.method === "DELETE") { // somebody logs out there; answered with what it sends to us
    const { pathname } = new URL(request.url, "http://localhost");
    provider.Client.find("waystation")
      .then((client) => client.backchannelLogout(pathname.split("/").pop()))
      .then(() => response.end(sent.pop()));
    return;
  }
  if (request.method !== "PUT") { handle(request, response); return; }
  let body = "";
  request.on("data", (part) => { body += part; });
  request.on("end", () => {
    people.set(request.url.split("/").pop(), JSON.parse(body));
    response.end("{}");
  });
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
