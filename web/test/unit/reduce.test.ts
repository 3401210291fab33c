import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyThread } from "../../src/state/items";
import type { Item, Thread } from "../../src/state/items";
import { itemsOf, withOlder, withPage, withSent } from "../../src/state/page";
import { reduce } from "../../src/state/reduce";
import type { Event, Said, ThreadPage } from "../../src/wire/types";

const start: Thread = { ...emptyThread, seq: 0, loaded: true };
let n = 0;
const e = (event: string, more: Partial<Event> = {}): Event => ({ event, chat_id: "c", seq: ++n, ...more });
const play = (events: Event[], from = start) => events.reduce(reduce, from);

/** shown is what a person sees, without ids. */
const shown = (items: readonly Item[]) =>
  items.map((i) => {
    switch (i.kind) {
      case "tool":
        return `${i.kind} ${i.phase} ${i.name} ${i.args} ${i.result ?? ""}`.trim();
      case "end":
        return `end ${i.ms}`;
      case "question":
        return `question ${i.state} ${i.text}`;
      case "user":
        return `user ${i.state} ${i.text}`;
      case "group":
        return `group ${i.tools.length}`;
      default:
        return `${i.kind} ${i.text}`;
    }
  });

/** turn is a recorded turn: thinking, a tool, and an answer in pieces. */
function turn(): Event[] {
  n = 0;
  return [
    e("user_message", { text: "Tidy up", turn_id: "t1" }),
    e("goal_status", { status: "running", turn_id: "t1", started_at: 1 }),
    e("reasoning_delta", { text: "Let me ", stream_id: "s1" }),
    e("reasoning_delta", { text: "look.", stream_id: "s1" }),
    e("reasoning_end"),
    e("delta", { text: "I look ", stream_id: "s1" }),
    e("delta", { text: "first.", stream_id: "s1" }),
    e("tool_delta", { call_id: "k1", name: "exec", arguments: '{"command"' }),
    e("tool_delta", { call_id: "k1", name: "exec", arguments: ':"ls"}' }),
    e("stream_end", { stream_id: "s1", resuming: true }),
    e("message", {
      kind: "progress",
      text: "",
      tool_events: [{ phase: "start", call_id: "k1", name: "exec", arguments: { command: "ls" } }],
    }),
    e("message", { kind: "tool_hint", text: "exec ls" }),
    e("message", {
      kind: "progress",
      text: "",
      tool_events: [{ phase: "end", call_id: "k1", name: "exec", result: "a\nb", duration_ms: 12 }],
    }),
    e("delta", { text: "Done", stream_id: "s2" }),
    e("delta", { text: ".", stream_id: "s2" }),
    e("stream_end", { stream_id: "s2" }),
    e("turn_end", { turn_id: "t1", id: "o1", latency_ms: 900, usage: { prompt_tokens: 10, completion_tokens: 2 } }),
    e("goal_status", { status: "idle", turn_id: "t1" }),
  ];
}

const stored: Said[] = [
  { index: 0, role: "user", content: "Tidy up", turn_id: "t1" },
  {
    index: 1,
    role: "assistant",
    content: "I look first.",
    reasoning: "Let me look.",
    turn_id: "t1",
    tool_calls: [{ call_id: "k1", name: "exec", arguments: { command: "ls" }, result: "a\nb" }],
  },
  { index: 3, role: "assistant", content: "Done.", turn_id: "t1", latency_ms: 900 },
];

const whole = [
  "user sent Tidy up",
  "thought Let me look.",
  "text I look first.",
  'tool done exec {"command":"ls"} a\nb',
  "text Done.",
  "end 900",
];

test("a turn live and stored shows the same", () => {
  const live = play(turn());
  assert.deepEqual(shown(live.items), whole);
  assert.equal(live.running, undefined);
  assert.deepEqual(shown(itemsOf({ messages: stored })), whole);
  assert.ok(live.items.every((i) => !("open" in i) || !i.open));
});

test("ids are unique, so that no row takes the place of another", () => {
  const twice = play([
    ...turn(),
    ...turn().map((x) => ({
      ...x,
      seq: x.seq! + 100,
      turn_id: x.turn_id && "t2",
      id: x.id && "o2",
      call_id: x.call_id && "k2",
      tool_events: x.tool_events?.map((t) => ({ ...t, call_id: "k2" })),
    })),
  ]);
  const ids = twice.items.map((i) => i.id);
  assert.equal(new Set(ids).size, ids.length, ids.join(" "));
});

