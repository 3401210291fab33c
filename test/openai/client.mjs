// Talks to the API of nanobot at argv[2] with the key argv[3] through the
// official client, and prints what the client understood, one JSON object.
import OpenAI from "openai";

const [, , baseURL, apiKey] = process.argv;
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = "nanobot";
const ask = (content) => [{ role: "user", content }];
const out = {};

async function refused(promise) {
  try {
    await promise;
    return "no error";
  } catch (e) {
    return { name: e.constructor.name, status: e.status ?? null, code: e.code ?? null, request: /^req_/.test(e.requestID ?? "") };
  }
}

out.models = (await client.models.list()).data.map((m) => m.id);

// A whole answer, over a history of the client.
const chat = await client.chat.completions.create({
  model,
  messages: [
    { role: "system", content: "Be brief." },
    { role: "user", content: "My name is Ada." },
    { role: "assistant", content: "Hello Ada." },
    { role: "user", content: "recall" },
  ],
});
out.chat = {
  text: chat.choices[0].message.content, role: chat.choices[0].message.role, finish: chat.choices[0].finish_reason,
  object: chat.object, usage: chat.usage.total_tokens === chat.usage.prompt_tokens + chat.usage.completion_tokens && chat.usage.prompt_tokens > 0,
  request: /^req_/.test(chat._request_id),
};

// A stream, put together by the client.
let chunks = 0;
const stream = client.chat.completions.stream({ model, messages: ask("stream"), stream_options: { include_usage: true } });
stream.on("content", () => chunks++);
const streamed = await stream.finalChatCompletion();
out.stream = { text: streamed.choices[0].message.content, finish: streamed.choices[0].finish_reason, pieces: chunks > 1, usage: streamed.usage.total_tokens > 0 };

// The agent's tool calls, for those who ask to see them.
const seen = [];
let text = "";
for await (const chunk of await client.chat.completions.create({ model, messages: ask("tool"), stream: true, nanobot: { events: true } })) {
  if (chunk.nanobot?.type === "tool") seen.push([chunk.nanobot.tool.name, chunk.nanobot.tool.phase]);
  text += chunk.choices[0]?.delta?.content ?? "";
}
out.tools = { seen, text };
const whole = await client.chat.completions.create({ model, messages: ask("tool"), nanobot: { events: true } });
out.toolsWhole = whole.nanobot.events.filter((e) => e.type === "tool").map((e) => [e.tool.name, e.tool.phase]);

// A conversation that is kept by nanobot.
await client.chat.completions.create({ model, messages: ask("My name is Bob."), session_id: "kept" });
out.kept = (await client.chat.completions.create({ model, messages: ask("recall"), session_id: "kept" })).choices[0].message.content;
out.deleted = (await client.delete("/sessions/kept")).deleted;
out.forgotten = (await client.chat.completions.create({ model, messages: ask("recall"), session_id: "kept" })).choices[0].message.content;

// A picture.
const dot = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
out.picture = (await client.chat.completions.create({ model, messages: ask([{ type: "text", text: "pictures" }, { type: "image_url", image_url: { url: dot } }]) })).choices[0].message.content;

// The newer protocol.
const response = await client.responses.create({ model, instructions: "Be brief.", input: "stream" });
out.response = { text: response.output_text, status: response.status };
const rstream = client.responses.stream({ model, input: "stream" });
const deltas = [];
rstream.on("response.output_text.delta", (e) => deltas.push(e.delta));
const final = await rstream.finalResponse();
out.responseStream = { text: final.output_text, same: deltas.join("") === final.output_text, pieces: deltas.length > 1, status: final.status };

// What goes wrong.
out.errors = {
  key: await refused(new OpenAI({ baseURL, apiKey: "wrong-key-wrong-key", maxRetries: 0 }).models.list()),
  model: await refused(client.chat.completions.create({ model: "none", messages: ask("x") })),
  tools: await refused(client.chat.completions.create({ model, messages: ask("x"), tools: [{ type: "function", function: { name: "f" } }] })),
  upstream: await refused(client.chat.completions.create({ model, messages: ask("fail") })),
  midStream: await refused(client.chat.completions.stream({ model, messages: ask("fail late") }).finalChatCompletion()),
};

console.log(JSON.stringify(out));
