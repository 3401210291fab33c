// Reads a list of {name, wire, url, model} from stdin, asks each server through
// the vendor's SDK, and prints what the SDK understood, one JSON object per
// line, in the words of our drivers.
import OpenAI from "openai";
import Anthropic from "@anthropic-ai/sdk";

const tool = (name) => ({ name, description: `The tool ${name}.`, schema: { type: "object", properties: { p: {} } } });
const tools = ["f", "g"].map(tool);
const messages = [{ role: "user", content: "hi" }];
const parsed = (text) => (text === "" ? {} : JSON.parse(text));

async function chat(c) {
  const client = new OpenAI({ baseURL: c.url, apiKey: "test-key", maxRetries: 0 });
  const stream = client.chat.completions.stream({
    model: c.model, max_tokens: 100, messages, stream_options: { include_usage: true },
    tools: tools.map((t) => ({ type: "function", function: { name: t.name, description: t.description, parameters: t.schema } })),
  });
  const r = await stream.finalChatCompletion();
  const m = r.choices[0].message;
  return {
    text: m.content ?? "", finish: r.choices[0].finish_reason,
    calls: (m.tool_calls ?? []).map((t) => ({ id: t.id, name: t.function.name, args: parsed(t.function.arguments) })),
    usage: r.usage ? [r.usage.prompt_tokens, r.usage.completion_tokens] : null,
  };
}

async function claude(c) {
  const client = new Anthropic({ baseURL: c.url.replace(/\/v1$/, ""), apiKey: "test-key", maxRetries: 0 });
  const stream = client.messages.stream({
    model: c.model, max_tokens: 2000, messages,
    tools: tools.map((t) => ({ name: t.name, description: t.description, input_schema: t.schema })),
  });
  const m = await stream.finalMessage();
  const of = (type) => m.content.filter((b) => b.type === type);
  const u = m.usage;
  return {
    text: of("text").map((b) => b.text).join(""), thinking: of("thinking").map((b) => b.thinking).join(""),
    finish: { end_turn: "stop", tool_use: "tool_calls", max_tokens: "length" }[m.stop_reason] ?? m.stop_reason,
    calls: of("tool_use").map((b) => ({ id: b.id, name: b.name, args: b.input })),
    usage: [u.input_tokens + (u.cache_creation_input_tokens ?? 0) + (u.cache_read_input_tokens ?? 0), u.output_tokens],
  };
}

async function responses(c) {
  const client = new OpenAI({ baseURL: c.url, apiKey: "test-key", maxRetries: 0 });
  const stream = client.responses.stream({
    model: c.model, max_output_tokens: 2000, store: false, input: [{ role: "user", content: [{ type: "input_text", text: "hi" }] }],
    tools: tools.map((t) => ({ type: "function", name: t.name, description: t.description, parameters: t.schema, strict: false })),
  });
  const r = await stream.finalResponse();
  const parts = r.output.filter((o) => o.type === "message").flatMap((o) => o.content);
  const calls = r.output.filter((o) => o.type === "function_call");
  const refused = parts.some((p) => p.type === "refusal");
  const cut = { max_output_tokens: "length" }[r.incomplete_details?.reason] ?? r.incomplete_details?.reason;
  return {
    text: parts.map((p) => p.text ?? p.refusal).join(""),
    finish: cut ?? (refused ? "refusal" : calls.length > 0 ? "tool_calls" : "stop"),
    calls: calls.map((o) => ({ id: `${o.call_id}|${o.id}`, name: o.name, args: parsed(o.arguments) })),
    usage: r.usage ? [r.usage.input_tokens, r.usage.output_tokens] : null,
  };
}

let input = "";
for await (const chunk of process.stdin) input += chunk;
for (const c of JSON.parse(input)) {
  let out;
  try {
    out = await { strm: chat, msgs: claude, resp: responses }[c.wire](c);
  } catch (e) {
    out = { error: String(e?.message ?? e).slice(0, 300) };
  }
  process.stdout.write(JSON.stringify({ name: c.name, ...out }) + "\n");
}
