import assert from "node:assert/strict";
import { test } from "node:test";
import { limits, refusal, typeOf } from "../../src/state/attach";
import { emptyThread } from "../../src/state/items";
import { withNewer, withPage } from "../../src/state/page";
import { reduce } from "../../src/state/reduce";
import { chatHref, parseRoute } from "../../src/state/route";

test("types of files are those that the gateway takes", () => {
  for (const [name, type, want] of [
    ["a.png", "image/png", "image/png"],
    ["A.PNG", "", "image/png"],
    ["a.svg", "image/svg+xml", "text/xml"],
    ["main.go", "", "text/plain"],
    ["page.ts", "video/mp2t", "text/plain"],
    ["x", "text/x-unknown; charset=utf-8", "text/plain"],
    [
      "a.docx",
      "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
      "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ],
    ["a.exe", "application/x-msdownload", ""],
    ["noend", "", ""],
  ])
    assert.equal(typeOf(name!, type!), want, name);
});

test("limits of files", () => {
  const f = (size: number, type = "text/plain") => ({ size, type });
  assert.equal(refusal([], f(1)), undefined);
  assert.equal(refusal([], f(0)), "attach.empty");
  assert.equal(refusal([], f(1, "")), "attach.type");
  assert.equal(refusal([], f(limits.file + 1)), "attach.large");
  assert.equal(refusal([], f(limits.video, "video/mp4")), undefined);
  assert.equal(refusal([], f(limits.video + 1, "video/mp4")), "attach.large");
  assert.equal(refusal([f(1, "video/mp4")], f(1, "video/webm")), "attach.videos");
  assert.equal(refusal([f(1), f(1), f(1), f(1)], f(1)), "attach.many");
  assert.equal(refusal([f(limits.video, "video/mp4")], f(limits.file)), "attach.total");
});

test("a route can name a message", () => {
  assert.deepEqual(parseRoute("#/c/telegram%3A1/42"), { page: "chat", key: "telegram:1", at: 42 });
  assert.deepEqual(parseRoute("#/c/telegram%3A1/x"), { page: "chat", key: "telegram:1" });
  assert.equal(chatHref("telegram:1", 42), "#/c/telegram%3A1/42");
});

test("what a chat is told about itself", () => {
  let t = reduce(emptyThread, {
    event: "attached",
    seq: 5,
    model_name: "m",
    model_preset: "fast",
    title: "Trip",
    workspace_scope: { project_path: "/w", access_mode: "full" },
  });
  assert.deepEqual([t.preset, t.title, t.scope?.project_path], ["fast", "Trip", "/w"]);
  t = reduce(t, { event: "session_updated", seq: 6, scope: "model", model_name: "big", model_preset: "" });
  assert.deepEqual([t.model, t.preset], ["big", ""]);
  t = reduce(t, {
    event: "goal_state",
    seq: 7,
    goal_state: { active: true, objective: "ship", status: "active", started_at: "2026-01-01T00:00:00Z" },
  });
  assert.equal(t.goal?.objective, "ship");
  t = reduce(t, {
    event: "user_message",
    seq: 8,
    text: "look",
    turn_id: "x",
    media_urls: [{ url: "/api/media/a/b", name: "a.png" }],
  });
  const last = t.items.at(-1);
  assert.equal(last?.kind === "user" && last.media?.[0]?.name, "a.png");
});

test("a newer page follows the part that is shown", () => {
  const said = (index: number) => ({ index, role: "user" as const, content: `m${index}` });
  let t = withPage(emptyThread, { messages: [said(4), said(5)], has_more: true, before: 4 });
  t = withNewer(
    { ...t, newer: true, after: 5 },
    { messages: [said(5), said(6)], has_more: true, before: 5, has_newer: false, after: 6 },
  );
  assert.deepEqual(
    t.items.map((i) => "index" in i && i.index),
    [4, 5, 6],
  );
  assert.deepEqual([t.newer, t.after], [false, 6]);
});