test("events that come twice or go back change nothing", () => {
  const events = turn();
  const doubled = events.flatMap((x) => [x, x]);
  assert.deepEqual(shown(play(doubled).items), whole);
  const back = play([...events, events[5]!, events[13]!]);
  assert.deepEqual(shown(back.items), whole);
});

test("a cut after every event, and resume, shows the same", () => {
  const events = turn();
  for (let cut = 0; cut <= events.length; cut++) {
    const before = play(events.slice(0, cut));
    const resumed = reduce(before, { event: "attached", chat_id: "c", seq: before.seq, resumed: true, complete: true });
    const running =
      cut > 1 && cut < events.length - 1
        ? [{ event: "goal_status", chat_id: "c", status: "running", turn_id: "t1" }]
        : [];
    const after = play([...running, ...events.slice(cut)], resumed);
    assert.deepEqual(shown(after.items), whole, `cut after ${cut}`);
    assert.equal(after.stale, false, `cut after ${cut}`);
  }
});

test("missed events make the thread stale until a page is read", () => {
  const t = reduce(play(turn().slice(0, 6)), {
    event: "attached",
    chat_id: "c",
    seq: 50,
    resumed: true,
    complete: false,
  });
  assert.equal(t.stale, true);
  assert.equal(t.seq, 50);
  const read = withPage(t, { messages: stored, has_more: false, before: 0 });
  assert.equal(read.stale, false);
  assert.deepEqual(shown(read.items), whole);
});

test("a void stream_end revokes its text", () => {
  n = 0;
  const t = play([
    e("goal_status", { status: "running", turn_id: "t1" }),
    e("delta", { text: "Half an ans", stream_id: "a" }),
    e("tool_delta", { call_id: "k", name: "exec", arguments: "{" }),
    e("stream_end", { stream_id: "a", void: true }),
    e("delta", { text: "The whole answer", stream_id: "a" }),
    e("stream_end", { stream_id: "a" }),
  ]);
  assert.deepEqual(shown(t.items), ["text The whole answer"]);
});

test("a whole answer replaces the end that was streamed of it", () => {
  n = 0;
  const t = play([
    e("goal_status", { status: "running", turn_id: "t1" }),
    e("delta", { text: "end of it.", stream_id: "a" }),
    e("stream_end", { stream_id: "a" }),
    e("message", { text: "Start and end of it.", id: "o1", turn_id: "t1" }),
    e("message", { text: "Start and end of it.", id: "o1", turn_id: "t1" }),
    e("turn_end", { turn_id: "t1", id: "o1", latency_ms: 5 }),
    e("turn_end", { turn_id: "t1", id: "o1", latency_ms: 5 }),
  ]);
  assert.deepEqual(shown(t.items), ["text Start and end of it.", "end 5"]);
});

test("unknown events and unknown members are ignored", () => {
  n = 0;
  const t = play([e("future_event", { text: "x" }), e("message", { kind: "future_kind", text: "x" })]);
  assert.deepEqual(t.items, []);
  assert.equal(t.seq, 2);
});

test("a question is shown once, and closed by whoever answers", () => {
  n = 0;
  const q = { id: "q1", code: "k7f2", options: ["yes", "no"] };
  const t = play([
    e("message", { text: "Run it?", question: q, turn_id: "t" }),
    e("message", { text: "Run it?", question: q, turn_id: "t" }),
  ]);
  assert.deepEqual(shown(t.items), ["question open Run it?"]);
  assert.deepEqual(shown(reduce(t, e("question_gone", { question_id: "q1" })).items), ["question gone Run it?"]);
  assert.deepEqual(shown(reduce(t, e("question_answered", { question_id: "q1", option: "yes" })).items), [
    "question answered Run it?",
  ]);
  assert.equal(reduce(t, { event: "question_gone", chat_id: "c", question_id: "other" }), t);
});

test("a typed message is pending, then sent, then not shown twice", () => {
  n = 0;
  const m = { chat: "c", turn: "t9", text: "Hello", at: "2026-01-01T00:00:00Z" };
  let t = withSent(start, m);
  assert.deepEqual(shown(t.items), ["user pending Hello"]);
  t = play(
    [e("message_accepted", { turn_id: "t9", starts_turn: true }), e("user_message", { turn_id: "t9", text: "Hello" })],
    t,
  );
  assert.deepEqual(shown(t.items), ["user sent Hello"]);
  assert.equal(withSent(t, m), t);
});

test("a refused message says why and keeps its text", () => {
  const t = reduce(withSent(start, { chat: "c", turn: "t9", text: "Hello", at: "" }), {
    event: "error",
    chat_id: "c",
    turn_id: "t9",
    detail: "message_rejected",
    reason: "text_too_large",
  });
  assert.deepEqual(shown(t.items), ["user failed Hello"]);
  assert.equal((t.items[0] as { why?: string }).why, "message_rejected: text_too_large");
});

