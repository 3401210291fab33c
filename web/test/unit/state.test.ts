import assert from "node:assert/strict";
import { test } from "node:test";
import { Drafts } from "../../src/state/local";
import { parseRoute } from "../../src/state/route";
import { Heights, offsets, range, rowAt } from "../../src/ui/window";

test("routes", () => {
  assert.deepEqual(parseRoute(""), { page: "chat" });
  assert.deepEqual(parseRoute("#/c/telegram%3A1"), { page: "chat", key: "telegram:1" });
  assert.deepEqual(parseRoute("#/c/%"), { page: "chat", key: "%" });
  assert.deepEqual(parseRoute("#/in/CODE"), { page: "sign-in", code: "CODE" });
  assert.deepEqual(parseRoute("#/nothing/here"), { page: "nowhere" });
});

test("drafts are kept by gateway and conversation, and without storage", () => {
  const data = new Map<string, string>();
  const store = {
    getItem: (k: string) => data.get(k) ?? null,
    setItem: (k: string, v: string) => void data.set(k, v),
    removeItem: (k: string) => void data.delete(k),
  };
  new Drafts(store, "g1").write("c", "words");
  assert.equal(new Drafts(store, "g1").read("c"), "words");
  assert.equal(new Drafts(store, "g2").read("c"), "");
  assert.ok([...data.keys()].every((k) => k.includes("g1")));
  const none = new Drafts(undefined, "g1");
  none.write("c", "words");
  assert.equal(none.read("c"), "words");
});

test("a window of 10,000 rows mounts few of them", () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => ({ id: `r${i}`, estimate: 50 }));
  const heights = new Heights();
  const tops = offsets(rows, heights);
  assert.equal(tops[10_000], 500_000);
  assert.equal(rowAt(tops, 0), 0);
  assert.equal(rowAt(tops, 49.9), 0);
  assert.equal(rowAt(tops, 50), 1);
  assert.equal(rowAt(tops, 1e9), 9999);
  const [from, to] = range(tops, 250_000, 800);
  assert.ok(from <= 5000 && to >= 5016 && to - from <= 80, `${from} to ${to}`);
  assert.deepEqual(range(offsets([], heights), 0, 800), [0, 0]);
  assert.deepEqual(range(tops, 1e9, 800)[1], 10_000);
});

test("heights of unmounted rows stay known", () => {
  const heights = new Heights();
  assert.ok(heights.set("a", 120));
  assert.ok(!heights.set("a", 0));
  assert.ok(!heights.set("a", 120.2));
  assert.equal(heights.of({ id: "a", estimate: 50 }), 120);
});
