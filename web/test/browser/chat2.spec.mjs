import assert from "node:assert/strict";
import { check } from "./axe.mjs";
import { pageTest, said, saying, send, until, useBrowser } from "./fixture.mjs";
import { launch, newPage } from "./browser.mjs";

useBrowser();

const at = new Date().toISOString();
const row = (key, title, more = {}) => ({
  key,
  title,
  preview: "",
  created_at: at,
  updated_at: at,
  messages: 1,
  bytes: 1,
  running: false,
  ...more,
});
const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const file = (name, mimeType, buffer) => ({ name, mimeType, buffer });

/** give puts files into a paste or a drop, as a person does. */
const give = (page, type, files) =>
  page.evaluate(
    ({ type, files }) => {
      const data = new DataTransfer();
      for (const f of files) data.items.add(new File([f.text], f.name, { type: f.type }));
      const e =
        type === "paste"
          ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
          : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
      (type === "paste" ? document.getElementById("composer") : document.body).dispatchEvent(e);
    },
    { type, files },
  );

pageTest("files are attached by picker, paste and drop, and go with the message", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.locator("#composer").waitFor();
  await page.setInputFiles("input[type=file]", [
    file("dot.png", "image/png", png),
    file("gone.txt", "text/plain", Buffer.from("x")),
  ]);
  await give(page, "paste", [{ name: "notes.md", type: "", text: "# Notes" }]);
  await give(page, "drop", [{ name: "evil\u202etxt.py", type: "", text: "print(1)" }]);
  await until("the uploads", () => stub.uploads.length === 4);
  assert.deepEqual(stub.uploads.map((u) => u.type).sort(), ["image/png", "text/markdown", "text/plain", "text/plain"]);
  assert.match(await page.locator(".attached").innerText(), /evil\\u\{202e\}txt\.py/);
  await page.locator(".attached img").waitFor();
  await page.getByRole("button", { name: "Remove gone.txt" }).click();
  await until("the sizes", async () => (await page.locator(".attached progress").count()) === 0);
  await send(page, "Look at these");
  await saying(page, "Hello.").waitFor();
  const sent = stub.frames.find((f) => f.type === "message");
  const names = stub.uploads.map((u) => u.name);
  assert.deepEqual(sent.media.map((m) => names[Number(m.upload_id.slice(2)) - 1]).sort(), [
    "dot.png",
    "evil\u202etxt.py",
    "notes.md",
  ]);
  assert.equal(await page.locator(".attached").count(), 0);
  assert.match(await page.locator(".user img").getAttribute("src"), /^blob:/);
  assert.match(await page.locator(".user .files").innerText(), /notes\.md[^]*evil\\u\{202e\}txt/);
});

pageTest("files that cannot be sent are refused at once, with the limit", async ({ page, stub }) => {
  await page.goto(stub.url);
  await page.locator("#composer").waitFor();
  await give(page, "paste", [{ name: "empty.txt", type: "text/plain", text: "" }]);
  await page.getByText("empty.txt is empty.").waitFor();
  await give(page, "paste", [{ name: "tool.exe", type: "application/x-msdownload", text: "MZ" }]);
  await page.getByText("tool.exe: this type of file is not supported.").waitFor();
  await page.setInputFiles("input[type=file]", [file("big.txt", "text/plain", Buffer.alloc((6 << 20) + 1, 120))]);
  await page.getByText("big.txt is too large: at most 6 MiB").waitFor();
  await give(
    page,
    "paste",
    [1, 2, 3, 4, 5].map((n) => ({ name: `${n}.txt`, type: "text/plain", text: "x" })),
  );
  await page.getByText("5.txt was not attached: a message has at most 4 files.").waitFor();
  await until("the uploads", () => stub.uploads.length === 4);
  assert.deepEqual(stub.uploads.map((u) => u.name).sort(), ["1.txt", "2.txt", "3.txt", "4.txt"]);
  await page.getByRole("button", { name: "Remove 4.txt" }).click();
  stub.refuseUpload = [413, "upload_too_large"];
  await give(page, "paste", [{ name: "late.txt", type: "text/plain", text: "x" }]);
  await page.locator(".attached .bad").waitFor();
  await send(page, "go");
  await page.getByText("A file was not sent.").waitFor();
  assert.equal(stub.frames.filter((f) => f.type === "message").length, 0);
  assert.equal(await page.inputValue("#composer"), "go");
});