test("a page that is read during a turn keeps what the turn has shown", () => {
  const live = play(turn().slice(0, 15)); // the last text is open
  const page = { messages: stored.slice(0, 2), has_more: true, before: 0 };
  const t = withPage(live, page);
  assert.deepEqual(shown(t.items), whole.slice(0, 5));
  assert.deepEqual(shown(play(turn().slice(15), t).items), whole);
});

test("a turn that was joined in its middle is read again at its end", () => {
  const joined = reduce(start, { event: "goal_status", chat_id: "c", status: "running", turn_id: "t1" });
  assert.equal(joined.partial, "t1");
  const t = play(turn().slice(13), joined);
  assert.equal(t.stale, true);
  // The same if the page sent the message, and its connection was cut before the answer.
  const sent = withSent(start, { chat: "c", turn: "t1", text: "Hello", at: "" });
  assert.equal(reduce(sent, { event: "goal_status", chat_id: "c", status: "running", turn_id: "t1" }).partial, "t1");
  assert.equal(reduce(sent, e("goal_status", { status: "running", turn_id: "t1" })).partial, undefined);
});

test("a turn that is taken up again is not said to be interrupted", () => {
  const page: ThreadPage = {
    messages: [
      { index: 0, role: "user", content: "Hello", turn_id: "t1" },
      { index: 1, role: "assistant", content: "(cut)", turn_id: "t1", interrupted: true },
    ],
    has_more: false,
    before: 0,
  };
  const cut = withPage(start, page);
  const running = (turn: string) => ({ event: "goal_status", chat_id: "c", status: "running", turn_id: turn });
  const texts = (t: Thread) => t.items.map((i) => ("text" in i ? i.text : i.kind));
  assert.deepEqual(texts(cut), ["Hello", "(cut)"]);
  assert.deepEqual(texts(reduce(cut, running("t2"))), ["Hello", "(cut)"]);
  assert.deepEqual(texts(reduce(cut, running("t1"))), ["Hello"]);
  assert.deepEqual(texts(withPage(reduce(start, running("t1")), page)), ["Hello"]); // it was read before the turn began again
});

test("an answer that a page had before its events came is read again", () => {
  const running = (turn: string) => e("goal_status", { status: "running", turn_id: turn });
  const end = (turn: string, id: string) => e("turn_end", { turn_id: turn, id, model: "m", latency_ms: 5 });
  const first = [
    e("user_message", { turn_id: "t1", text: "Hi" }),
    running("t1"),
    e("delta", { text: "Started.", stream_id: "a" }),
  ];
  const page = (own: string): ThreadPage => ({
    messages: [
      { index: 0, role: "user", content: "Hi", turn_id: "t1" },
      { index: 1, role: "assistant", content: "Started.", turn_id: "t1" },
      { index: 2, role: "assistant", content: "Seven.", turn_id: own },
    ],
    turns: own === "t1" ? [] : [{ turn_id: "t1", duration_ms: 5 }],
    has_more: false,
    before: 0,
  });
  assert.equal(play([...first, end("t1", "f1")]).stale, false);
  // The turn of a subagent's result has the name of the turn that started it.
  let t = withPage(play([...first, end("t1", "f1")]), page("own"));
  t = play([running("t1"), e("delta", { text: "Seven.", stream_id: "b" }), end("t1", "f2")], t);
  assert.equal(t.stale, true);
  t = withPage(play(first), page("t1"));
  t = play([e("delta", { text: "Seven.", stream_id: "b" }), end("t1", "f1")], t);
  assert.equal(t.stale, true);
  // Its texts need not stand next to each other.
  t = withPage(play([...first, end("t1", "f1")]), page("own"));
  t = play(
    [
      running("t1"),
      e("delta", { text: "Let me see.", stream_id: "c" }),
      e("delta", { text: "Seven.", stream_id: "d" }),
      end("t1", "f2"),
    ],
    t,
  );
  assert.equal(t.stale, true);
});

