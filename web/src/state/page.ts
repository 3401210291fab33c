// Stored conversations, as the same parts that events make.
import type * as api from "../wire/api";
import type { Call, Said, ThreadPage, Turned } from "../wire/types";
import type { Outgoing } from "../wire/outbox";
import { revived, settled, storedAs, textOf, works } from "./items";
import type { EndItem, Item, Thread } from "./items";

/** itemsOf shows stored messages. */
export function itemsOf(page: Pick<api.StoredPage, "messages" | "turns" | "subagents" | "has_newer" | "of">): Item[] {
  const out: Item[] = [];
  const turns = new Map(page.turns?.map((t) => [t.turn_id, t]));
  const last = new Map(page.messages.map((m) => [m.turn_id, m.index]));
  for (const stored of page.messages) {
    // The log has words for the model instead of an answer that failed or was
    // stopped; the line below the turn says it to people.
    const turn = stored.turn_id ? turns.get(stored.turn_id) : undefined;
    const failed =
      turn?.error && last.get(stored.turn_id) === stored.index && /^\[No answer: [^\]]*\]$/.test(stored.content);
    const m = failed || (stored.interrupted && turn?.stop_reason === "cancelled") ? { ...stored, content: "" } : stored;
    message(out, m, turn, page.of);
    if (m.role === "assistant" && (m.turn_id === undefined || last.get(m.turn_id) === m.index)) end(out, m, turn);
  }

  const all = nested(out, page.has_newer ? undefined : page.subagents);
  return page.has_newer
    ? all.map((i) => (i.kind === "question" && i.state === "open" ? { ...i, state: "gone" } : i))
    : all; // the answer comes later
}

function message(out: Item[], m: Said, turn: Turned | undefined, of: string | undefined) {
  const media = m.attachments ?? m.media?.map((name) => ({ name }));
  if (m.event === "answer") {
    const asked = out.findLastIndex((i) => i.kind === "question");
    const q = out[asked];
    if (q?.kind === "question" && q.option === undefined) {
      out[asked] = { ...q, state: "answered", ...answerOf(m.content) };
      return;
    }
  }

  if (m.event === "question") {
    out.push({
      kind: "question",
      id: `#${m.index}`,
      turn: m.turn_id,
      text: m.content,
      options: [],
      code: "",
      state: "gone",
    });
    return;
  }

  if (m.role === "user" && m.event) {
    out.push({ kind: "note", id: `#${m.index}`, turn: m.turn_id, event: m.event, text: m.content, task: m.task_id });
    return;
  }

  if (m.role === "user") {
    out.push({
      kind: "user",
      id: m.turn_id ? `user:${m.turn_id}` : `#${m.index}`,
      index: m.index,
      turn: m.turn_id,
      text: m.content,
      at: m.at,
      media,
      command: m.command,
      state: "sent",
      begun: true,
    });
    return;
  }

  if (m.reasoning) out.push({ kind: "thought", id: `#${m.index}r`, turn: m.turn_id, text: m.reasoning, open: false });
  if (m.content.trim() !== "" || media) {
    out.push({
      kind: "text",
      id: `#${m.index}`,
      index: m.index,
      turn: m.turn_id,
      text: m.content,
      open: false,
      at: m.at,
      media,
      interrupted: m.interrupted,
      plain: m.plain,
      calls: m.tool_calls !== undefined,
    });
  }

  for (const c of m.tool_calls ?? []) {
    const phase = c.result === undefined ? "lost" : c.denied ? "denied" : c.is_error ? "error" : "done";
    const edits = turn?.edits?.filter((e) => e.call_id === c.call_id);
    out.push({
      kind: "tool",
      id: c.call_id,
      turn: m.turn_id,
      name: c.name,
      args: textOf(c.arguments),
      phase,
      result: c.result,
      untrusted: c.untrusted,
      ms: c.duration_ms,
      edits: edits?.length ? edits : undefined,
    });

    if (phase === "done") out.push(...shownBy(m, c, of));
  }
}