pageTest("a text that is too long becomes a file with the key that sends", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.fill("#composer", "x".repeat(61 << 10));
  await page.locator(".count.bad", { hasText: "61 of 64 KiB" }).waitFor();
  await page.fill("#composer", "y".repeat(65 << 10));
  await page.locator(".count.bad", { hasText: "Too long" }).waitFor();
  await page.press("#composer", "Enter");
  await until("the upload", () => stub.uploads.length === 1);
  assert.equal(stub.uploads[0].bytes, 65 << 10);
  await until("the field is empty", async () => (await page.inputValue("#composer")) === "");
  await page.locator(".attached progress").waitFor({ state: "detached" });
  await page.press("#composer", "Enter");
  await saying(page, "Hello.").waitFor();
});

pageTest("a paste that is longer than a message becomes a file, a shorter one stays text", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.fill("#composer", "before ");
  const paste = (text) =>
    page.evaluate((text) => {
      const data = new DataTransfer();
      data.setData("text/plain", text);
      document
        .getElementById("composer")
        .dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    }, text);
  await paste("a line of text\n".repeat(20_000));
  await page.getByText("The pasted text is attached as a file").waitFor();
  await until("the upload", () => stub.uploads.length === 1);
  assert.equal(stub.uploads[0].bytes, 300_000);
  assert.equal(await page.inputValue("#composer"), "before ");
  await paste("z".repeat(20_000) + "\r\nend");
  assert.equal(await page.inputValue("#composer"), "before " + "z".repeat(20_000) + "\nend");
});

pageTest("conversations are pinned, archived and restored, and unread answers counted", async ({ page, stub }) => {
  stub.sessions = [row("websocket:a", "Invoices"), row("websocket:b", "Trip"), row("telegram:9", "Ana", { unread: 2 })];
  await page.goto(stub.url);
  await page.locator(".chat-row", { hasText: "Ana" }).locator(".badge", { hasText: "2" }).waitFor();
  await until("the title", async () => (await page.title()).startsWith("(2) "));
  await page.getByRole("button", { name: "Actions for Trip" }).click();
  await page.getByRole("menuitem", { name: "Pin", exact: true }).click();
  await page.locator(".side section", { hasText: "Pinned" }).getByRole("link", { name: "Trip" }).waitFor();
  assert.deepEqual(stub.sidebar, { pinned: ["websocket:b"] });
  await page.reload();
  await page.locator(".side section", { hasText: "Pinned" }).getByRole("link", { name: "Trip" }).waitFor();
  await page.getByRole("button", { name: "Actions for Invoices" }).click();
  await page.getByRole("menuitem", { name: "Archive" }).click();
  await until("the archive", async () => (await page.getByRole("link", { name: "Invoices" }).count()) === 0);
  await page.getByRole("button", { name: "More about conversations" }).click();
  await page.getByRole("menuitem", { name: "Archived conversations" }).click();
  await page.locator("dialog").getByRole("button", { name: "Restore" }).waitFor();
  await check(page, "archive");
  await page.locator("dialog").getByRole("button", { name: "Restore" }).click();
  await page.getByRole("link", { name: "Invoices" }).waitFor();
  assert.match(page.url(), /websocket%3Aa$/);
  await page.getByRole("link", { name: "Ana" }).click();
  await until("that it was seen", () =>
    stub.requests.some((r) => r.action === "session.seen" && r.payload.key === "telegram:9"),
  );
  await until("the title again", async () => !(await page.title()).startsWith("("));
  stub.sessions = stub.sessions.map((s) => (s.key === "websocket:a" ? { ...s, unread: 3 } : s));
  stub.tell({ topic: "sessions" });
  await page.locator(".chat-row", { hasText: "Invoices" }).locator(".badge", { hasText: "3" }).waitFor();
});