test("a thought stays when the page is read again before its message is stored", () => {
  const kinds = (t: Thread) => t.items.filter((i) => i.kind !== "user").map((i) => ("text" in i ? i.text : i.kind));
  const page = (...more: ThreadPage["messages"]): ThreadPage => ({
    messages: [{ index: 0, role: "user", content: "Hi", turn_id: "t1" }, ...more],
    has_more: false,
    before: 0,
  });
  const t = play([
    e("user_message", { turn_id: "t1", text: "Hi" }),
    e("goal_status", { status: "running", turn_id: "t1" }),
    e("reasoning_delta", { text: "Hm.", stream_id: "a" }),
    e("reasoning_end", {}),
    e("delta", { text: "Seven.", stream_id: "a" }),
  ]);
  assert.deepEqual(kinds(withPage(t, page())), ["Hm.", "Seven."]);
  const added = reduce(t, e("user_message", { turn_id: "t2", text: "And?" }));
  assert.deepEqual(kinds(withPage(added, page({ index: 1, role: "user", content: "And?", turn_id: "t2" }))), [
    "Hm.",
    "Seven.",
  ]);
  assert.deepEqual(
    kinds(withPage(t, page({ index: 1, role: "assistant", content: "Seven.", reasoning: "Hm.", turn_id: "t1" }))),
    ["Hm.", "Seven."],
  );
  assert.deepEqual(
    kinds(
      withPage(t, page({ index: 1, role: "assistant", content: "Seven.", reasoning: "Hm, cut short", turn_id: "t1" })),
    ),
    ["Hm, cut short", "Seven."],
  );
});

test("what is read again keeps the names of what is shown, each once", () => {
  const live = play(turn());
  const texts = (items: readonly Item[]) =>
    items.filter((i) => i.kind === "text" || i.kind === "thought").map((i) => i.id);
  const twice = [...stored, { ...stored[stored.length - 1]!, index: 90 }];
  const read = texts(withPage(live, { messages: twice, has_more: false, before: 0 }).items);
  assert.deepEqual(read.slice(0, -1), texts(live.items));
  assert.equal(new Set(read).size, read.length);
  assert.equal(read.at(-1), "#90");
});

test("an older page comes before what is shown, once", () => {
  const t = withPage(start, { messages: stored.slice(2), has_more: true, before: 3 });
  const older = withOlder(t, { messages: stored.slice(0, 2), has_more: false, before: 0 });
  assert.deepEqual(shown(older.items), whole);
  assert.deepEqual(shown(withOlder(older, { messages: stored.slice(0, 2), has_more: false, before: 0 }).items), whole);
});

test("what a page says about its turns is shown as events would", () => {
  const items = itemsOf({
    messages: [
      ...stored.slice(0, 2),
      { index: 2, role: "assistant", content: "Run it?", event: "question", turn_id: "t1" },
      { index: 3, role: "user", content: "yes", event: "answer", turn_id: "t1" },
      { ...stored[2]!, index: 4, attachments: [{ name: "a.png", url: "/api/media/x" }] },
    ],
    turns: [
      {
        turn_id: "t1",
        duration_ms: 950,
        model: "m",
        usage: { prompt_tokens: 1 },
        edits: [{ call_id: "k1", path: "a.md", added: 1 }],
        notices: [{ text: "Careful" }],
      },
    ],
  });
  assert.deepEqual(shown(items), [
    ...whole.slice(0, 4),
    "question answered Run it?",
    "text Done.",
    "notice Careful",
    "end 950",
  ]);
  const tool = items.find((i) => i.kind === "tool");
  assert.equal(tool?.kind === "tool" && tool.edits?.[0]?.path, "a.md");
  assert.equal(items.filter((i) => i.kind === "end").length, 1);
});

test("a file edit is shown with its call", () => {
  const t = play([
    ...turn(),
    {
      event: "file_edit",
      chat_id: "c",
      seq: 90,
      edits: [{ call_id: "k1", path: "a.md", added: 3, deleted: 1, diff: "+x" }],
    },
  ]);
  const tool = t.items.find((i) => i.kind === "tool");
  assert.deepEqual(tool?.kind === "tool" && tool.edits?.map((x) => x.path), ["a.md"]);
});

test("what a turn uses is shown while it runs, and given up at its end", () => {
  const usage = { prompt_tokens: 1200, completion_tokens: 10, cost_usd: 0.01 };
  const began = play([
    e("user_message", { turn_id: "t1", text: "Hi" }),
    e("goal_status", { status: "running", turn_id: "t1" }),
    e("usage", { turn_id: "t1", usage }),
  ]);
  assert.deepEqual(began.used, { turn: "t1", usage });
  const back = play(
    [
      { event: "attached", chat_id: "c", seq: began.seq, resumed: true, complete: true },
      { event: "goal_status", chat_id: "c", status: "running", turn_id: "t1" },
    ],
    began,
  );
  assert.deepEqual(back.used, { turn: "t1", usage });
  assert.equal(play([e("turn_end", { turn_id: "t1", usage })], back).used, undefined);
});

