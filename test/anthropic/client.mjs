// Talks to the API of nanobot at argv[2] with the key argv[3] through Anthropic's
// official client, and prints what the client understood, one JSON object.
// client.py does the same.
import Anthropic from "@anthropic-ai/sdk";

const [, , baseURL, key] = process.argv;
const options = { baseURL, maxRetries: 0 };
const client = new Anthropic({ ...options, apiKey: key, authToken: null });
const base = { model: "nanobot", max_tokens: 1024 };
const ask = (content) => [{ role: "user", content }];
const isID = (id) => /^req_/.test(id ?? "");
const texts = (message) => message.content.filter((b) => b.type === "text").map((b) => b.text).join("");
const out = {};

async function refused(promise) {
  try {
    await promise;
    return "no error";
  } catch (e) {
    return { name: e.constructor.name, status: e.status ?? null, type: e.type ?? null, request: isID(e.requestID) };
  }
}

const models = [];
for await (const m of client.models.list()) models.push(m.id);
out.models = models;
out.model = (await client.models.retrieve("nanobot")).display_name;

// A whole answer, over a history of the client.
const message = await client.messages.create({
  ...base,
  system: [{ type: "text", text: "Be brief." }],
  messages: [
    { role: "user", content: "My name is Ada." },
    { role: "assistant", content: [{ type: "text", text: "Hello Ada." }] },
    { role: "user", content: [{ type: "text", text: "Who am I?" }] },
  ],
});
out.message = {
  text: texts(message), role: message.role, type: message.type, stop: message.stop_reason,
  usage: message.usage.input_tokens > 0 && message.usage.output_tokens > 0, request: isID(message._request_id),
};

// A stream with what the model thinks, put together by the client.
const pieces = [];
const stream = client.messages.stream({ ...base, thinking: { type: "enabled", budget_tokens: 1024 }, messages: ask("count") });
stream.on("text", (t) => pieces.push(t));
const streamed = await stream.finalMessage();
out.stream = {
  blocks: streamed.content.map((b) => [b.type, b.text ?? b.thinking]), same: pieces.join("") === texts(streamed), pieces: pieces.length > 1,
  stop: streamed.stop_reason, usage: streamed.usage.input_tokens > 0 && streamed.usage.output_tokens > 0,
};

// The agent's tool calls, for those who ask to see them.
const seen = [];
const work = client.messages.stream({ ...base, messages: ask("look"), nanobot: { events: true } });
work.on("streamEvent", (e) => {
  if (e.type === "nanobot_event" && e.event.type === "tool") seen.push([e.event.tool.name, e.event.tool.phase]);
});
out.work = { text: texts(await work.finalMessage()), seen };

// A conversation that is kept by nanobot.
const headers = { "X-Nanobot-Session": "kept" };
await client.messages.create({ ...base, messages: ask("My name is Bob.") }, { headers });
out.kept = texts(await client.messages.create({ ...base, messages: ask("Who am I now?") }, { headers }));
out.deleted = (await client.delete("/v1/sessions/kept")).deleted;

// A picture and a document.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
out.files = texts(await client.messages.create({
  ...base,
  messages: ask([
    { type: "image", source: { type: "base64", media_type: "image/png", data: dot } },
    { type: "document", title: "plan", source: { type: "text", media_type: "text/plain", data: "The plan is to rest." } },
    { type: "text", text: "What is this?" },
  ]),
}));

// Tools of the client: not to be called, and results of earlier ones.
const tools = [{ name: "weather", input_schema: { type: "object" } }];
out.tools = texts(await client.messages.create({
  ...base,
  tools,
  tool_choice: { type: "none" },
  messages: [
    ...ask("Is it sunny?"),
    { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "weather", input: { place: "here" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "sunny" }, { type: "text", text: "So?" }] },
  ],
}));

// The other way to send the key.
out.bearer = texts(await new Anthropic({ ...options, apiKey: null, authToken: key }).messages.create({ ...base, messages: ask("hi") }));

// What goes wrong.
const hi = { ...base, messages: ask("hi") };
out.errors = {
  key: await refused(new Anthropic({ ...options, apiKey: "wrong-key-wrong-key", authToken: null }).messages.create(hi)),
  model: await refused(client.messages.create({ ...hi, model: "claude-none" })),
  tools: await refused(client.messages.create({ ...hi, tools })),
  picture: await refused(client.messages.create({ ...base, messages: ask([{ type: "image", source: { type: "url", url: "http://127.0.0.1:1/x.png" } }]) })),
  count: await refused(client.messages.countTokens({ model: "nanobot", messages: ask("hi") })),
  batches: await refused(client.messages.batches.list()),
  upstream: await refused(client.messages.create({ ...base, messages: ask("fail") })),
  midStream: await refused(client.messages.stream({ ...base, messages: ask("fail late") }).finalMessage()),
};

console.log(JSON.stringify(out));
