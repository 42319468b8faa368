// A SAML identity provider for the tests: `node saml_provider.mjs FOLDER PORT KEY CERTIFICATE CALLBACK`, where FOLDER holds node_modules.
// People are told to it by PUT /people/SUBJECT with their attributes as JSON, and what it shall do wrong by PUT /options.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [, , folder, port, key, cert, callback] = process.argv;
const samlp = createRequire(`${folder}/`)("samlp");
const base = `http://127.0.0.1:${port}`;
const people = new Map();
let told = {};

function Person(user) {
  this.getClaims = () => user.attributes;
  this.getNameIdentifier = () => ({ nameIdentifier: user.id, nameIdentifierFormat: told.format });
}
const profileMapper = Object.assign((user) => new Person(user), { prototype: { metadata: [] } });
const shared = { issuer: base, cert: readFileSync(cert), profileMapper };

function answer(request, response) {
  const query = Object.fromEntries(new URL(request.url, base).searchParams);
  const failed = (error) => { response.statusCode = 500; response.end(String(error)); };
  Object.assign(request, { query, originalUrl: request.url, protocol: "http" });
  response.set = (name, value) => response.setHeader(name, value);
  response.send = (body) => response.end(String(body));
  if (request.url.startsWith("/metadata")) {
    samlp.metadata({ ...shared, redirectEndpointPath: "/saml", postEndpointPath: "/saml" })(request, response);
  } else if (query.login) {
    samlp.auth({
      ...shared, key: readFileSync(told.key ?? key), destination: callback, recipient: callback, lifetimeInSeconds: 60, ...told.saml,
      getUserFromRequest: () => ({ id: query.login, attributes: people.get(query.login) }),
      getPostURL: (_audience, _document, _request, done) => done(null, callback),
    })(request, response, failed);
  } else {
    const kept = Object.entries(query).map(([name, value]) => `<input type="hidden" name="${name}" value="${value}">`);
    response.setHeader("Content-Type", "text/html");
    response.end(`<form action="/saml">${kept.join("")}<input name="login"><button>Log in</button></form>`);
  }
}

createServer((request, response) => {
  if (request.method !== "PUT") { answer(request, response); return; }
  let body = "";
  request.on("data", (part) => { body += part; });
  request.on("end", () => {
    const [, what, subject] = request.url.split("/");
    if (what === "people") people.set(subject, JSON.parse(body)); else told = JSON.parse(body);
    response.end("{}");
  });
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
