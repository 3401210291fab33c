// One pure function turns events into what the page shows: live, after a
// reconnect and in a replay.
import type { Event, ToolEvent } from "../wire/types";
import { revived, settled, storedAs, textOf, works } from "./items";
import type { EndItem, Item, QuestionItem, TextItem, Thread, ThoughtItem, ToolItem, UserItem } from "./items";

/** reduce applies an event. A thread that does not change is returned as it is. */
export function reduce(t: Thread, e: Event): Thread {
  if (e.event === "attached") return attached(t, e);
  if (e.seq !== undefined) {
    if (t.seq !== undefined && e.seq <= t.seq) return t; // known, or from before
    const late = t.read !== undefined && e.seq <= t.read; // it is in the page already
    t = { ...t, seq: e.seq, ...(late ? { frozen: t.frozen ?? t.items, stale: true } : { read: undefined }) };
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
    case "tool_output":
      return printed(t, e);
    case "message":
      return message(t, e);
    case "user_message":
      return user(t, e);
    case "message_accepted":
      return update(
        t,
        "user",
        (i) => i.turn === e.turn_id,
        (i) => ({ ...i, state: "sent", why: undefined }),
      );
    case "file_edit":
      return edits(t, e);
    case "question_gone":
    case "question_expired": // what was answered stays so
      return update(
        t,
        "question",
        (i) => i.id === e.question_id && i.state !== "answered",
        (i) => ({ ...i, state: i.state === "sent" && !e.text ? "answered" : "gone", why: e.text }),
      );
    case "question_answered":
      return update(
        t,
        "question",
        (i) => i.id === e.question_id,
        (i) => ({ ...i, state: "answered", option: e.option ?? i.option, remark: e.remark, why: undefined }),
      );
    case "goal_status":
      return status(t, e);
    case "goal_state":
      return { ...t, goal: e.goal_state };
    case "session_updated":
      if (e.scope === "model") return { ...t, model: e.model_name || t.model, preset: e.model_preset };
      return e.workspace_scope ? { ...t, scope: e.workspace_scope } : t;
    case "turn_model_updated":
      return { ...t, model: e.model_name ?? t.model };
    case "runtime_model_updated": // for conversations without a model of their own
      return t.preset ? t : { ...t, model: e.model_name ?? t.model };
    case "usage":
      return { ...t, used: { turn: e.turn_id, usage: e.usage } };
    case "turn_end":
      return turnEnd(t, e);
    case "error":
      return failed(t, e);
    default:
      return t; // newer than this page
  }
}

const outputMost = 64 * 1024;

/** printed appends to the output of a command, which may have begun before we came,
 *  or to what a subagent does. */
function printed(t: Thread, e: Event): Thread {
  const n = findLast(t, "tool", (i) => i.id === e.call_id);
  if (n < 0 && !t.running) return t; // a subagent that was started long ago
  const old = (t.items[n] as ToolItem | undefined) ?? {
    kind: "tool" as const,
    id: e.call_id ?? "",
    turn: now(t),
    name: "exec",
    args: "",
    phase: "running" as const,
  };

  const item: ToolItem = {
    ...old,
    phase: old.phase !== "lost" ? old.phase : old.result === undefined ? "running" : "done",
    output: ((old.output ?? "") + (e.text ?? "")).slice(-outputMost),
  };

  return n < 0 ? add(t, item) : replace(t, n, item);
}

/** attached sets where events continue; what was missed makes the thread stale. */
function attached(t: Thread, e: Event): Thread {
  const missed = e.resumed === true && e.complete === false;
  const known = t.read !== undefined && (e.seq ?? 0) < t.read; // the replayed events are in the page already
  // What was being written is said again, or was lost with a gateway that died; what is still open is asked again.
  const again = (i: Item) =>
    ((i.kind === "text" || i.kind === "thought") && i.open) ||
    (i.kind === "tool" && i.phase === "writing") ||
    (i.kind === "question" && i.code !== undefined && (i.state === "open" || i.state === "sent"));
  const items = missed ? t.items.filter((i) => !again(i)) : t.items;

  return {
    ...t,
    items,
    seq: e.seq,
    model: e.model_name ?? t.model,
    preset: e.model_preset,
    scope: e.workspace_scope,
    title: e.title ?? t.title,
    running: undefined,
    resumed: e.resumed === true && !missed,
    read: undefined,
    frozen: known ? t.items : undefined,
    stale: t.stale || missed || (t.read !== undefined && e.seq !== t.read), // a later number: others were told what the page lacks
    loaded: t.loaded || e.temporary === true,
  };
}

const add = (t: Thread, i: Item): Thread => ({ ...t, items: [...t.items, i] });

