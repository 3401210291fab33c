import assert from "node:assert/strict";
import { test } from "node:test";
import { cronOf, localTime, weekly } from "../../src/pages/automations/cron";
import { labelOf, patchOf, typeOf } from "../../src/ui/schema";

test("a patch has what changed, and null for what is gone", () => {
  assert.equal(patchOf({ a: 1, b: [1, 2] }, { a: 1, b: [1, 2] }), undefined);
  assert.deepEqual(patchOf({ a: 1, b: 2, token: "***" }, { a: 3, token: "***", c: "x" }), { a: 3, b: null, c: "x" });
  assert.deepEqual(patchOf({ deep: { x: 1, y: 2 } }, { deep: { x: 1, y: 3 } }), { deep: { y: 3 } });
  assert.deepEqual(patchOf({ deep: { x: 1 } }, {}), { deep: null });
  assert.deepEqual(patchOf({}, { deep: { x: 1 } }), { deep: { x: 1 } });
  assert.deepEqual(patchOf({ list: ["a"] }, { list: ["a", "b"] }), { list: ["a", "b"] });
});

test("names become words, types lose null", () => {
  assert.equal(labelOf("groupAllowFrom"), "Group allow from");
  assert.equal(labelOf("client_secret"), "Client secret");
  assert.equal(labelOf("a\u202eb"), "A\\u{202e}b");
  assert.equal(typeOf({ type: ["null", "integer"] }), "integer");
  assert.equal(typeOf({}), "");
});

test("cron expressions of the simple kind are read and written", () => {
  assert.deepEqual(weekly("30 7 * * 1,5"), { time: "07:30", days: [1, 5] });
  assert.deepEqual(weekly("0 9 * * *"), { time: "09:00", days: [] });
  for (const hard of ["*/5 * * * *", "0 9 1 * *", "0 9 * * 1-5", "0 25 * * *", "61 1 * * *", "@daily", ""])
    assert.equal(weekly(hard), undefined, hard);
  for (const cron of ["30 7 * * 1,5", "0 0 * * *", "59 23 * * 0"]) {
    const { time, days } = weekly(cron)!;
    assert.equal(cronOf(time, days), cron);
  }
  assert.equal(cronOf("09:00", [0, 1, 2, 3, 4, 5, 6]), "0 9 * * *");
  assert.equal(localTime(new Date(2026, 4, 4, 9, 5)), "2026-05-04T09:05");
});
