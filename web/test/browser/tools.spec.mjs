// Calls of tools, approvals and undo, in one tab and in two.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pageTest, said, send, until, useBrowser } from "./fixture.mjs";

useBrowser();
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function accessible(page, where) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    });
    return violations.map(
      (v) =>
        `${v.id}: ${v.nodes
          .map((n) => n.target.join(" "))
          .slice(0, 3)
          .join(", ")}`,
    );
  });
  assert.deepEqual(found, [], where);
  assert.equal(
    await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1),
    false,
    `${where} is wider than the window`,
  );
}

const event = (s, chat, tool) => s.emit(chat, { event: "message", kind: "progress", text: "", tool_events: [tool] });

const command = "mv -n in/*.pdf out/\u202e " + "and-on ".repeat(200);
const detail = {
  tool: "exec",
  command,
  arguments: { timeout: 9 },
  folder: "/home/me/work",
  sandbox: true,
  network: "host",
  reason: "it uploads a file",
  covers: "exactly this call",
  untrusted: [{ what: "web_fetch shop.example", at: "2026-01-05T20:14:00Z" }],
};

/** asks makes a turn that waits for an approval. */
const asks =
  (id, more = {}) =>
  (s, chat, m) => {
    s.begin(chat, m.turn_id);
    const question = {
      id,
      code: "k7f2",
      options: ["yes", "no", "turn", "session"],
      expires: new Date(Date.now() + 3_600_000).toISOString(),
      detail,
      ...more,
    };
    s.emit(chat, {
      event: "message",
      text: "May I run this command?\n\n  | mv",
      id: "o-" + id,
      turn_id: m.turn_id,
      question,
    });
    s.reads.set("questions", {
      questions: [
        { ...question, key: "websocket:" + chat, channel: "websocket", chat_id: chat, text: "May I run this command?" },
      ],
    });
    s.change("questions");
  };

const open = (stub, page) => page.goto(stub.url + "#/c/websocket%3Aa");

pageTest("calls are one line each, those that only look are one line together", async ({ page, stub }) => {
  const calls = [
    ["read_file", { path: "a" }],
    ["read_file", { path: "b" }],
    ["read_file", { path: "b" }],
    ["grep", { pattern: "x", path: "src" }],
    ["exec", { command: "make" }],
  ].map(([name, args], i) => ({
    call_id: "k" + i,
    name,
    arguments: args,
    result: i === 4 ? "\u001b[31mred\u001b[0m text" : "one",
    duration_ms: 700,
    untrusted: i === 0,
  }));
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    for (const c of calls) event(s, chat, { phase: "start", call_id: c.call_id, name: c.name, arguments: c.arguments });
    for (const c of calls)
      event(s, chat, {
        phase: "end",
        call_id: c.call_id,
        name: c.name,
        result: c.result,
        duration_ms: c.duration_ms,
        untrusted: c.untrusted,
      });
    s.store(chat, {
      role: "assistant",
      content: "Done.",
      turn_id: m.turn_id,
      latency_ms: 2100,
      model: "scripted",
      usage: { prompt_tokens: 17200, completion_tokens: 1000, cost_usd: 0.04 },
      tool_calls: undefined,
    });
    const stored = s.threads.get("websocket:" + chat);
    stored.splice(-1, 0, { index: 1, role: "assistant", content: "", turn_id: m.turn_id, tool_calls: calls });
    stored.forEach((x, i) => (x.index = i));
    s.emit(chat, { event: "delta", text: "Done.", stream_id: "s" });
    s.emit(chat, { event: "stream_end", stream_id: "s" });
    s.end(chat, m.turn_id);
  };
  await open(stub, page);
  await send(page, "look");
  await page.locator(".footer").waitFor();
  const lines = page.locator(".list > .item > details.tool > summary");
  assert.equal(await lines.count(), 2);
  assert.match(await lines.first().innerText(), /^Read 2 files, searched a folder\s+Untrusted content\s+2\.8 s$/);
  assert.match(await lines.last().innerText(), /^Ran\s+make\s+0\.7 s$/);
  const live = await said(page);
  await page.reload();
  await page.locator(".footer").waitFor();
  assert.equal(await said(page), live);
  await lines.first().click();
  await until("the calls of the group", async () => (await page.locator(".inside details.tool").count()) === 4);
  await lines.last().click();
  assert.equal(await page.locator(".output .fg-1").innerText(), "red");
  await accessible(page, "calls");
});