pageTest("a conversation of another channel is live, and nothing can be sent into it", async ({ page, stub }) => {
  stub.sessions = [row("telegram:9", "Ana")];
  stub.threads.set("telegram:9", [{ index: 0, role: "user", content: "Hi there", at, turn_id: "m1" }]);
  await page.goto(stub.url + "#/c/telegram%3A9");
  await saying(page, "Hi there").waitFor();
  await until("the watch", () => stub.frames.some((f) => f.type === "watch" && f.key === "telegram:9"));
  stub.emit("@telegram:9", { event: "user_message", text: "When is the train?", turn_id: "m2" });
  await page.getByText("When is the train?").waitFor();
  stub.emit("@telegram:9", { event: "goal_status", status: "running", turn_id: "m2" });
  stub.emit("@telegram:9", { event: "delta", text: "At nine.", stream_id: "s" });
  await saying(page, "At nine.").waitFor();
  stub.threads
    .get("telegram:9")
    .push(
      { index: 1, role: "user", content: "When is the train?", at, turn_id: "m2" },
      { index: 2, role: "assistant", content: "At nine.", at, turn_id: "m2" },
    );
  stub.emit("@telegram:9", { event: "stream_end", stream_id: "s" });
  stub.emit("@telegram:9", { event: "turn_end", turn_id: "m2", id: "o" });
  await until(
    "the stored page",
    async () =>
      (await saying(page, "At nine.").count()) === 1 && (await page.getByText("When is the train?").count()) === 1,
  );
  assert.equal(await page.locator("#composer").count(), 0);
  assert.equal(await page.getByRole("button", { name: "Continue from here" }).count(), 0);
});

pageTest("a question stays open over a reload, and one answer closes it in all tabs", async ({ page, stub }) => {
  const question = {
    id: "q1",
    code: "k7f2",
    options: ["yes", "no"],
    expires: new Date(Date.now() + 300_000).toISOString(),
  };
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    s.emit(chat, { event: "message", text: "Run rm?", turn_id: m.turn_id, question });
    s.chat(chat).open = [{ event: "message", chat_id: chat, text: "Run rm?", turn_id: m.turn_id, question }];
  };
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await send(page, "go");
  await page.locator(".approval").waitFor();
  await until("the count", async () => (await page.title()).startsWith("(1) "));
  await page.reload();
  await page.locator(".approval").waitFor();
  assert.equal(await page.locator(".approval").count(), 1);
  const browser = await launch();
  try {
    const other = (await newPage(browser)).page;
    await other.goto(stub.url + "#/c/websocket%3Aa");
    await other.locator(".approval").waitFor();
    await until("the answer", async () => {
      if (stub.answers.length === 0)
        await other
          .getByRole("button", { name: "Allow once" })
          .click({ timeout: 5000 })
          .catch(() => {});
      return stub.answers.length > 0;
    });
    await page.locator(".asked-before").waitFor();
    await other.locator(".asked-before").waitFor();
    await until("the count again", async () => !(await page.title()).startsWith("("));
  } finally {
    await browser.close();
  }
});

pageTest("a message during a turn joins it", async ({ page, stub }) => {
  stub.script = (s, chat, m) => m.content === "go" && s.begin(chat, m.turn_id);
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await send(page, "go");
  await page.getByRole("button", { name: "Stop" }).waitFor();
  assert.equal(await page.getAttribute("#composer", "placeholder"), "Add to the running turn");
  await send(page, "and quickly");
  await until("both", () => stub.accepted.length === 2);
  await page.getByText("and quickly").waitFor();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await until("the page knows", async () => (await page.getByText("Waiting to be sent").count()) === 0);
});

pageTest(
  "a temporary chat is not in the list, survives a lost connection, and ends when the gateway forgot it",
  async ({ page, stub }) => {
    await page.goto(stub.url);
    await page.getByRole("button", { name: "More about conversations" }).click();
    await page.getByRole("menuitem", { name: "Temporary chat" }).click();
    await page.getByText("This chat is not stored.").waitFor();
    assert.match(page.url(), /websocket%3Atemp-1$/);
    await send(page, "secret");
    await saying(page, "Hello.").waitFor();
    stub.drop();
    await until("it is back", () => stub.frames.some((f) => f.type === "resume" && f.chat_id === "temp-1"));
    await send(page, "once more");
    await until("two answers", async () => (await saying(page, "Hello.").count()) === 2);
    stub.forgotten = "temp-1";
    stub.drop();
    await page.getByText("This temporary chat has ended.").waitFor();
    assert.equal(await page.locator(".notice").count(), 0);
    await until("no row", async () => (await page.locator(".side section", { hasText: "Temporary" }).count()) === 0);
  },
);

pageTest("the header names the new usual model", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.getByRole("button", { name: "scripted" }).waitFor();
  stub.tell({ event: "runtime_model_updated", model_name: "second" });
  await page.getByRole("button", { name: "second" }).waitFor();
});

