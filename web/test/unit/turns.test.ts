// Every kind of turn shows the same live, when a page is read in its middle, after
// a cut at any place, and after a reload.
import assert from "node:assert/strict";
import { test } from "node:test";
import { counts, grouped } from "../../src/state/group";
import { emptyThread } from "../../src/state/items";
import type { Item, Thread, ToolItem } from "../../src/state/items";
import { itemsOf, withPage } from "../../src/state/page";
import { reduce } from "../../src/state/reduce";
import type { Event, Said, Turned } from "../../src/wire/types";

const start: Thread = { ...emptyThread, seq: 0, loaded: true };

/** shown is everything that a person sees of an item. */
function shown(i: Item): unknown {
  switch (i.kind) {
    case "tool":
      return {
        tool: i.name,
        args: i.args,
        phase: i.phase,
        result: i.result,
        ms: i.ms,
        untrusted: i.untrusted ?? false,
        edits: i.edits?.map((e) => [e.path, e.added, e.deleted, e.diff]),
      };
    case "question":
      return { question: i.text, state: i.state, option: i.option, remark: i.remark };
    case "end":
      return {
        ms: i.ms,
        tokens: i.usage?.prompt_tokens,
        billing: i.usage?.billing,
        model: i.model,
        stop: i.stop,
        error: i.error,
        fallback: i.fallback ?? false,
        undo: i.undo,
        files: i.files,
      };
    case "group":
      return { group: i.tools.map(shown) };
    default:
      return { [i.kind]: i.text };
  }
}

interface Script {
  events: Event[];
  messages: Said[];
  turn?: Omit<Turned, "turn_id">;
}

const ask = { event: "user_message", text: "Go", turn_id: "t" };
const began = { event: "goal_status", status: "running", turn_id: "t", started_at: 1 };
const idle = { event: "goal_status", status: "idle", turn_id: "t" };
const usage = { prompt_tokens: 10, completion_tokens: 2, billing: "priced", cost_usd: 0.01 };
const end = (more: Partial<Event> = {}): Event => ({
  event: "turn_end",
  turn_id: "t",
  id: "o",
  latency_ms: 900,
  stop_reason: "completed",
  model: "m",
  usage,
  ...more,
});
const turned = { duration_ms: 900, stop_reason: "completed", model: "m", usage };
const say = (text: string, stream: string): Event[] => [
  { event: "delta", text: text.slice(0, 2), stream_id: stream },
  { event: "delta", text: text.slice(2), stream_id: stream },
  { event: "stream_end", stream_id: stream },
];
const call = (phase: "start" | "end" | "error", id: string, more: object = {}): Event => ({
  event: "message",
  kind: "progress",
  text: "",
  tool_events: [
    { phase, call_id: id, name: "exec", ...(phase === "start" ? { arguments: { command: "ls" } } : {}), ...more },
  ],
});
const user: Said = { index: 0, role: "user", content: "Go", turn_id: "t" };
const called = (id: string, more: object = {}) => ({
  call_id: id,
  name: "exec",
  arguments: { command: "ls" },
  result: "a\nb",
  duration_ms: 12,
  ...more,
});
const assistant = (index: number, content: string, more: Partial<Said> = {}): Said => ({
  index,
  role: "assistant",
  content,
  turn_id: "t",
  ...more,
});
const question = { id: "q", code: "k7f2", options: ["yes", "no"], detail: { tool: "exec", command: "ls" } };
const asked: Event = { event: "message", text: "May I?", id: "o-q", turn_id: "t", question };