pageTest("a command shows its output while it runs, and is closed when it is done", async ({ page, stub }) => {
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    event(s, chat, { phase: "start", call_id: "k", name: "exec", arguments: { command: "make" } });
    s.emit(chat, { event: "tool_output", call_id: "k", text: "\u001b[32mok\u001b[0m one\n" });
  };
  await open(stub, page);
  await send(page, "build");
  await page.locator(".output .fg-2").waitFor();
  assert.match(await page.locator("details.tool > summary").innerText(), /^Running\s+make/);
  stub.emit("a", { event: "tool_output", call_id: "k", text: "two\n" });
  await page.locator(".output", { hasText: "two" }).waitFor();
  event(stub, "a", { phase: "end", call_id: "k", name: "exec", result: "ok one\ntwo", duration_ms: 900 });
  await page.locator("details.tool:not([open])").waitFor();
  assert.match(await page.locator("details.tool > summary").innerText(), /^Ran\s+make\s+0\.9 s$/);
});

pageTest("an approval shows the whole call, and y and n work only with the focus on it", async ({ page, stub }) => {
  stub.script = asks("q1");
  await open(stub, page);
  await send(page, "go");
  const card = page.locator(".approval");
  await card.waitFor();
  const text = await card.innerText();
  assert.match(text, /nanobot wants to run a command/);
  assert.match(text, /\d\d:\d\d left/);
  assert.ok(text.includes("out/\\u{202e} and-on"), "invisible characters are escaped");
  assert.equal(text.split("and-on").length - 1, 200, "the command is whole");
  for (const fact of [
    "Reason: it uploads a file.",
    "web_fetch shop.example",
    "/home/me/work",
    "timeout: 9",
    "allows exactly this call",
  ])
    assert.ok(text.includes(fact), fact);
  assert.match(text, /Sandbox\s+yes\s+Network\s+full/);
  await accessible(page, "approval");
  assert.equal(await page.evaluate(() => document.activeElement?.id), "composer", "the card takes no focus");
  await page.locator("a[href='#/inbox'] .count").first().waitFor();
  await page.press("#composer", "y"); // a letter of a message
  await page.getByRole("button", { name: "Deny" }).focus();
  await page.keyboard.press("y"); // a button has the focus, not the card
  assert.deepEqual(stub.answers, []);
  await until("the answer", async () => {
    if (stub.answers.length === 0) {
      await card.focus();
      await page.keyboard.press("n");
    }
    return stub.answers.length > 0;
  });
  assert.deepEqual([stub.answers[0].question_id, stub.answers[0].option], ["q1", "no"]);
  await page.getByText("Answered: Deny").waitFor();
  await page.keyboard.press("y"); // late: there is no card any more
  assert.equal(stub.answers.length, 1);
});

pageTest(
  "an approval in two tabs is closed in both, and each answer names its question",
  async ({ page, stub, context }) => {
    stub.script = asks("q1");
    await open(stub, page);
    const other = await context.newPage();
    await open(stub, other);
    await until("both tabs", () => stub.sockets.size === 2 && [...stub.sockets].every((s) => s.places.has("a")));
    await send(page, "go");
    await page.locator(".approval").waitFor();
    await other.locator(".approval").waitFor();
    stub.receive = ((receive) => (socket, f) => {
      if (f.type !== "answer") return receive.call(stub, socket, f);
      stub.answers.push(f);
      stub.emit("a", { event: "question_answered", question_id: f.question_id, option: f.option });
      stub.emit("a", { event: "question_gone", question_id: f.question_id });
    })(stub.receive);
    await until("the answer", async () => {
      if (stub.answers.length === 0 && (await other.locator(".approval").count())) {
        await other.getByRole("button", { name: "Allow", exact: true }).click();
        await other.getByRole("menuitem", { name: "Allow for this chat" }).click();
      }
      return stub.answers.length > 0;
    });
    assert.equal(stub.answers[0].option, "session");
    for (const p of [page, other]) await p.getByText("Answered: Allow for this chat").waitFor();
    asks("q2")(stub, "a", { turn_id: "t2" });
    await page.locator(".approval").waitFor();
    await until("the second answer", async () => {
      if (stub.answers.length === 1 && (await page.locator(".approval").count()))
        await page
          .getByRole("button", { name: "Allow once" })
          .click({ timeout: 60_000 })
          .catch(() => {});
      return stub.answers.length > 1;
    });
    assert.deepEqual(
      stub.answers.map((a) => a.question_id),
      ["q1", "q2"],
    );
  },
);

