// Microsoft's own bot libraries against our fake of Teams. The input names the
// fake and holds requests that it signed; the output is what the libraries said
// of them, what they sent and read, and requests that they signed.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import botbuilder from "botbuilder";
import connector from "botframework-connector";

const require = createRequire(import.meta.url);
const fromConnector = createRequire(require.resolve("botframework-connector"));
const jsonwebtoken = fromConnector("jsonwebtoken");
const msal = fromConnector("@azure/msal-node");
const teamsApi = require("@microsoft/teams.api");
const { HttpStream } = require("@microsoft/teams.apps/dist/http/http-stream");
const input = JSON.parse(readFileSync(process.argv[2], "utf8"));
const out = {};

// 1. What the library says of tokens that the fake signed.
connector.ChannelValidation.OpenIdMetadataEndpoint = input.openID;
const provider = new connector.SimpleCredentialProvider(input.appID, input.password);
out.verdicts = {};
for (const c of input.requests) {
  try {
    const identity = await connector.ChannelValidation.authenticateChannelTokenWithServiceUrl(
      c.header, provider, c.activity.serviceUrl, c.activity.channelId);
    out.verdicts[c.name] = identity.isAuthenticated ? "" : "not authenticated";
  } catch (e) {
    out.verdicts[c.name] = e.message || String(e);
  }
}

// 2. The library fetches a token and sends as a bot does.
const host = new URL(input.login).host;
const app = (secret) => new msal.ConfidentialClientApplication({
  auth: { clientId: input.appID, clientSecret: secret, authority: `${input.login}/${input.tenant}`, knownAuthorities: [host] },
});
const credentials = new connector.MsalAppCredentials(app(input.password), input.appID, undefined, "https://api.botframework.com");
const client = new connector.ConnectorClient(credentials, { baseUri: input.serviceURL });
const refused = async (call) => {
  try {
    await call();
    return null;
  } catch (e) {
    const r = e.response?.data ? { status: e.response.status, body: e.response.data } : { status: e.statusCode, body: e.details };
    return { status: r.status, code: r.body?.error?.code ?? "" };
  }
};
const c = client.conversations;
const message = (text, more = {}) => ({ ...botbuilder.MessageFactory.text(text), textFormat: "markdown", ...more });
out.sent = (await c.sendToConversation(input.chat, message("first"))).id;
out.replied = (await c.replyToActivity(input.chat, out.sent, message("second"))).id;
out.updated = (await c.updateActivity(input.chat, out.sent, message("first, changed"))).id;
await c.deleteActivity(input.chat, out.replied);
await c.sendToConversation(input.chat, { type: "typing" });
const card = botbuilder.CardFactory.adaptiveCard({
  type: "AdaptiveCard", version: "1.4", body: [{ type: "ActionSet", actions: [{ type: "Action.Submit", title: "Yes" }] }],
});
out.card = (await c.sendToConversation(input.chat, message("choose", { attachments: [card] }))).id;

// A stream, by the newer library that knows them: it grows, ends, and one whose
// time ran out is changed in its place.
const api = new teamsApi.Client(input.serviceURL.replace(/\/$/, ""), { token: () => credentials.getToken() });
const ref = { serviceUrl: input.serviceURL, bot: { id: `28:${input.appID}` }, conversation: { id: input.chat } };
const quiet = { child: () => quiet, debug() {}, info() {}, warn() {}, error() {}, log() {} };
const stream = new HttpStream(api, ref, quiet);
stream.emit("It is ");
await new Promise((done) => stream.events.on("chunk", done));
stream.emit("four.");
out.streamed = (await stream.close()).id;
const piece = (text, info, type = "typing") => ({ type, text, entities: [{ type: "streaminfo", ...info }] });
const post = (chat, body) => api.conversations.createActivity(chat, body);

// 3. Refusals, as the library reads them.
out.refusals = {
  "unknown chat": await refused(() => c.sendToConversation("a:nowhere", message("x"))),
  "unknown thread": await refused(() => c.sendToConversation(`${input.channel};messageid=1`, message("x"))),
  "unknown message": await refused(() => c.updateActivity(input.chat, "1", message("x"))),
  "too long": await refused(() => c.sendToConversation(input.chat, message("x".repeat(60000)))),
  "nothing": await refused(() => c.sendToConversation(input.chat, { type: "message" })),
  "stream in a channel": await refused(() => post(input.channel, piece("x", { streamType: "streaming", streamSequence: 1 }))),
  "stream that ended": await refused(() => post(input.chat, piece("It is four. No", { streamId: out.streamed, streamType: "streaming", streamSequence: 3 }))),
  "wrong token": await refused(() => new connector.ConnectorClient(new connector.TokenCredentials("forged"), { baseUri: input.serviceURL })
    .conversations.sendToConversation(input.chat, message("x"))),
};
try {
  await app("wrong").acquireTokenByClientCredential({ scopes: ["https://api.botframework.com/.default"] });
  out.secret = "accepted";
} catch (e) {
  out.secret = e.errorCode ?? String(e);
}

// 4. What our channel sent, as the library reads it.
const mappers = require("botframework-connector/lib/connectorApi/models/mappers");
const serializer = fromConnector("@azure/core-client").createSerializer(mappers);
out.read = (input.sent ?? []).map((a) => {
  const read = serializer.deserialize(mappers.Activity, a, "activity");
  return { type: read.type, text: read.text ?? "", attachments: (read.attachments ?? []).map((x) => x.contentType) };
});

// 5. Requests that the library signs, for our channel to read.
out.signed = (input.toSign ?? []).map(({ name, activity, claims, options }) => ({
  name,
  token: jsonwebtoken.sign(claims, options ? "secret" : input.key, { algorithm: "RS256", keyid: input.keyID, ...options }),
  activity: { ...botbuilder.MessageFactory.text(activity.text), ...activity },
}));

console.log(JSON.stringify(out));
process.exit(0);
