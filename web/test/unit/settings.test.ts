import assert from "node:assert/strict";
import { test } from "node:test";
import { draft, drafts, base, escape, flatten, forget, originOf, valueAt } from "../../src/pages/settings/state";
import type { SchemaNode } from "../../src/pages/settings/state";
import type { SettingsRead } from "../../src/wire/reads";

const schema: SchemaNode = {
  type: ["object", "null"],
  properties: {
    $schema: { type: "string" },
    agents: {
      properties: {
        temperature: { type: ["number", "null"], minimum: 0 },
        old: { deprecated: true },
        mode: { type: ["string", "null"], enum: ["a", "b", null] },
        on: { type: ["boolean", "null"] },
      },
    },
    providers: {
      additionalProperties: {
        properties: {
          apiKey: { type: ["string", "null"], writeOnly: true },
          hosts: { type: ["array", "null"], items: { type: ["string", "null"] } },
        },
      },
    },
    rules: { type: ["array", "null"], items: { type: ["object", "null"] } },
  },
};
const config = { agents: { temperature: 1 }, providers: { "my.own": { apiKey: "***" } } };

test("the settings of a schema, with the entries of open maps", () => {
  const got = flatten(schema, config).map((s) => [s.path, s.kind]);
  assert.deepEqual(got, [
    ["agents.temperature", "number"],
    ["agents.mode", "choice"],
    ["agents.on", "switch"],
    ["providers.my\\.own.apiKey", "secret"],
    ["providers.my\\.own.hosts", "list"],
    ["rules", "json"],
  ]);
  assert.equal(escape("a.b[0]"), "a\\.b\\[0]");
  assert.equal(valueAt(config, ["providers", "my.own", "apiKey"]), "***");
  assert.equal(valueAt(config, ["none", "at", "all"]), undefined);
});

test("where a value comes from", () => {
  const read = {
    set: [
      { path: "agents.temperature", layer: "file", source: "", line: 3 },
      { path: "rules.0", layer: "env", source: "" },
    ],
  } as unknown as SettingsRead;
  const by = (path: string) =>
    originOf(
      read,
      flatten(schema, config).find((s) => s.path === path)!,
    )?.layer;
  assert.deepEqual([by("agents.temperature"), by("rules"), by("agents.mode")], ["file", "env", undefined]);
});

test("what was typed is based on the version of the first change", () => {
  draft("a", 1, "v1");
  draft("b", 2, "v2");
  assert.equal(base.value, "v1");
  forget(["a"]);
  assert.deepEqual([...drafts.value], [["b", 2]]);
  forget(["b"]);
  draft("c", 3, "v3");
  assert.equal(base.value, "v3");
  forget(["c"]);
});