test("a call that waits for an approval runs after a reload, whatever comes first", () => {
  const waits: Said[] = [
    { index: 0, role: "user", content: "Hi", turn_id: "t1" },
    { index: 1, role: "assistant", content: "", turn_id: "t1", tool_calls: [{ call_id: "old", name: "exec" }] },
    { index: 2, role: "assistant", content: "Hello.", turn_id: "t1", latency_ms: 5 },
    { index: 3, role: "assistant", content: "", turn_id: "own", tool_calls: [{ call_id: "new", name: "exec" }] },
  ];
  const page = { messages: waits, has_more: false, before: 0 };
  const running = { event: "goal_status", chat_id: "c", status: "running", turn_id: "t1" }; // the turn of a subagent's result has the name of another
  const question = {
    event: "message",
    chat_id: "c",
    turn_id: "t1",
    text: "Run it?",
    question: { id: "q", options: ["yes"], code: "k7f2" },
  };
  const want = ["user sent Hi", "tool lost exec", "text Hello.", "end 5", "tool running exec", "question open Run it?"];
  assert.deepEqual(shown(withPage(play([question, running]), page).items), want);
  assert.deepEqual(shown(play([question, running], withPage(start, page)).items), want);
  assert.equal(shown(withPage(start, page).items)[4], "tool lost exec");
});

test("steps of a subagent are in the call that started it, also after its turn", () => {
  const spawn = (phase: "start" | "end", more = {}) =>
    e("message", {
      kind: "progress",
      tool_events: [{ phase, call_id: "k1", name: "spawn", arguments: "{}", ...more }],
    });
  const outputs = (t: Thread) => t.items.flatMap((i) => (i.kind === "tool" ? [`${i.phase} ${i.output}`] : []));
  const works = play([spawn("start"), spawn("end", { result: "Subagent a1 works" }), e("turn_end", { turn_id: "t1" })]);
  const more = play(
    [
      e("tool_output", { call_id: "k1", text: "ls .\n" }),
      e("tool_output", { call_id: "k1", text: "read a\n" }),
      e("tool_output", { call_id: "k9", text: "of a call that is not here\n" }),
    ],
    works,
  );
  assert.deepEqual(outputs(more), ["done ls .\nread a\n"]);
  const messages: Said[] = [
    {
      index: 0,
      role: "assistant",
      content: "",
      turn_id: "t1",
      tool_calls: [{ call_id: "k1", name: "spawn", result: "Subagent a1 works" }],
    },
  ];
  const page = { messages, has_more: false, before: null, total: 1, subagents: ["a1"] };
  assert.deepEqual(outputs(withPage(more, page as unknown as ThreadPage)), ["done ls .\nread a\n"]);
});

test("a denied call is denied, live and after a reload", () => {
  const call = (phase: "start" | "error", more = {}) =>
    e("message", { kind: "progress", tool_events: [{ phase, call_id: "k1", name: "exec", ...more }] });
  const live = play([call("start"), call("error", { error: "no", denied: true })]);
  assert.deepEqual(shown(live.items), ["tool denied exec  no"]);
  const messages: Said[] = [
    {
      index: 0,
      role: "assistant",
      content: "",
      turn_id: "t1",
      tool_calls: ["k1", "k2"].map((call_id) => ({
        call_id,
        name: "exec",
        result: "no",
        is_error: true,
        denied: call_id === "k1",
      })),
    },
  ];
  const items = itemsOf({ messages });
  assert.deepEqual(shown(items), ["tool denied exec  no", "tool error exec  no"]);
});

