import assert from "node:assert/strict";
import { test } from "node:test";
import { fuzzy } from "../../src/text/fuzzy";

test("letters in order match from the beginning of a word", () => {
  assert.ok(fuzzy("dvc", "Devices") > 0);
  assert.ok(fuzzy("mcp ser", "MCP servers") > 0);
  assert.equal(fuzzy("vice x", "Devices"), 0);
  assert.equal(fuzzy("svd", "Devices"), 0);
});

test("a whole word beats its parts, and a short name a long one", () => {
  const order = (query: string, ...names: string[]) => names.toSorted((a, b) => fuzzy(query, b) - fuzzy(query, a));
  assert.deepEqual(order("log", "Catalogue", "Look at the gateway", "Log"), [
    "Log",
    "Catalogue",
    "Look at the gateway",
  ]);
  assert.deepEqual(order("set", "Settings as text", "Settings"), ["Settings", "Settings as text"]);
});

test("an empty query matches everything, and any text is safe", () => {
  assert.ok(fuzzy("", "x") > 0);
  assert.ok(fuzzy("  ", "x") > 0);
  assert.equal(fuzzy("[(*", "x"), 0);
  assert.ok(fuzzy("日程", "日程") > 0);
  assert.equal(typeof fuzzy("a".repeat(5000), "a".repeat(50_000)), "number");
});
