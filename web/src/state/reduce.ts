// One pure function turns events into what the page shows: live, after a
// reconnect and in a replay.
import type { Event, ToolEvent } from "../wire/types";
import { textOf } from "./items";
import type { EndItem, Item, TextItem, Thread, ThoughtItem, ToolItem } from "./items";

/** reduce applies an event. A thread that does not change is returned as it is. */
export function reduce(t: Thread, e: Event): Thread {
  if (e.event === "attached") return attached(t, e);
  if (e.seq !== undefined) {
    if (t.seq !== undefined && e.seq <= t.seq) return t; // known, or from before
    t = { ...t, seq: e.seq };
  }
  switch (e.event) {
    case "delta":
      return stream(t, e, "text");
    case "reasoning_delta":
      return stream(t, e, "thought");
    case "reasoning_end":
      return close(t, "thought");
    case "stream_end":
      return streamEnd(t, e);
    case "tool_delta":
      return toolDelta(t, e);
    case "message":
      return message(t, e);
    case "user_message":
      return user(t, e);
    case "message_accepted":
      return update(t, "user", (i) => i.turn === e.turn_id, (i) => ({ ...i, state: "sent", why: undefined }));
    case "file_edit":
      return edits(t, e);
    case "question_gone":
    case "question_expired":
      return update(t, "question", (i) => i.id === e.question_id, (i) => ({ ...i, state: i.state === "sent" && !e.text ? "answered" : "gone", why: e.text }));
    case "question_answered":
      return update(t, "question", (i) => i.id === e.question_id, (i) => ({ ...i, state: "answered", option: e.option ?? i.option }));
    case "goal_status":
      return status(t, e);
    case "turn_model_updated":
      return { ...t, model: e.model_name ?? t.model };
    case "turn_end":
      return turnEnd(t, e);
    case "error":
      return failed(t, e);
    default:
      return t; // newer than this page
  }
}

/** attached sets where events continue; what was missed makes the thread stale. */
function attached(t: Thread, e: Event): Thread {
  const missed = e.resumed === true && e.complete === false;
  return { ...t, seq: e.seq, model: e.model_name ?? t.model, running: undefined, stale: t.stale || missed };
}

const add = (t: Thread, i: Item): Thread => ({ ...t, items: [...t.items, i] });

function findLast<K extends Item["kind"]>(t: Thread, kind: K, fits: (i: Extract<Item, { kind: K }>) => boolean): number {
  for (let n = t.items.length - 1; n >= 0; n--) {
    const i = t.items[n]!;
    if (i.kind === kind && fits(i as Extract<Item, { kind: K }>)) return n;
  }
  return -1;
}

function update<K extends Item["kind"]>(
  t: Thread,
  kind: K,
  fits: (i: Extract<Item, { kind: K }>) => boolean,
  change: (i: Extract<Item, { kind: K }>) => Item,
): Thread {
  const n = findLast(t, kind, fits);
  return n < 0 ? t : replace(t, n, change(t.items[n] as Extract<Item, { kind: K }>));
}

function replace(t: Thread, n: number, i: Item): Thread {
  const items = t.items.slice();
  items[n] = i;
  return { ...t, items };
}

const now = (t: Thread) => t.running?.turn;

/** stream appends a piece of text to the one that is being written. */
function stream(t: Thread, e: Event, kind: "text" | "thought"): Thread {
  const piece = e.text ?? "";
  if (piece === "") return t;
  const n = findLast(t, kind, () => true);
  const last = t.items[n] as TextItem | ThoughtItem | undefined;
  if (last?.open && last.id === streamId(e, kind)) return replace(t, n, { ...last, text: last.text + piece });
  return add(close(t, kind), { kind, id: streamId(e, kind), turn: now(t), text: piece, open: true });
}

// A stream without an id is continued until it is closed.
const streamId = (e: Event, kind: string) => `${kind}:${e.stream_id ?? ""}`;

/** close ends the text of a kind that is being written. Its id becomes unique,
 *  because a later stream may have the same. */
function close(t: Thread, kind: "text" | "thought"): Thread {
  return update(t, kind, (i) => i.open, (i) => ({ ...i, open: false, id: `${i.id}@${t.seq ?? t.items.length}` }));
}

function streamEnd(t: Thread, e: Event): Thread {
  if (!e.void) return close(t, "text");
  // The model was interrupted, and the whole text comes again.
  const items = t.items.filter((i) => !((i.kind === "text" && i.open) || (i.kind === "tool" && i.phase === "writing")));
  return { ...t, items };
}

function toolDelta(t: Thread, e: Event): Thread {
  const id = e.call_id ?? "";
  const n = findLast(t, "tool", (i) => i.id === id);
  const old = t.items[n] as ToolItem | undefined;
  if (!old) return add(t, { kind: "tool", id, turn: now(t), name: e.name ?? "", args: e.arguments ?? "", phase: "writing" });
  if (old.phase !== "writing") return t;
  return replace(t, n, { ...old, args: old.args + (e.arguments ?? "") });
}