/** shownBy is what a call showed to the person: a message with files, or a question. */
function shownBy(m: Said, c: Call, of: string | undefined): Item[] {
  const a = typeof c.arguments === "object" ? (c.arguments as Record<string, unknown> | null) : null;
  const text = (x: unknown) => (typeof x === "string" ? x.trim() : "");
  const texts = (x: unknown) => (Array.isArray(x) ? x.flat().filter((o) => typeof o === "string") : []);
  const ask = (said: string, options: string[]): Item => ({
    kind: "question",
    id: c.call_id,
    turn: m.turn_id,
    text: said,
    options,
    state: "open",
  });

  if (c.name === "ask_user") {
    const options = texts(a?.options);
    return [ask([text(a?.question), ...options.map((o, n) => `${n + 1}. ${o}`)].join("\n"), options)];
  }

  const [, channel = "", chat = ""] = /^sent to (\S+) (\S+)/.exec(c.result ?? "") ?? [];
  if (c.name !== "message" || !a || ((a.channel || a.chat_id) && `${of}:`.indexOf(`${channel}:${chat}:`) !== 0))
    return [];
  const buttons = texts(a.buttons);
  if (buttons.length > 0) return [ask(text(a.content), buttons)];
  // A guest has other files by the same names.
  const media = texts(a.media).map((path) => ({
    name: path.slice(path.lastIndexOf("/") + 1),
    path: of?.startsWith("websocket:") ? path : undefined,
  }));
  return [
    {
      kind: "text",
      id: `#${m.index}m${c.call_id}`,
      turn: m.turn_id,
      text: text(a.content),
      open: false,
      at: m.at,
      media,
      calls: true,
    },
  ];
}

/** answerOf reads a stored answer: the option, and the code of the question or a
 *  remark behind it. */
function answerOf(said: string): { option: string; remark?: string } {
  const [option = "", ...rest] = said.trim().split(/\s+/);
  const remark = rest.filter((w, i) => i > 0 || !/^[a-z]\d[a-z]\d$/.test(w)).join(" ");
  return { option, remark: remark || undefined };
}

/** end is the line below a turn. */
function end(out: Item[], m: Said, turn: Turned | undefined) {
  turn?.notices?.forEach((n, i) => out.push({ kind: "notice", id: `#${m.index}n${i}`, text: n.text }));
  const ms = turn?.duration_ms ?? m.latency_ms;
  if (!ms && !turn?.usage && !turn?.error) return;
  const item: EndItem = {
    kind: "end",
    id: `end:${m.turn_id ?? m.index}`,
    turn: m.turn_id,
    ms,
    usage: turn?.usage,
    model: turn?.model,
    stop: turn?.stop_reason,
    error: turn?.error,
  };

  if (turn?.fallback) item.fallback = true;
  if (turn?.undo_id && turn.edits?.length)
    Object.assign(item, { undo: turn.undo_id, files: new Set(turn.edits.map((x) => x.path)).size });
  if (turn?.undone_by) item.undone = turn.undone_by;
  out.push(item);
}

/** nested puts what subagents found into the calls that started them, which name
 *  them in their result. One that neither runs nor was heard of is lost. */
function nested(items: Item[], running?: readonly string[]): Item[] {
  const notes = new Map(items.flatMap((i) => (i.kind === "note" && i.task ? [[i.task, i.text]] : [])));
  const placed = new Set<string>();
  const out = settled(items).map((i): Item => {
    if (i.kind !== "tool" || !works(i)) return i;
    const names = (id: string) => i.result!.includes(id);
    const task = [...notes.keys()].find(names);
    if (task === undefined) return running ? { ...i, phase: running.some(names) ? "done" : "lost" } : i;
    placed.add(task);
    return { ...i, phase: "done", answer: notes.get(task) };
  });

  return out.filter((i) => i.kind !== "note" || !i.task || !placed.has(i.task));
}

const sayingOf = (i: Item) =>
  i.kind === "text" || i.kind === "thought" ? `${i.kind} ${i.turn} ${i.text.trim()}` : undefined;

/** named gives stored texts the ids under which they are on the screen: an element
 *  that changes its name is built again, and loses where the person reads. */
function named(stored: Item[], shown: readonly Item[]): Item[] {
  const ids = new Map(shown.map((i) => [sayingOf(i), i.id]));
  return stored.map((i) => {
    const saying = sayingOf(i);
    const id = saying && ids.get(saying);
    if (!id) return i;
    ids.delete(saying); // one that is said twice has two
    return { ...i, id };
  });
}