const scripts: Record<string, Script> = {
  text: {
    events: [ask, began, ...say("Hello.", "s"), end(), idle],
    messages: [user, assistant(1, "Hello.")],
    turn: turned,
  },
  thinking: {
    events: [
      ask,
      began,
      { event: "reasoning_delta", text: "Hm", stream_id: "s" },
      { event: "reasoning_delta", text: "m.", stream_id: "s" },
      { event: "reasoning_end" },
      ...say("Hello.", "s"),
      end(),
      idle,
    ],
    messages: [user, assistant(1, "Hello.", { reasoning: "Hmm." })],
    turn: turned,
  },
  tools: {
    events: [
      ask,
      began,
      ...say("I look.", "s"),
      { event: "tool_delta", call_id: "k", name: "exec", arguments: '{"comm' },
      call("start", "k"),
      { event: "tool_output", call_id: "k", text: "a\n" },
      { event: "tool_output", call_id: "k", text: "b\n" },
      call("end", "k", { result: "a\nb", duration_ms: 12, untrusted: true }),
      call("start", "l"),
      call("error", "l", { error: "no", duration_ms: 3 }),
      ...say("Done.", "s2"),
      end(),
      idle,
    ],
    messages: [
      user,
      assistant(1, "I look.", { tool_calls: [called("k", { untrusted: true })] }),
      assistant(3, "", { tool_calls: [called("l", { result: "no", is_error: true, duration_ms: 3 })] }),
      assistant(5, "Done."),
    ],
    turn: turned,
  },
  edits: {
    events: [
      ask,
      began,
      call("start", "k"),
      {
        event: "file_edit",
        turn_id: "t",
        edits: [
          { call_id: "k", path: "a.md", added: 2, deleted: 1, diff: "+x" },
          { call_id: "k", path: "b.md", added: 1, deleted: 0, diff: "+y" },
        ],
      },
      call("end", "k", { result: "a\nb", duration_ms: 12 }),
      ...say("Done.", "s2"),
      end({ undo_id: "u" }),
      idle,
    ],
    messages: [user, assistant(1, "", { tool_calls: [called("k")] }), assistant(3, "Done.")],
    turn: {
      ...turned,
      undo_id: "u",
      files: [{ path: "a.md", what: "changed" }],
      edits: [
        { call_id: "k", path: "a.md", added: 2, deleted: 1, diff: "+x" },
        { call_id: "k", path: "b.md", added: 1, deleted: 0, diff: "+y" },
      ],
    },
  },
  approval: {
    events: [
      ask,
      began,
      call("start", "k"),
      asked,
      { event: "question_answered", question_id: "q", option: "no", remark: "not now" },
      { event: "question_gone", question_id: "q" },
      call("error", "k", { error: "denied", duration_ms: 12 }),
      ...say("Fine.", "s2"),
      end(),
      idle,
    ],
    messages: [
      user,
      assistant(1, "", { tool_calls: [called("k", { result: "denied", is_error: true })] }),
      assistant(2, "May I?", { event: "question", command: true }),
      { index: 3, role: "user", content: "no not now", event: "answer", command: true, turn_id: "t" },
      assistant(5, "Fine."),
    ],
    turn: turned,
  },
  "approval nobody answered": {
    events: [
      ask,
      began,
      call("start", "k"),
      asked,
      { event: "question_expired", question_id: "q" },
      { event: "question_gone", question_id: "q" },
      call("error", "k", { error: "denied", duration_ms: 12 }),
      ...say("Fine.", "s2"),
      end(),
      idle,
    ],
    messages: [
      user,
      assistant(1, "", { tool_calls: [called("k", { result: "denied", is_error: true })] }),
      assistant(2, "May I?", { event: "question", command: true }),
      assistant(4, "Fine."),
    ],
    turn: turned,
  },
  error: {
    events: [
      ask,
      began,
      { event: "message", text: "It did not work.", id: "o", turn_id: "t" },
      end({ error: "It did not work.", stop_reason: "model_error", usage: undefined }),
      idle,
    ],
    messages: [user, assistant(1, "[No answer: the model call failed.]")],
    turn: { duration_ms: 900, stop_reason: "model_error", model: "m", error: "It did not work." },
  },
  fallback: {
    events: [
      ask,
      began,
      ...say("Hello.", "s"),
      { event: "turn_model_updated", model_name: "m2", fallback: true, turn_id: "t" },
      end({ model: "m2", fallback: true }),
      idle,
    ],
    messages: [user, assistant(1, "Hello.")],
    turn: { ...turned, model: "m2", fallback: true },
  },
  goal: {
    events: [
      ask,
      began,
      { event: "goal_state" },
      ...say("One.", "s"),
      call("start", "k"),
      call("end", "k", { result: "a\nb", duration_ms: 12 }),
      ...say("Two.", "s2"),
      { event: "goal_state" },
      end(),
      idle,
    ],
    messages: [user, assistant(1, "One.", { tool_calls: [called("k")] }), assistant(3, "Two.")],
    turn: turned,
  },
  subagent: {
    events: [
      ask,
      began,
      call("start", "k", { name: "spawn" }),
      call("end", "k", { name: "spawn", result: "started", duration_ms: 12 }),
      ...say("Started.", "s"),
      end(),
      idle,
    ],
    messages: [
      user,
      assistant(1, "", { tool_calls: [called("k", { name: "spawn", result: "started" })] }),
      assistant(3, "Started."),
    ],
    turn: turned,
  },
};