test("what a subagent found is in the call that started it", () => {
  const spawn = (id: string, more = {}): Said => ({
    index: 1,
    role: "assistant",
    content: "",
    turn_id: "t1",
    tool_calls: [
      { call_id: id, name: "spawn", arguments: { task: "Count", ...more }, result: `Subagent ${id} (x) works` },
    ],
  });
  const found: Said = { index: 4, role: "user", content: "Seven.", event: "subagent_result", task_id: "a1" };
  const of = (items: readonly Item[]) =>
    items.map((i) => (i.kind === "tool" ? `${i.phase} ${i.answer ?? ""}`.trim() : i.kind));
  assert.deepEqual(of(itemsOf({ messages: [spawn("a1"), found], subagents: [] })), ["done Seven."]);
  assert.deepEqual(of(itemsOf({ messages: [spawn("a1")], subagents: ["a1"] })), ["done"]);
  assert.deepEqual(of(itemsOf({ messages: [spawn("a1")], subagents: [] })), ["lost"]);
  assert.deepEqual(of(itemsOf({ messages: [spawn("a1")], subagents: [], has_newer: true })), ["done"]);
  assert.deepEqual(of(itemsOf({ messages: [spawn("a1", { wait: true })], subagents: [] })), ["done"]);
  // The call is on an older page than the result.
  const newest = withPage(start, { messages: [found], has_more: true, before: 4, subagents: [] });
  assert.deepEqual(of(newest.items), ["note"]);
  assert.deepEqual(
    of(withOlder(newest, { messages: [spawn("a1")], has_more: false, before: 0, subagents: [] }).items),
    ["done Seven."],
  );
  // The end of a turn is the time to look for a result that is still to come.
  const ends = (t: Thread) => reduce(t, e("turn_end", { turn_id: "t9", model: "m", seq: 1e6 })).stale;
  // One that was not found, because it had just ended, comes in the name of the turn that started it.
  assert.equal(
    reduce(
      withPage(start, { messages: [spawn("a1")], has_more: false, before: 0, subagents: [] }),
      e("turn_end", { turn_id: "t1", model: "m", seq: 1e6 }),
    ).stale,
    true,
  );
  const read = (subagents: string[]) =>
    withPage(start, { messages: [spawn("a1")], has_more: false, before: 0, subagents });
  assert.deepEqual([ends(read(["a1"])), ends(read([]))], [true, false]);
});

test("another usual model is that of conversations without one of their own", () => {
  const changed = { event: "runtime_model_updated", model_name: "new" };
  assert.equal(reduce({ ...start, model: "old" }, changed).model, "new");
  assert.equal(reduce({ ...start, model: "old", preset: "fast" }, changed).model, "old");
});

test("a goal is shown as it is stored, live and after a reload", () => {
  for (const [text, want] of [
    ["/goal find boats", "user pending Goal: find boats"],
    ["/goal stop", "user pending /goal stop"],
    ["/goal", "user pending /goal"],
    ["/goals x", "user pending /goals x"],
  ] as const) {
    assert.deepEqual(shown(withSent(start, { chat: "c", turn: "g", text, at: "" }).items), [want]);
  }
  assert.deepEqual(shown(play([e("user_message", { text: "/goal find boats", turn_id: "g" })]).items), [
    "user sent Goal: find boats",
  ]);
});

test("a question that is asked again after an answer was lost is open again", () => {
  n = 0;
  const q = { id: "q1", code: "k", options: ["yes", "no"] };
  const t = play([e("message", { text: "Run it?", question: q, turn_id: "t" })]);
  const sent: Thread = {
    ...t,
    items: t.items.map((i) => (i.kind === "question" ? { ...i, state: "sent", option: "yes" } : i)),
  };
  assert.deepEqual(shown(reduce(sent, e("message", { text: "Run it?", question: q, turn_id: "t" })).items), [
    "question open Run it?",
  ]);
  assert.deepEqual(
    shown(reduce(sent, { event: "attached", chat_id: "c", resumed: true, complete: false, seq: 9 }).items),
    [],
    "what is open is asked again",
  );
});

test("the newest page leaves the older ones that were read", () => {
  const said = (index: number): Said => ({ index, role: "user", content: `say ${index}` });
  let t = withPage(emptyThread, { messages: [said(4), said(5)], has_more: true, before: 4 });
  t = withOlder(t, { messages: [said(2), said(3)], has_more: true, before: 2 });
  t = withPage(t, { messages: [said(4), said(5), said(6)], has_more: true, before: 4 });
  assert.deepEqual(
    shown(t.items),
    [2, 3, 4, 5, 6].map((i) => `user sent say ${i}`),
  );
  assert.equal(t.before, 2);
});

test("the reply to a command has no line below it, live and stored", () => {
  const t = play([
    e("user_message", { turn_id: "t1", text: "/help" }),
    e("message", { turn_id: "t1", id: "o1", text: "Commands:\n  /stop", plain: true }),
    e("turn_end", { turn_id: "t1", id: "o1", latency_ms: 0, usage: { prompt_tokens: 0, completion_tokens: 0 } }),
  ]);
  assert.deepEqual(shown(t.items).slice(-1), ["text Commands:\n  /stop"]);
  assert.equal(
    t.items.some((i) => i.kind === "text" && i.plain),
    true,
  );
  const failed = play(
    [
      e("message", { turn_id: "t2", id: "o2", text: "No key.", plain: true }),
      e("turn_end", { turn_id: "t2", id: "o2", latency_ms: 1, error: "No key." }),
    ],
    t,
  );
  assert.deepEqual(shown(failed.items).slice(-1), ["end 1"]);
  const stored = [
    { index: 0, role: "user", content: "/trigger a", command: true },
    { index: 1, role: "assistant", content: "a\nb", command: true, plain: true },
  ] as Said[];
  assert.deepEqual(shown(itemsOf({ messages: stored, turns: [], has_newer: false })).slice(-1), ["text a\nb"]);
});

