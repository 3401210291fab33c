import assert from "node:assert/strict";
import { test } from "node:test";
import { rangeText } from "../../src/chat/estimate";
import { took } from "../../src/text/figures";
import { around, lineDiff } from "../../src/text/linediff";
import { timesOf } from "../../src/text/replay";
import { addDays, buckets, causeOf, covered, scale } from "../../src/text/series";
import type { Day, Used } from "../../src/wire/reads";
import { pieces } from "../../src/text/snippet";

const used = (cost_usd: number): Used => ({
  prompt_tokens: 10,
  completion_tokens: 1,
  cached_tokens: 0,
  total_tokens: 11,
  requests: 1,
  cost_usd,
  unpriced_requests: 0,
});
const day = (date: string, sources: Record<string, number>): Day => ({
  date,
  ...used(Object.values(sources).reduce((a, b) => a + b, 0)),
  sources: Object.fromEntries(Object.entries(sources).map(([k, v]) => [k, used(v)])),
});

test("days without calls are there, and weeks end with the last day", () => {
  const days = [
    day("2026-02-27", { user: 1, cron: 2 }),
    day("2026-03-01", { dream: 4, "guest:x": 1 }),
    day("2026-03-09", { user: 9 }),
  ];
  const list = buckets(days, "2026-02-27", 4, 1, (u) => u.cost_usd);
  assert.deepEqual(
    list.map((b) => [b.from, b.total]),
    [
      ["2026-02-27", 3],
      ["2026-02-28", 0],
      ["2026-03-01", 5],
      ["2026-03-02", 0],
    ],
  );
  assert.deepEqual(list[0]!.values, { chat: 1, jobs: 2, other: 0 });
  assert.deepEqual(list[2]!.values, { chat: 0, jobs: 0, other: 5 });
  const weeks = buckets(days, "2026-02-27", 11, 7, (u) => u.cost_usd);
  assert.deepEqual(
    weeks.map((b) => [b.from, b.to, b.total]),
    [
      ["2026-02-27", "2026-03-02", 8],
      ["2026-03-03", "2026-03-09", 9],
    ],
  );
  assert.equal(buckets([], "2025-10-14", 400, 7, () => 0).at(-1)!.to, addDays("2025-10-14", 399));
  assert.equal(causeOf("subagent"), "chat");
  assert.equal(causeOf("something new"), "other");
});

test("an axis ends at a round number above the highest value", () => {
  assert.deepEqual(scale(3.1), { top: 4, ticks: [0, 1, 2, 3, 4] });
  assert.deepEqual(scale(0), { top: 1, ticks: [0, 1] });
  assert.deepEqual(scale(NaN), { top: 1, ticks: [0, 1] });
  for (const most of [0.00017, 0.9, 4, 5, 47, 1e9]) {
    const s = scale(most);
    assert.ok(s.top >= most * 0.999999 && s.top <= most * 2.5 && s.ticks.length <= 6, `${most}: ${JSON.stringify(s)}`);
  }
});

test("time that is covered twice counts once", () => {
  assert.equal(
    covered([
      { from: 5, to: 8 },
      { from: 0, to: 4 },
      { from: 3, to: 6 },
      { from: 4, to: 5 },
    ]),
    8,
  );
  assert.equal(covered([]), 0);
});

test("the time of a turn goes into the model, tools, people and the rest", () => {
  const at = (ms: number) => new Date(Date.parse("2026-05-04T12:00:00Z") + ms).toISOString();
  const model = {
    model: "m",
    provider: "p",
    source: "user",
    first_token_ms: 300,
    prompt_tokens: 100,
    completion_tokens: 10,
    billing: "priced",
    cost_usd: 0.5,
    outcome: "ok",
  };
  const tool = { call_id: "c", name: "exec", arguments: "{}", bytes: 0 };
  const t = timesOf({
    turn_id: "t",
    began_at: at(0),
    duration_ms: 10_000,
    steps: [
      { at: at(-50), duration_ms: 0, said: { index: 0, role: "user", text: "x" } },
      { at: at(100), duration_ms: 1000, model },
      { at: at(2000), duration_ms: 3000, wait: { question: "q", answer: "yes" } },
      { at: at(5000), duration_ms: 2000, tool },
      { at: at(5500), duration_ms: 1000, tool },
      { at: at(8000), duration_ms: 1500, model: { ...model, billing: "unknown", cost_usd: 0 } },
    ],
  });
  assert.deepEqual([t.total, t.model, t.people, t.tools, t.other], [10_000, 2500, 3000, 2000, 2500]);
  assert.deepEqual([t.calls, t.tokens, t.usd, t.unknown], [2, 220, 0.5, 1]);
  assert.equal(t.steps[0]!.from, 0);
  assert.equal(timesOf({ turn_id: "t", began_at: "", steps: [] }).total, 1);
});

test("durations and costs are short", () => {
  assert.deepEqual([0, 40, 900, 9900, 12_300, 65_000, 3_700_000].map(took), [
    "0 s",
    "0.04 s",
    "0.90 s",
    "9.9 s",
    "12 s",
    "1 min 5 s",
    "1 h 1 min",
  ]);
  assert.equal(rangeText(0.02, 0.05), "$0.02–0.05");
  assert.equal(rangeText(0.02, 0.02), "$0.02");
});

test("the difference of two texts has every line of both", () => {
  const a = "one\ntwo\nthree\nfour\n";
  const b = "one\n2\nthree\nfour\nfive\n";
  const d = lineDiff(a, b);
  assert.deepEqual(
    d.map((l) => l.kind[0] + l.text),
    ["sone", "dtwo", "a2", "sthree", "sfour", "afive"],
  );
  const side = (kind: string) =>
    d
      .filter((l) => l.kind === "same" || l.kind === kind)
      .map((l) => l.text + "\n")
      .join("");
  assert.equal(side("del"), a);
  assert.equal(side("add"), b);
  assert.deepEqual(lineDiff("", "x\n"), [{ kind: "add", text: "x" }]);
  assert.deepEqual(lineDiff("x\n", "x\n"), [{ kind: "same", text: "x" }]);
  const long = Array.from({ length: 1000 }, (_, n) => `line ${n}`);
  const changed = long.map((l, n) => (n === 500 ? "other" : l));
  const near = around(lineDiff(long.join("\n"), changed.join("\n")));
  assert.equal(near.length, 10); // two gaps, the change, and three lines on either side
  assert.equal(near[0], undefined);
});

test("a snippet marks what was found", () => {
  assert.deepEqual(pieces("a \u0002b\u0003 c"), [
    { text: "a ", hit: false },
    { text: "b", hit: true },
    { text: " c", hit: false },
  ]);
  assert.deepEqual(pieces("\u0002open"), [{ text: "open", hit: true }]);
});