pageTest("the inbox answers questions of all conversations and lists the answers", async ({ page, stub }) => {
  const question = {
    id: "q9",
    code: "k7f2",
    options: ["yes", "no"],
    expires: new Date(Date.now() + 3_600_000).toISOString(),
    detail,
    key: "websocket:b",
    channel: "websocket",
    chat_id: "b",
    text: "May I?",
  };
  stub.reads.set("questions", {
    questions: [question, { ...question, id: "q8", key: "telegram:9", channel: "telegram", chat_id: "9" }],
  });
  const answers = (n) => ({
    answers: [
      { key: "websocket:b", tool: "exec", what: "ls " + n, option: n ? "yes" : "no", at: "2026-01-05T20:14:00Z" },
    ],
    cursor: n ? null : "1",
  });
  stub.reads.set("approvals/history", (url) => answers(url.searchParams.has("cursor") ? 1 : 0));
  stub.acts.set("approval.explain", (p) =>
    p.arguments.command === "git push"
      ? { action: "deny", reason: "a rule", rule: "exec: git push" }
      : { action: "allow" },
  );
  await page.goto(stub.url + "#/inbox");
  await until("both questions", async () => (await page.locator(".approval").count()) === 2);
  await page.getByRole("cell", { name: "exec: ls 0" }).waitFor();
  await page.getByRole("button", { name: "Older answers" }).click();
  await page.getByRole("cell", { name: "exec: ls 1" }).waitFor();
  await page.fill("textarea[name=arguments]", "git push");
  await page.getByRole("button", { name: "Test" }).click();
  await page.getByText("It would be refused.").waitFor();
  await accessible(page, "inbox");
  await until("the answer", async () => {
    if (stub.answers.length === 0)
      await page
        .getByRole("button", { name: "Allow once" })
        .first()
        .click({ timeout: 60_000 })
        .catch(() => {});
    return stub.answers.length > 0;
  });
  assert.deepEqual(
    { ...stub.answers[0] },
    { type: "answer", chat_id: "b", question_id: "q9", option: "yes", language: "en" },
  );
  // The other was asked on Telegram, and somebody was faster there.
  const told = [];
  stub.acts.set("approval.answer", (p) => (told.push(p), { refuse: [409, "question_closed"] }));
  await page.locator(".approval").last().getByRole("button", { name: "Deny" }).click();
  await page.getByText("The question is not open any more.").waitFor();
  assert.deepEqual(told, [{ question_id: "q8", option: "no", remark: "" }]);
  stub.reads.set("questions", { questions: [] });
  stub.change("questions");
  await page.getByText("Nothing waits for you.").waitFor();
});

/** files is a gateway with one turn that changed a file. */
function files(stub) {
  const turn = {
    id: "u1",
    session: "websocket:a",
    at: "2026-01-05T20:14:00Z",
    changes: [{ path: "out/INDEX.md", what: "created" }],
    gaps: ["out/big.iso: too large to keep"],
  };
  const state = { turn, redo: undefined, conflict: false, applied: [] };
  const diff = "--- /dev/null\n+++ b/out/INDEX.md\n@@ -0,0 +1,2 @@\n+# Index\n+one\n";
  const preview = () =>
    state.conflict
      ? { skipped: [{ path: "out/INDEX.md", why: "it changed since", conflict: true }], gaps: turn.gaps }
      : { deleted: ["out/INDEX.md"], gaps: turn.gaps };
  stub.reads.set("undo", () => ({ turns: [...(state.redo ? [state.redo] : []), turn], total: 1 }));
  stub.reads.set("undo/u1", () => ({ turn, diff, preview: preview() }));
  stub.reads.set("undo/u2", () => ({ turn: state.redo, diff, preview: { restored: ["out/INDEX.md"] } }));
  stub.acts.set("undo.apply", (p) => {
    if (p.id === "u1" && turn.undone_by) return { refuse: [409, "undo_done", { by: turn.undone_by }] };
    state.applied.push(p);
    if (p.id === "u2") {
      turn.undone_by = undefined;
      return { turn: "u2", undo: "u3", restored: ["out/INDEX.md"] };
    }
    turn.undone_by = "u2";
    state.redo = { id: "u2", session: "websocket:a", at: "2026-01-05T20:15:00Z", undoes: "u1", changes: turn.changes };
    return { turn: "u1", undo: "u2", deleted: ["out/INDEX.md"] };
  });
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    event(s, chat, {
      phase: "start",
      call_id: "k",
      name: "write_file",
      arguments: { path: "out/INDEX.md", content: "# Index\none\n" },
    });
    s.emit(chat, {
      event: "file_edit",
      turn_id: m.turn_id,
      edits: [{ call_id: "k", path: "out/INDEX.md", operation: "created", added: 2, deleted: 0, diff }],
    });
    event(s, chat, { phase: "end", call_id: "k", name: "write_file", result: "ok", duration_ms: 10 });
    s.store(chat, {
      role: "assistant",
      content: "",
      turn_id: m.turn_id,
      latency_ms: 2100,
      model: "scripted",
      usage: { prompt_tokens: 10, completion_tokens: 1, billing: "subscription" },
      edits: [{ call_id: "k", path: "out/INDEX.md", added: 2, deleted: 0, diff }],
      undo_id: "u1",
      tool_calls: [
        {
          call_id: "k",
          name: "write_file",
          arguments: { path: "out/INDEX.md", content: "# Index\none\n" },
          result: "ok",
          duration_ms: 10,
        },
      ],
    });
    s.emit(chat, {
      event: "turn_end",
      turn_id: m.turn_id,
      id: "o1",
      latency_ms: 2100,
      usage: { prompt_tokens: 10, completion_tokens: 1, billing: "subscription" },
      model: "scripted",
      undo_id: "u1",
    });
    s.emit(chat, { event: "goal_status", status: "idle", turn_id: m.turn_id });
  };
  return state;
}