test("a new conversation begins empty", () => {
  const turn = () => [
    e("user_message", { turn_id: "t1", text: "work" }),
    e("message", { turn_id: "t1", id: "o1", text: "Done." }),
    e("turn_end", { turn_id: "t1", id: "o1", latency_ms: 5, model: "m" }),
  ];
  const reply = (turn_id: string) => [
    e("message", { turn_id, id: "of " + turn_id, text: "New conversation.", plain: true }),
    e("turn_end", { turn_id, id: "of " + turn_id, latency_ms: 0 }),
  ];
  const asked = () => e("user_message", { turn_id: "t2", text: "/new" });
  const fresh = ["user sent /new", "text New conversation."];
  const t = play([...turn(), asked(), ...reply("t2")], { ...emptyThread, more: true, before: 40, loaded: true });
  assert.deepEqual([shown(t.items), t.more, t.before, t.stale], [fresh, false, null, false]);
  // During a turn, which it ends: the reply is in that turn's name.
  const during = play([
    ...turn().slice(0, 1),
    e("goal_status", { turn_id: "t1", status: "running" }),
    asked(),
    ...reply("t1"),
  ]);
  assert.deepEqual([shown(during.items), during.stale], [fresh, false]);
  // One that failed, and what only begins like it, take nothing away.
  const failed = play([
    ...turn(),
    asked(),
    e("turn_end", { turn_id: "t2", id: "o2", latency_ms: 0, error: "The disk is full." }),
  ]);
  assert.equal(shown(failed.items)[0], "user sent work");
  assert.equal(
    shown(play([...turn(), e("user_message", { turn_id: "t2", text: "/news today" }), ...reply("t2")]).items)[0],
    "user sent work",
  );
  // A turn that is stopped later is read again, and stays.
  const stopped = play([asked(), ...reply("t2"), e("user_message", { turn_id: "t3", text: "work" }), ...reply("t3")]);
  assert.deepEqual([stopped.items.length, stopped.stale], [4, true]);
  // Later commands leave what was said since.
  assert.equal(
    play([...turn(), asked(), ...reply("t2"), e("user_message", { turn_id: "t3", text: "/stop" }), ...reply("t3")])
      .items.length,
    4,
  );
});

test("a turn that was stopped is read again: only what is stored has all of it", () => {
  const end = (text: string) =>
    play([
      e("user_message", { turn_id: "t1", text }),
      e("message", { turn_id: "t1", id: "o1", text: "Stopped.", plain: true }),
      e("turn_end", { turn_id: "t1", id: "o1", latency_ms: 0 }),
    ]);
  assert.deepEqual([end("work").stale, end("/stop").stale], [true, false]);
  const messages: Said[] = [
    { index: 0, role: "user", content: "work", turn_id: "t1" },
    { index: 1, role: "assistant", content: "It began", turn_id: "t1" },
    { index: 2, role: "assistant", content: "(interrupted)", turn_id: "t1", interrupted: true },
  ];
  const turns = [{ turn_id: "t1", stop_reason: "cancelled", duration_ms: 7 }];
  assert.deepEqual(shown(itemsOf({ messages, turns })), ["user sent work", "text It began", "end 7"]);
  assert.deepEqual(
    shown(itemsOf({ messages })),
    ["user sent work", "text It began", "text (interrupted)"],
    "a crash says so itself",
  );
});

test("events that a page had before the connection was there make it be read again", () => {
  const attached: Event = { event: "attached", chat_id: "c", seq: 5 };
  const shown = itemsOf({ messages: stored });
  const again = reduce(reduce({ ...emptyThread, items: shown, loaded: true, read: 9 }, attached), {
    event: "message",
    chat_id: "c",
    seq: 6,
    id: "m",
    text: "Done, again.",
  });
  assert.deepEqual([again.stale, again.frozen], [true, shown]);
  assert.equal(withPage(again, { messages: stored, has_more: false, before: 0 }).frozen, undefined);
  assert.equal(reduce({ ...emptyThread, loaded: true, read: 5 }, attached).stale, false);
  const slow = reduce(
    { ...emptyThread, items: shown, loaded: true, seq: 5, read: 7 },
    { event: "delta", chat_id: "c", seq: 6, text: "Done, a", stream_id: "s" },
  ); // the connection was open, and slow
  assert.deepEqual([slow.stale, slow.frozen, slow.read], [true, shown, 7]);
  const later = reduce(
    { ...slow, stale: false, frozen: undefined },
    { event: "delta", chat_id: "c", seq: 8, text: "gain.", stream_id: "s" },
  );
  assert.deepEqual([later.stale, later.frozen, later.read], [false, undefined, undefined]);
  const behind = reduce({ ...emptyThread, items: shown, loaded: true, read: 3 }, attached); // 4 and 5 were said before it listened
  assert.deepEqual([behind.stale, behind.frozen], [true, undefined]);
});