for (const [name, s] of Object.entries(scripts)) {
  const events = s.events.map((e, i): Event => ({ chat_id: "c", seq: i + 1, ...e }));
  const page = { messages: s.messages, turns: [{ turn_id: "t", ...s.turn }], has_more: false, before: 0 };
  const stored = itemsOf(page).map(shown);

  test(`${name}: live and after a reload`, () => {
    const live = events.reduce(reduce, start);
    assert.deepEqual(live.items.map(shown), stored);
    assert.equal(live.running, undefined);
    assert.equal(live.stale, name === "subagent"); // what it answers is read
    assert.deepEqual(withPage(live, page).items.map(shown), stored);
  });

  test(`${name}: cut after every event, and replayed from any place`, () => {
    for (let cut = 0; cut <= events.length; cut++) {
      const before = events.slice(0, cut).reduce(reduce, start);
      const resumed = reduce(before, {
        event: "attached",
        chat_id: "c",
        seq: before.seq,
        resumed: true,
        complete: true,
      });
      const running = before.running ? [{ event: "goal_status", chat_id: "c", status: "running", turn_id: "t" }] : [];
      const after = [...running, ...events.slice(cut)].reduce(reduce, resumed);
      assert.deepEqual(after.items.map(shown), stored, `cut after ${cut}`);
      assert.deepEqual(
        [...events.slice(0, cut), ...events].reduce(reduce, start).items.map(shown),
        stored,
        `repeated from ${cut}`,
      );
    }
  });
}

test("the answer to a subagent, in the name of the turn that started it, has its own end", () => {
  const first = scripts.subagent!.events.map((e, i): Event => ({ chat_id: "c", seq: i + 1, ...e }));
  const later: Event[] = [began, ...say("It says hi.", "x"), end({ id: "o2" }), end({ id: "o2" }), idle].map(
    (e, i) => ({ ...e, chat_id: "c", seq: 100 + i }),
  );
  const items = [...first, ...later].reduce(reduce, start).items;
  assert.deepEqual(items.filter((i) => i.kind === "end").length, 2);
  assert.equal(new Set(items.map((i) => i.id)).size, items.length);
});

test("a turn that no client began is read again at its end", () => {
  const job: Event[] = [{ ...began, turn_id: undefined }, ...say("Report.", "x"), end({ turn_id: undefined })].map(
    (e, i) => ({ ...e, chat_id: "c", seq: 1 + i }),
  );
  assert.equal(job.reduce(reduce, start).stale, true);
});

test("a device that comes later shows what a command printed, whichever comes first", () => {
  const page = {
    messages: [user, assistant(1, "", { tool_calls: [{ call_id: "k", name: "exec", arguments: { command: "ls" } }] })],
    has_more: false,
    before: 0,
  };
  const attached: Event = { event: "attached", chat_id: "c", seq: 5 };
  const running: Event = { ...began, chat_id: "c" };
  const output: Event = { event: "tool_output", chat_id: "c", seq: 6, call_id: "k", text: "one\n" };
  const late = withPage([attached, running, output].reduce(reduce, emptyThread), page);
  const early = [attached, running, output].reduce(reduce, withPage(emptyThread, page));
  for (const t of [late, early]) {
    const tools = t.items.filter((i) => i.kind === "tool") as ToolItem[];
    assert.deepEqual(
      tools.map((i) => [i.phase, i.output]),
      [["running", "one\n"]],
    );
  }
  const long = reduce(late, { ...output, seq: 7, text: "x".repeat(80_000) });
  assert.equal((long.items.at(-1) as ToolItem).output!.length, 64 * 1024);
});

test("a question that was answered stays answered, and a late answer changes nothing", () => {
  const t = [
    asked,
    { event: "question_answered", question_id: "q", option: "yes" },
    { event: "question_gone", question_id: "q", text: "too late" },
  ]
    .map((e, i): Event => ({ ...e, chat_id: "c", seq: i + 1 }))
    .reduce(reduce, start);
  assert.deepEqual(t.items.map(shown), [{ question: "May I?", state: "answered", option: "yes", remark: undefined }]);
});

test("calls that only look are one line; groups that did not change stay the same objects", () => {
  const tool = (id: string, name: string, args: object, turn = "t"): ToolItem => ({
    kind: "tool",
    id,
    turn,
    name,
    args: JSON.stringify(args),
    phase: "done",
  });
  const items: Item[] = [
    tool("1", "read_file", { path: "a" }),
    tool("2", "read_file", { path: "a" }),
    tool("3", "grep", { pattern: "x" }),
    tool("4", "exec", { command: "ls" }),
    tool("5", "read_file", { path: "b" }),
  ];
  const out = grouped(items);
  assert.deepEqual(
    out.map((i) => i.id),
    ["group:1", "4", "5"],
  );
  assert.equal(
    out[0]!.kind === "group" && JSON.stringify(counts(out[0]!.tools)),
    '[{"kind":"read","n":1},{"kind":"searched","n":1}]',
  );
  assert.equal(grouped([...items, tool("6", "exec", {})])[0], out[0]);
  assert.notEqual(grouped([...items.slice(0, 2), { ...(items[2] as ToolItem), phase: "error" }])[0], out[0]);
  assert.deepEqual(
    grouped([tool("1", "read_file", {}), tool("2", "read_file", {}, "u")]).map((i) => i.id),
    ["1", "2"],
  );
});