function findLast<K extends Item["kind"]>(
  t: Thread,
  kind: K,
  fits: (i: Extract<Item, { kind: K }>) => boolean,
): number {
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
  const id = `${kind}:${e.stream_id ?? ""}@`; // a stream without an id is continued until it is closed
  if (last?.open && last.id.startsWith(id)) return replace(t, n, { ...last, text: last.text + piece });
  t = close(t, kind);
  return add(t, { kind, id: id + (t.seq ?? t.items.length), turn: now(t), text: piece, open: true }); // a later stream may have the same
}

/** close ends the text of a kind that is being written. It keeps its id: an element
 *  that gets another is built again. */
function close(t: Thread, kind: "text" | "thought"): Thread {
  return update(
    t,
    kind,
    (i) => i.open,
    (i) => ({ ...i, open: false }),
  );
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
  if (!old)
    return add(t, { kind: "tool", id, turn: now(t), name: e.name ?? "", args: e.arguments ?? "", phase: "writing" });
  if (old.phase !== "writing") return t;
  return replace(t, n, { ...old, args: old.args + (e.arguments ?? "") });
}

function tool(t: Thread, e: ToolEvent): Thread {
  const n = findLast(t, "tool", (i) => i.id === e.call_id);
  const old = (t.items[n] as ToolItem | undefined) ?? {
    kind: "tool" as const,
    id: e.call_id,
    turn: now(t),
    name: e.name,
    args: "",
    phase: "running" as const,
  };

  const item: ToolItem = {
    ...old,
    name: e.name || old.name,
    args: e.arguments === undefined ? old.args : textOf(e.arguments),
  };

  if (e.phase === "start") item.phase = "running";
  else {
    item.phase = e.denied ? "denied" : e.phase === "error" ? "error" : "done";
    item.result = e.phase === "error" ? e.error : e.result;
    item.ms = e.duration_ms || undefined;
    item.untrusted = e.untrusted;
  }

  return n < 0 ? add(t, item) : replace(t, n, item);
}

function message(t: Thread, e: Event): Thread {
  if (e.tool_events) return e.tool_events.reduce(tool, t);
  if (e.question) {
    const q = e.question;
    // Asked again after a lost connection: the answer that was sent did not arrive.
    const known = findLast(t, "question", (i) => i.id === q.id) >= 0;
    const lost = (i: QuestionItem) => i.id === q.id && i.state === "sent" && i.code !== undefined;
    if (known) return update(t, "question", lost, (i) => ({ ...i, state: "open", option: undefined }));

    return add(t, {
      kind: "question",
      id: q.id,
      turn: e.turn_id,
      text: e.text ?? "",
      options: q.options ?? [],
      code: q.code,
      expires: q.expires,
      detail: q.detail,
      state: "open",
    });
  }

  if (e.kind === "notice")
    return add(t, { kind: "notice", id: `notice@${t.seq ?? t.items.length}`, text: e.text ?? "" });
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
  return add(close(t, "text"), { kind: "text", id, turn: e.turn_id, text, open: false, media, plain: e.plain });
}

function isLastText(t: Thread, n: number): boolean {
  return t.items.slice(n + 1).every((i) => i.kind !== "text" && i.kind !== "user");
}

function user(t: Thread, e: Event): Thread {
  if (e.turn_id && findLast(t, "user", (i) => i.turn === e.turn_id) >= 0) return t; // our own
  const text = storedAs(e.text ?? "");
  const media = e.media_urls?.map((m) => ({ name: m.name ?? m.url, url: m.url }));
  const said = add(t, {
    kind: "user",
    id: `user:${e.turn_id ?? t.seq ?? t.items.length}`,
    turn: e.turn_id,
    text,
    media,
    state: "sent",
    command: text.startsWith("/"),
  });

  return { ...said, items: settled(said.items) };
}

function edits(t: Thread, e: Event): Thread {
  let out = t;
  for (const edit of e.edits ?? []) {
    out = update(
      out,
      "tool",
      (i) => i.id === edit.call_id,
      (i) => ({ ...i, edits: [...(i.edits ?? []), edit] }),
    );
  }

  return out;
}

function status(t: Thread, e: Event): Thread {
  if (e.status !== "running") return { ...t, running: undefined };
  // A turn that we know nothing of had begun before we came, or what began it is
  // no message of a client: a job, the result of a subagent. Without a number, the
  // gateway tells a new connection of a turn that goes on: we may have missed its begin.
  const known =
    (e.seq !== undefined || t.resumed) &&
    e.turn_id !== undefined &&
    t.items.some((i) => i.kind === "user" && i.turn === e.turn_id);
  return {
    ...t,
    items: begun(revived(t.items, e.turn_id), e.turn_id),
    running: { turn: e.turn_id, since: e.started_at },
    partial: known ? t.partial : (e.turn_id ?? ""),
  };
}

/** begun notes that the turn of a message has begun: from now on the log has it. */
function begun(items: readonly Item[], turn: string | undefined): readonly Item[] {
  const starts = (i: Item) => i.kind === "user" && turn !== undefined && i.turn === turn && !i.begun;
  return items.some(starts) ? items.map((i) => (starts(i) ? ({ ...i, begun: true } as UserItem) : i)) : items;
}