function tool(t: Thread, e: ToolEvent): Thread {
  const n = findLast(t, "tool", (i) => i.id === e.call_id);
  const old = (t.items[n] as ToolItem | undefined) ?? { kind: "tool" as const, id: e.call_id, turn: now(t), name: e.name, args: "", phase: "running" as const };
  const item: ToolItem = { ...old, name: e.name || old.name, args: e.arguments === undefined ? old.args : textOf(e.arguments) };
  if (e.phase === "start") item.phase = "running";
  else {
    item.phase = e.phase === "error" ? "error" : "done";
    item.result = e.phase === "error" ? e.error : e.result;
    item.ms = e.duration_ms;
    item.untrusted = e.untrusted;
  }
  return n < 0 ? add(t, item) : replace(t, n, item);
}

function message(t: Thread, e: Event): Thread {
  if (e.tool_events) return e.tool_events.reduce(tool, t);
  if (e.question) {
    const q = e.question;
    if (findLast(t, "question", (i) => i.id === q.id) >= 0) return t;
    return add(t, { kind: "question", id: q.id, turn: e.turn_id, text: e.text ?? "", options: q.options ?? [], code: q.code, expires: q.expires, state: "open" });
  }
  if (e.kind === "notice") return add(t, { kind: "notice", id: `notice@${t.seq ?? t.items.length}`, text: e.text ?? "" });
  if (e.kind) return t; // hints for clients that show no tools
  return answer(t, e);
}

/** answer is a text as a whole. What was streamed of it before is replaced. */
function answer(t: Thread, e: Event): Thread {
  const media = e.media_urls?.map((m) => ({ name: m.name ?? m.url, url: m.url }));
  const id = e.id ? `message:${e.id}` : `message@${t.seq ?? t.items.length}`;
  if (findLast(t, "text", (i) => i.id === id) >= 0) return t; // sent again
  const text = e.text ?? "";
  const n = findLast(t, "text", (i) => i.turn === e.turn_id && text.endsWith(i.text));
  const old = t.items[n] as TextItem | undefined;
  if (old && isLastText(t, n)) return replace(t, n, { ...old, id, text, open: false, media });
  if (text === "" && !media) return t;
  if (text === "" && media) {
    const last = findLast(t, "text", (i) => i.turn === e.turn_id);
    if (last >= 0) return replace(t, last, { ...(t.items[last] as TextItem), media });
  }
  return add(close(t, "text"), { kind: "text", id, turn: e.turn_id, text, open: false, media });
}

function isLastText(t: Thread, n: number): boolean {
  return t.items.slice(n + 1).every((i) => i.kind !== "text" && i.kind !== "user");
}

function user(t: Thread, e: Event): Thread {
  if (e.turn_id && findLast(t, "user", (i) => i.turn === e.turn_id) >= 0) return t; // our own
  const text = e.text ?? "";
  return add(t, { kind: "user", id: `user:${e.turn_id ?? t.seq ?? t.items.length}`, turn: e.turn_id, text, state: "sent", command: text.startsWith("/") });
}

function edits(t: Thread, e: Event): Thread {
  let out = t;
  for (const edit of e.edits ?? []) {
    out = update(out, "tool", (i) => i.id === edit.call_id, (i) => ({ ...i, edits: [...(i.edits ?? []), edit] }));
  }
  return out;
}

function status(t: Thread, e: Event): Thread {
  if (e.status !== "running") return { ...t, running: undefined };
  // A turn that we know nothing of had begun before we came.
  const known = t.items.some((i) => i.kind === "user" && i.turn === e.turn_id);
  return { ...t, running: { turn: e.turn_id, since: e.started_at }, partial: known || e.seq !== undefined ? t.partial : (e.turn_id ?? "") };
}

function turnEnd(t: Thread, e: Event): Thread {
  const id = `end:${e.turn_id ?? e.id ?? t.seq ?? t.items.length}`;
  if (findLast(t, "end", (i) => i.id === id) >= 0) return t;
  const end: EndItem = { kind: "end", id, turn: e.turn_id, ms: e.latency_ms, usage: e.usage, model: e.model, stop: e.stop_reason, error: textOf(e.error) || undefined };
  let items: Item[] = t.items.filter((i) => !(i.kind === "tool" && i.phase === "writing"));
  items = items.map((i) => (i.kind === "tool" && i.phase === "running" ? { ...i, phase: "lost" as const } : i));
  t = close(close({ ...t, items }, "text"), "thought");
  return { ...add(t, end), running: undefined, partial: undefined, stale: t.stale || t.partial !== undefined };
}

/** failed marks the message that was refused; other errors become a notice. */
function failed(t: Thread, e: Event): Thread {
  const why = [e.detail, e.reason].filter(Boolean).join(": ");
  const n = findLast(t, "user", (i) => e.turn_id !== undefined && i.turn === e.turn_id && i.state !== "sent");
  if (n >= 0) return update(t, "user", (i) => i.turn === e.turn_id, (i) => ({ ...i, state: "failed", why }));
  return add(t, { kind: "notice", id: `error@${t.items.length}`, text: why, bad: true });
}