pageTest("the model and the folder of a chat are chosen in its header", async ({ page, stub }) => {
  stub.settings = { config: { modelPresets: { fast: { model: "tiny" } } }, model: { name: "scripted" } };
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.getByRole("button", { name: "scripted" }).click();
  await page.getByRole("radio", { name: "fast" }).check();
  await page.fill("dialog input[name=path]", "/home/me/other");
  await page.getByRole("radio", { name: "Only this folder" }).check();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "fast" }).waitFor();
  const sent = stub.frames.filter((f) => f.type.startsWith("set_"));
  assert.deepEqual(sent, [
    { type: "set_model", chat_id: "a", preset: "fast" },
    {
      type: "set_workspace_scope",
      chat_id: "a",
      workspace_scope: { project_path: "/home/me/other", access_mode: "restricted" },
    },
  ]);
  await page.locator("dialog").waitFor({ state: "detached" });
});

pageTest("a message is edited and sent again in a new chat", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await send(page, "one");
  await until("the first answer", async () => (await page.locator(".footer").count()) === 1);
  await send(page, "two");
  await until("the second answer", async () => (await page.locator(".footer").count()) === 2);
  await page.locator(".item", { hasText: "two" }).hover();
  await page.locator(".user", { hasText: "two" }).getByRole("button", { name: "Edit and send in a new chat" }).click();
  await page.waitForURL(/forked$/);
  await until("the draft", async () => (await page.inputValue("#composer")) === "two");
  await page.locator(".user", { hasText: "one" }).waitFor();
  await until("the rest is gone", async () => (await page.locator(".user").count()) === 1);
  assert.deepEqual(
    stub.frames.filter((f) => f.type === "fork_chat"),
    [{ type: "fork_chat", source_chat_id: "a", before_index: 2 }],
  );
});

pageTest("files of a stored message stay inside of its bubble", async ({ page, stub }) => {
  const name = "a-very-long-name-of-a-picture-".repeat(12) + ".png";
  stub.threads.set("websocket:a", [
    {
      index: 0,
      role: "user",
      content: "Look",
      at,
      attachments: [{ name, url: "/api/media/sig/payload" }, { name: name.replace("png", "pdf") }],
    },
  ]);
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.locator(".user .files li").first().waitFor();
  const outside = await page.locator(".user").evaluate((bubble) => {
    const edge = bubble.getBoundingClientRect().right;
    return [...bubble.querySelectorAll(".files *")]
      .filter((e) => e.getBoundingClientRect().right > edge + 1)
      .map((e) => e.tagName);
  });
  assert.deepEqual(outside, []);
});

pageTest("a wrong address says so", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Anobody");
  await page.getByText("There is no conversation at this address.").waitFor();
  await page.goto(stub.url + "#/no-such-page");
  await page.getByText("There is no page at this address.").waitFor();
  await page.getByRole("link", { name: "New chat" }).click();
  await page.locator("#composer:not([disabled])").waitFor();
});

pageTest("a call says whether it waits, failed or was denied", async ({ page, stub }) => {
  const call = (call_id, command, more) => ({ call_id, name: "exec", arguments: { command }, ...more });
  stub.threads.set("websocket:a", [
    { index: 0, role: "user", content: "go", turn_id: "t", at },
    {
      index: 1,
      role: "assistant",
      content: "",
      turn_id: "t",
      at,
      tool_calls: [
        call("k1", "true", { result: "\n\nExit code: 0" }),
        call("k2", "false", { result: "\n\nExit code: 1" }),
        call("k3", "rm x", { result: "no", denied: true, is_error: true }),
      ],
    },
    { index: 2, role: "assistant", content: "Done.", turn_id: "t", at, latency_ms: 10 },
  ]);
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    s.emit(chat, {
      event: "message",
      kind: "progress",
      text: "",
      tool_events: [{ phase: "start", call_id: "k4", name: "exec", arguments: { command: "sleep 1" } }],
    });
    s.emit(chat, {
      event: "message",
      text: "May I?",
      turn_id: m.turn_id,
      question: {
        id: "q",
        code: "c",
        options: ["yes", "no"],
        detail: { tool: "exec", call_id: "k4", command: "sleep 1" },
      },
    });
  };
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.getByText("Done.").waitFor();
  await send(page, "go");
  await page.locator(".approval").waitFor();
  const lines = await page.locator("details.tool > summary").allInnerTexts();
  assert.deepEqual(
    lines.map((l) => l.replace(/\s+/g, " ").trim()),
    ["Ran true", "Run false Exit code 1", "Run rm x Not run: denied", "Run sleep 1 Waits for your answer"],
  );
});