/** isLive reports whether an item can be missing on a page that was just read. */
function isLive(i: Item, running: string | undefined): boolean {
  const runs = "turn" in i && i.turn !== undefined && i.turn === running;
  switch (i.kind) {
    case "user":
      return i.state !== "sent" || !i.begun || runs; // one that was accepted is in the log when its turn begins
    case "question":
      return i.state === "open" || i.state === "sent";
    default:
      return runs;
  }
}

/** withPage replaces what is shown of the newest page by that page; older pages
 *  stay, because the person may be there. What a running turn has shown and what
 *  waits in the outbox is not on the page yet. */
export function withPage(t: Thread, page: ThreadPage): Thread {
  const newest = named(itemsOf(page), t.items);
  const at =
    t.loaded && page.has_more
      ? Math.max(
          0,
          t.items.findIndex((i) => i.id === newest[0]?.id),
        )
      : 0;

  const items = at > 0 ? nested([...t.items.slice(0, at), ...newest], page.subagents) : newest;
  const turn = t.running?.turn;
  const has = new Set(items.map((i) => i.id));
  const texts = new Set(items.flatMap((i) => (i.kind === "text" ? [`${i.turn} ${i.text}`] : [])));
  const shown = t.items.slice(at);
  const known = (i: Item) => has.has(i.id) || (i.kind === "text" && texts.has(`${i.turn} ${i.text}`));
  const stored = shown.findLastIndex((i) => (i.kind === "text" || i.kind === "tool") && known(i)); // with the thoughts before it
  shown.forEach((i, n) => {
    if (isLive(i, turn) && !known(i) && !(i.kind === "thought" && n < stored)) items.push(i);
  });
  // What a command printed so far, and what a subagent did, is in no page.
  const output = new Map(
    t.items.flatMap((i) => (i.kind === "tool" && i.output !== undefined ? [[i.id, i.output]] : [])),
  );
  const all = (t.running ? revived(items, turn) : items).map((i) =>
    i.kind === "tool" && (i.phase === "running" || works(i)) && output.has(i.id)
      ? { ...i, output: output.get(i.id) }
      : i,
  );

  const older = at > 0 ? {} : { more: page.has_more, before: page.before };
  return { ...t, items: all, ...older, loaded: true, stale: false, frozen: undefined };
}

/** withOlder puts an older page before what is shown. */
export function withOlder(t: Thread, page: ThreadPage): Thread {
  const has = new Set(t.items.map((i) => i.id));
  const older = itemsOf(page).filter((i) => !has.has(i.id));
  return {
    ...t,
    items: nested([...older, ...t.items], t.newer ? undefined : page.subagents),
    more: page.has_more && page.messages.length > 0,
    before: page.before,
  };
}

/** withNewer puts a newer page behind what is shown. */
export function withNewer(t: Thread, page: ThreadPage): Thread {
  const has = new Set(t.items.map((i) => i.id));
  const items = itemsOf(page).filter((i) => !has.has(i.id));
  return {
    ...t,
    items: nested([...t.items, ...items], page.has_newer ? undefined : page.subagents),
    newer: page.has_newer === true && page.messages.length > 0,
    after: page.after ?? t.after,
  };
}

/** withSent shows a message that was typed here, and is not accepted yet. */
export function withSent(t: Thread, m: Outgoing): Thread {
  const at = t.items.findIndex((i) => i.kind === "user" && i.turn === m.turn);
  const state = m.failed === undefined ? ("pending" as const) : ("failed" as const);
  const item: Item = {
    kind: "user",
    id: `user:${m.turn}`,
    turn: m.turn,
    text: storedAs(m.text),
    at: m.at,
    media: m.media?.map(({ name, blob }) => ({ name, blob })),
    command: storedAs(m.text).startsWith("/"),
    state,
    why: m.failed,
  };

  if (at < 0) return { ...t, items: settled([...t.items, item]) };
  const old = t.items[at]!;
  if (old.kind === "user" && old.state === "sent") return t;
  const items = t.items.slice();
  items[at] = item;
  return { ...t, items };
}