test("what the message tool said here is in the conversation, what it said elsewhere is not", () => {
  const call = (args: object, result: string): Said => ({
    index: 1,
    role: "assistant",
    content: "",
    turn_id: "t",
    tool_calls: [{ call_id: "k", name: "message", arguments: args, result, is_error: /^Error/.test(result) }],
  });
  const of = (args: object, result: string) => itemsOf({ messages: [call(args, result)], of: "websocket:a" }).slice(1);
  assert.deepEqual(shown(of({ content: "Hi." }, "sent to websocket a")), ["text Hi."]);
  assert.deepEqual(shown(of({ content: "Hi.", channel: "websocket", chat_id: "a" }, "sent to websocket a")), [
    "text Hi.",
  ]);
  assert.deepEqual(
    shown(of({ content: "Hi." }, "Message sent to websocket:a")),
    ["text Hi."],
    "as Python nanobot wrote it",
  );
  assert.deepEqual(of({ content: "Hi.", channel: "telegram", chat_id: "7" }, "sent to telegram 7"), []);
  assert.deepEqual(of({ content: "Hi." }, "Error: not sent"), []);
  assert.deepEqual(
    of({ content: "Hi.", media: ["a/b.pdf"] }, "sent to websocket a with 1 attachment").map(
      (i) => i.kind === "text" && i.media,
    ),
    [[{ name: "b.pdf", path: "a/b.pdf" }]],
  );
  assert.deepEqual(
    itemsOf({ messages: [call({ content: "Hi.", media: ["b.pdf"] }, "sent to telegram 7")], of: "telegram:7" }).map(
      (i) => i.kind === "text" && i.media?.[0]?.path,
    ),
    [false, undefined],
  );
  assert.deepEqual(
    shown(
      itemsOf({
        messages: [call({ content: "Which?", buttons: [["one"]] }, "sent to websocket a")],
        of: "websocket:a",
        has_newer: true,
      }).slice(1),
    ),
    ["question gone Which?"],
  );
  assert.deepEqual(shown(of({ content: "Which?", buttons: [["one"], ["two"]] }, "sent to websocket a")), [
    "question open Which?",
  ]);
  assert.deepEqual(
    itemsOf({
      messages: [
        {
          ...call({}, ""),
          tool_calls: [{ call_id: "k", name: "message", arguments: "cut", result: "sent to websocket a" }],
        },
      ],
    }).length,
    1,
  );
});

test("a message that is accepted while the page is read stays until its turn begins", () => {
  const page: ThreadPage = {
    messages: [...stored],
    turns: [],
    total: 2,
    has_more: false,
    before: 0,
    has_newer: false,
    after: 1,
  } as ThreadPage;
  n = 0;
  let t = withSent(withPage(start, page), { chat: "c", turn: "t2", text: "And then?", at: "2026-01-01T00:00:00Z" });
  t = play([e("message_accepted", { turn_id: "t2" })], t);
  assert.ok(
    shown(withPage(t, page).items).includes("user sent And then?"),
    "the page was read before the log had the message",
  );

  t = play([e("goal_status", { status: "running", turn_id: "t2" })], withPage(t, page));
  assert.ok(shown(withPage(t, page).items).includes("user sent And then?"), "its turn runs");

  t = play([e("turn_end", { turn_id: "t2", id: "o9", latency_ms: 5 })], t);
  assert.ok(
    !shown(withPage(t, page).items).includes("user sent And then?"),
    "the log has what it has when a turn is over",
  );
});

test("calls whose results did not come are read from the log", () => {
  n = 0;
  const t = play([
    e("user_message", { text: "Tidy up", turn_id: "t1" }),
    e("goal_status", { status: "running", turn_id: "t1" }),
    e("message", {
      kind: "progress",
      text: "",
      tool_events: [{ phase: "start", call_id: "k1", name: "exec", arguments: { command: "ls" } }],
    }),
    e("turn_end", { turn_id: "t1", id: "o1", latency_ms: 900 }),
  ]);
  assert.equal(t.stale, true);
});