pageTest("undo, undo of the undo, and a second tab that comes too late", async ({ page, stub, context }) => {
  const state = files(stub);
  await open(stub, page);
  const other = await context.newPage();
  await open(stub, other);
  await until("both tabs", () => stub.sockets.size === 2 && [...stub.sockets].every((s) => s.places.has("a")));
  await send(page, "write it");
  const footer = page.locator(".footer");
  await footer.getByText("1 file changed").waitFor();
  assert.match(await footer.innerText(), /Subscription/);
  assert.match(await page.locator("details.tool > summary").innerText(), /^Wrote\s+out\/INDEX\.md\s+\+2 −0/);
  await footer.getByRole("button", { name: "Undo" }).click();
  const dialog = page.locator("dialog");
  await dialog.getByText("Deleted, because the turn made them").waitFor();
  assert.match(await dialog.innerText(), /Cannot be undone\s+out\/big\.iso: too large to keep/);
  await accessible(page, "undo");
  await dialog.getByRole("button", { name: "Undo" }).click();
  await footer.getByText("Changes undone").waitFor();
  await other.locator(".footer").getByRole("button", { name: "Undo" }).click();
  await other.locator("dialog").getByRole("button", { name: "Undo" }).click();
  await other.locator(".footer").getByText("Changes undone").waitFor();
  assert.deepEqual(state.applied, [{ id: "u1", force: false }]);
  await footer.getByRole("button", { name: "Bring them back" }).click();
  await dialog.getByText("Brought back as they were before").waitFor();
  await dialog.getByRole("button", { name: "Bring back" }).click();
  await footer.getByRole("button", { name: "Undo" }).waitFor();
  assert.deepEqual(
    state.applied.map((a) => a.id),
    ["u1", "u2"],
  );
});

pageTest("undo after the file changed asks first, and the list of changes does the same", async ({ page, stub }) => {
  const state = files(stub);
  state.conflict = true;
  await page.goto(stub.url + "#/changes");
  await page.getByText("out/INDEX.md").waitFor();
  await page.getByRole("button", { name: "Diff" }).click();
  await page.locator(".line-add", { hasText: "# Index" }).waitFor();
  await accessible(page, "changes");
  await page.getByRole("button", { name: "Undo" }).click();
  const dialog = page.locator("dialog");
  await dialog.getByText("it changed since").waitFor();
  const go = dialog.getByRole("button", { name: "Undo" });
  assert.equal(await go.isDisabled(), true);
  await dialog.getByLabel("Replace these files too").check();
  await go.click();
  await page.getByText("Undone", { exact: true }).waitFor();
  assert.deepEqual(state.applied, [{ id: "u1", force: true }]);
  await page.getByRole("button", { name: "Bring them back" }).click();
  await dialog.getByRole("button", { name: "Bring back" }).click();
  await until("the redo", () => state.applied.length === 2);
});

pageTest("a file is shown beside a wide conversation and above a narrow one", async ({ page, stub }) => {
  files(stub);
  stub.reads.set("sessions/websocket:a/file-preview", (url) => ({
    path: url.searchParams.get("path"),
    name: "INDEX.md",
    size: 900,
    kind: "text",
    truncated: false,
    content: "# <b>Index</b>",
  }));
  await open(stub, page);
  await send(page, "write it");
  await page.locator("details.tool > summary").click();
  await page.getByRole("button", { name: "Open the file" }).click();
  await page.locator("dialog", { hasText: "# <b>Index</b>" }).waitFor();
  await page.locator("dialog").getByRole("button", { name: "Close" }).click();
  await until("the end of the dialog", async () => (await page.locator("dialog").count()) === 0);
  await page.setViewportSize({ width: 1500, height: 900 });
  await page.locator(".footer").getByRole("button", { name: "Diff" }).click();
  const aside = page.locator("aside.panel");
  await aside.locator(".line-add").first().waitFor();
  await until("the panel is wide", async () => (await aside.boundingBox()).width === 420);
  await accessible(page, "panel");
  await aside.getByRole("button", { name: "Close" }).click();
  await until("the end of the panel", async () => (await aside.count()) === 0);
});
