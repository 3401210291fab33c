// Stored conversations, as the same parts that events make.
import type { Said, ThreadPage, Turned } from "../wire/types";
import type { Outgoing } from "../wire/outbox";
import { textOf } from "./items";
import type { Item, Thread } from "./items";

/** itemsOf shows stored messages. */
export function itemsOf(page: Pick<ThreadPage, "messages" | "turns">): Item[] {
  const out: Item[] = [];
  const turns = new Map(page.turns?.map((t) => [t.turn_id, t]));
  const last = new Map(page.messages.map((m) => [m.turn_id, m.index]));
  for (const m of page.messages) {
    message(out, m, m.turn_id ? turns.get(m.turn_id) : undefined);
    if (m.role === "assistant" && (m.turn_id === undefined || last.get(m.turn_id) === m.index)) end(out, m, m.turn_id ? turns.get(m.turn_id) : undefined);
  }
  return out;
}

function message(out: Item[], m: Said, turn: Turned | undefined) {
  const media = m.attachments ?? m.media?.map((name) => ({ name }));
  if (m.event === "answer") {
    const asked = out.findLastIndex((i) => i.kind === "question");
    const q = out[asked];
    if (q?.kind === "question" && q.option === undefined) {
      out[asked] = { ...q, state: "answered", option: m.content.trim() };
      return;
    }
  }
  if (m.event === "question") {
    out.push({ kind: "question", id: `#${m.index}`, turn: m.turn_id, text: m.content, options: [], code: "", state: "gone" });
    return;
  }
  if (m.role === "user") {
    out.push({ kind: "user", id: m.turn_id ? `user:${m.turn_id}` : `#${m.index}`, turn: m.turn_id, text: m.content, at: m.at, media, command: m.command, state: "sent" });
    return;
  }
  if (m.reasoning) out.push({ kind: "thought", id: `#${m.index}r`, turn: m.turn_id, text: m.reasoning, open: false });
  if (m.content.trim() !== "" || media) {
    out.push({ kind: "text", id: `#${m.index}`, turn: m.turn_id, text: m.content, open: false, at: m.at, media, interrupted: m.interrupted });
  }
  for (const c of m.tool_calls ?? []) {
    const phase = c.result === undefined ? ("lost" as const) : c.is_error ? ("error" as const) : ("done" as const);
    const edits = turn?.edits?.filter((e) => e.call_id === c.call_id);
    out.push({ kind: "tool", id: c.call_id, turn: m.turn_id, name: c.name, args: textOf(c.arguments), phase, result: c.result, untrusted: c.untrusted, ms: c.duration_ms, edits: edits?.length ? edits : undefined });
  }
}

/** end is the line below a turn. */
function end(out: Item[], m: Said, turn: Turned | undefined) {
  turn?.notices?.forEach((n, i) => out.push({ kind: "notice", id: `#${m.index}n${i}`, text: n.text }));
  const ms = turn?.duration_ms ?? m.latency_ms;
  if (!ms && !turn?.usage && !turn?.error) return;
  out.push({ kind: "end", id: `end:${m.turn_id ?? m.index}`, turn: m.turn_id, ms, usage: turn?.usage, model: turn?.model, stop: turn?.stop_reason, error: turn?.error });
}

/** withPage puts the newest page in the place of what is shown. What a running
 *  turn has shown and what waits in the outbox is not on the page yet. */
export function withPage(t: Thread, page: ThreadPage): Thread {
  const items = itemsOf(page);
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
  return { ...t, items: running, more: page.has_more, before: page.before, loaded: true, stale: false };
}

/** withOlder puts an older page before what is shown. */
export function withOlder(t: Thread, page: ThreadPage): Thread {
  const has = new Set(t.items.map((i) => i.id));
  const older = itemsOf(page).filter((i) => !has.has(i.id));
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