function turnEnd(t: Thread, e: Event): Thread {
  if (e.id && findLast(t, "end", (i) => i.of === e.id) >= 0) return t; // sent again
  // The result of a subagent is answered in the name of the turn that started it.
  const first = `end:${e.turn_id ?? e.id ?? t.seq ?? t.items.length}`;
  const id = findLast(t, "end", (i) => i.id === first) < 0 ? first : `end:${e.id ?? t.seq ?? t.items.length}`;
  if (findLast(t, "end", (i) => i.id === id) >= 0) return t;
  const end: EndItem = {
    kind: "end",
    id,
    turn: e.turn_id,
    ms: e.latency_ms,
    usage: e.usage,
    model: e.model,
    stop: e.stop_reason,
    error: textOf(e.error) || undefined,
  };

  if (e.id) end.of = e.id;
  if (e.fallback) end.fallback = true;
  if (e.undo_id) Object.assign(end, { undo: e.undo_id, files: changedFiles(t, e.turn_id) });
  // The line below the turn says what failed.
  let items: Item[] = t.items.filter(
    (i) =>
      !(i.kind === "tool" && i.phase === "writing") &&
      !(i.kind === "text" && i.turn === e.turn_id && i.text === end.error),
  );

  const unknown = items.some((i) => i.kind === "tool" && i.phase === "running"); // their results may be in the log
  items = items.map((i) => (i.kind === "tool" && i.phase === "running" ? { ...i, phase: "lost" as const } : i));
  items = [...begun(items, e.turn_id)];
  t = close(close({ ...t, items }, "text"), "thought");
  // The reply to a command has no line below it, as in the stored conversation; one
  // that ends another turn has stopped it. What that turn was, and what a subagent
  // answered, is only there.
  const reply = !e.model && !e.latency_ms && !end.error && !end.undo;
  const stops = reply && !t.items.some((i) => i.kind === "user" && i.turn === e.turn_id && i.command);
  const said = findLast(t, "user", (i) => i.state === "sent" && (stops || i.turn === e.turn_id));
  const cleared = reply && /^\/new\s*$/i.test((t.items[said] as UserItem | undefined)?.text ?? "") ? said : -1;
  if (cleared > 0) t = { ...t, items: t.items.slice(cleared), more: false, before: null }; // what was said before is in the archive
  const how = { stopsAnother: stops, cleared: cleared > 0, sameTurnAgain: id !== first, unknown };
  const stale = mustRead(t, e.turn_id, how);

  return {
    ...(reply ? t : add(t, end)),
    goal: e.goal_state ?? t.goal,
    running: undefined,
    used: undefined,
    partial: undefined,
    stale,
  };
}

interface Ending {
  stopsAnother: boolean;
  cleared: boolean; // by /new
  sameTurnAgain: boolean;
  unknown: boolean; // results of calls did not come
}

/** mustRead says that the log may hold something of a turn that the events did not bring. */
function mustRead(t: Thread, turn: string | undefined, how: Ending): boolean {
  if (t.stale || t.partial !== undefined) return true; // events were missed, or we joined late
  if (how.stopsAnother && !how.cleared) return true; // what the stopped turn was is only in the log
  if (how.sameTurnAgain) return true; // the result of a subagent was answered in its name
  if (how.unknown) return true; // the gateway may have died between a result and its event
  if (answeredTwice(t)) return true;
  return t.items.some((i) => i.kind === "tool" && works(i) && (i.phase === "done" || i.turn === turn));
}

/** answeredTwice: a page that was read as the turn ended may have had the answer before
 *  the events. */
function answeredTwice(t: Thread): boolean {
  const [one, two] = t.items.flatMap((i) => (i.kind === "text" ? [i.text.trim()] : [])).slice(-2);
  return two !== undefined && one === two;
}

/** changedFiles counts the files that a turn changed. */
function changedFiles(t: Thread, turn: string | undefined): number {
  const paths = t.items.flatMap((i) =>
    i.kind === "tool" && i.turn === turn ? (i.edits ?? []).map((x) => x.path) : [],
  );
  return new Set(paths).size;
}

/** failed marks the message that was refused; other errors become a notice. */
function failed(t: Thread, e: Event): Thread {
  const why = [e.detail, e.reason].filter(Boolean).join(": ");
  const n = findLast(t, "user", (i) => e.turn_id !== undefined && i.turn === e.turn_id && i.state !== "sent");
  if (n >= 0)
    return update(
      t,
      "user",
      (i) => i.turn === e.turn_id,
      (i) => ({ ...i, state: "failed", why }),
    );

  return add(t, { kind: "notice", id: `error@${t.items.length}`, text: why, bad: true });
}
