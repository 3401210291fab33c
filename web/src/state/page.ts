// Stored conversations, as the same parts that events make.
import type { Said, ThreadPage } from "../wire/types";
import type { Outgoing } from "../wire/outbox";
import { textOf } from "./items";
import type { Item, Thread } from "./items";

/** itemsOf shows stored messages. */
export function itemsOf(messages: Said[]): Item[] {
  const out: Item[] = [];
  for (const m of messages) {
    const media = m.media?.map((f) => (typeof f === "string" ? { name: f } : f));
    if (m.role === "user") {
      out.push({ kind: "user", id: m.turn_id ? `user:${m.turn_id}` : `#${m.index}`, turn: m.turn_id, text: m.content, at: m.at, media, command: m.command, state: "sent" });
      continue;
    }
    if (m.reasoning) out.push({ kind: "thought", id: `#${m.index}r`, turn: m.turn_id, text: m.reasoning, open: false });
    if (m.content.trim() !== "" || media) {
      out.push({ kind: "text", id: `#${m.index}`, turn: m.turn_id, text: m.content, open: false, at: m.at, media, interrupted: m.interrupted });
    }
    for (const c of m.tool_calls ?? []) {
      const phase = c.result === undefined ? ("lost" as const) : c.is_error ? ("error" as const) : ("done" as const);
      out.push({ kind: "tool", id: c.call_id, turn: m.turn_id, name: c.name, args: textOf(c.arguments), phase, result: c.result, untrusted: c.untrusted, ms: c.duration_ms, edits: c.edits });
    }
    if (m.latency_ms || m.usage) {
      out.push({ kind: "end", id: `end:${m.id ?? m.turn_id ?? m.index}`, turn: m.turn_id, ms: m.latency_ms, usage: m.usage, model: m.model, stop: m.stop_reason, error: m.error });
    }
  }
  return out;
}

/** withPage puts the newest page in the place of what is shown. What a running
 *  turn has shown and what waits in the outbox is not on the page yet. */
export function withPage(t: Thread, page: ThreadPage): Thread {
  const items = itemsOf(page.messages);
  const turn = t.running?.turn;
  const has = new Set(items.map((i) => i.id));
  const texts = new Set(items.flatMap((i) => (i.kind === "text" ? [`${i.turn} ${i.text}`] : [])));
  for (const i of t.items) {
    const live = i.kind === "user" ? i.state !== "sent" : i.kind === "question" ? i.state === "open" || i.state === "sent" : "turn" in i && i.turn !== undefined && i.turn === turn;
    if (!live || has.has(i.id) || (i.kind === "text" && texts.has(`${i.turn} ${i.text}`))) continue;
    if (i.kind === "thought" && !i.open) continue;
    items.push(i);
  }
  const running = items.map((i) => (i.kind === "tool" && i.phase === "lost" && turn !== undefined && i.turn === turn ? { ...i, phase: "running" as const } : i));
  // Events that the page contains already are skipped when they come.
  const seq = page.seq !== undefined && t.seq !== undefined ? Math.max(page.seq, t.seq) : t.seq;
  return { ...t, seq, items: running, more: page.has_more, before: page.before, loaded: true, stale: false };
}

/** withOlder puts an older page before what is shown. */
export function withOlder(t: Thread, page: ThreadPage): Thread {
  const has = new Set(t.items.map((i) => i.id));
  const older = itemsOf(page.messages).filter((i) => !has.has(i.id));
  return { ...t, items: [...older, ...t.items], more: page.has_more && page.messages.length > 0, before: page.before };
}

/** withSent shows a message that was typed here, and is not accepted yet. */
export function withSent(t: Thread, m: Outgoing): Thread {
  const at = t.items.findIndex((i) => i.kind === "user" && i.turn === m.turn);
  const state = m.failed === undefined ? ("pending" as const) : ("failed" as const);
  const item: Item = { kind: "user", id: `user:${m.turn}`, turn: m.turn, text: m.text, at: m.at, command: m.text.startsWith("/"), state, why: m.failed };
  if (at < 0) return { ...t, items: [...t.items, item] };
  const old = t.items[at]!;
  if (old.kind === "user" && old.state === "sent") return t;
  const items = t.items.slice();
  items[at] = item;
  return { ...t, items };
}