pageTest("an address with an index shows that message, and pages on both sides", async ({ page, stub }) => {
  const all = Array.from({ length: 1000 }, (_, i) => ({
    index: i,
    role: i % 2 ? "assistant" : "user",
    content: `message number ${i}`,
    at,
  }));
  stub.threads.set("websocket:a", all);
  await page.goto(stub.url + "#/c/websocket%3Aa/500");
  await page.locator(".found", { hasText: "message number 500" }).waitFor();
  await until("it is in view", async () => (await page.locator(".found").boundingBox())?.y < 400);
  const box = page.locator(".thread");
  await until("newer messages", async () => {
    await box.evaluate((e) => (e.scrollTop = e.scrollHeight));
    return /message number (?:5[6-9]|[6-9]\d)\d\b/.test(await said(page));
  });
  await until("older messages", async () => {
    await box.evaluate((e) => (e.scrollTop = 0));
    return /message number (?:\d{1,2}|[1-3]\d\d|4[0-4]\d)\b/.test(await said(page));
  });
  await page.getByRole("link", { name: "Latest messages" }).click();
  await page.getByText("message number 999").waitFor();
});

pageTest("speech becomes text of the message, where it is configured", async ({ page, stub }) => {
  await page.addInitScript(() => {
    navigator.mediaDevices.getUserMedia = async () => ({ getTracks: () => [{ stop() {} }] });
    globalThis.MediaRecorder = class {
      mimeType = "audio/webm;codecs=opus";
      start() {}
      stop() {
        this.ondataavailable({ data: new Blob(["sound"]) });
        this.onstop?.();
      }
    };
  });
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.locator("#composer").waitFor();
  assert.equal(await page.getByRole("button", { name: "Dictate" }).count(), 0);
  stub.settings = { speech: true };
  stub.tell({ topic: "settings" });
  await page.fill("#composer", "Please");
  await page.getByRole("button", { name: "Dictate" }).click();
  await page.getByRole("button", { name: "Stop listening" }).click();
  await until("the words", async () => (await page.inputValue("#composer")) === "Please buy milk");
  const sent = stub.frames.find((f) => f.type === "transcribe_audio");
  assert.match(sent.data_url, /^data:audio\/webm;base64,/);
  stub.unheard = "empty";
  await page.getByRole("button", { name: "Dictate" }).click();
  await page.getByRole("button", { name: "Stop listening" }).click();
  await page.getByText("The recording could not be transcribed: No words were heard.").waitFor();
  assert.equal(await page.inputValue("#composer"), "Please buy milk");
});

pageTest("a missed number and a resync make the page read again", async ({ page, stub }) => {
  stub.sessions = [row("websocket:a", "Invoices")];
  await page.goto(stub.url);
  await page.getByRole("link", { name: "Invoices" }).waitFor();
  await until("the subscription", () =>
    stub.frames.some((f) => f.type === "subscribe" && f.topics.includes("sessions")),
  );
  stub.sessions = [row("websocket:a", "Renamed")];
  stub.tell({ event: "changed", topic: "budget", n: 7 });
  await page.getByRole("link", { name: "Renamed" }).waitFor();
  stub.sessions = [row("websocket:a", "And again")];
  stub.tell({ event: "resync" });
  await page.getByRole("link", { name: "And again" }).waitFor();
});

pageTest("a paste of 4,000 lines goes in where the cursor is, and is kept", async ({ page, stub, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(stub.url).origin });
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.fill("#composer:not([disabled])", "before after");
  const text = "a line of text\n".repeat(4000);
  await page.evaluate(async (t) => {
    await navigator.clipboard.writeText(t);
    const f = document.querySelector("#composer");
    f.focus();
    f.setSelectionRange(7, 7);
  }, text);
  await page.keyboard.press("Control+V");
  await until("the text", async () => (await page.inputValue("#composer")) === "before " + text + "after");
  await page.reload();
  await until("the draft", async () => (await page.inputValue("#composer")).length === text.length + 12);
});
