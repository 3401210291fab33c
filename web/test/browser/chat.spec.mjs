import assert from "node:assert/strict";
import { pageTest, said, saying, send, until, useBrowser } from "./fixture.mjs";

useBrowser();

const answer = "# Done\n\nI moved **14 files**.\n\n- one\n- two\n\n```go\nfunc main() {}\n```\n\nBye.";

pageTest("an answer is streamed, and a reload shows the same", async ({ page, stub }) => {
  stub.script = (s, chat, m) => s.say(chat, m.turn_id, answer, { size: 3 });
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await send(page, "Tidy up");
  await page.locator(".footer").waitFor();
  await page.locator(".h-keyword").first().waitFor();
  const live = await said(page);
  assert.match(live, /Tidy up[^]*Done[^]*14 files[^]*func main[^]*Bye\.[^]*2\.1 s[^]*18\.2k tokens[^]*\$0\.04/);
  assert.equal(await page.locator(".md strong").innerText(), "14 files");
  await page.reload();
  await page.locator(".h-keyword").first().waitFor();
  assert.equal(await said(page), live);
});

pageTest("the first message gives a new conversation its address", async ({ page, stub }) => {
  await page.goto(stub.url);
  await send(page, "First words");
  await saying(page, "Hello.").waitFor();
  const address = page.url();
  assert.match(address, /#\/c\/websocket%3A[0-9a-f-]{36}$/);
  await page.locator(".chat-row.current", { hasText: "First words" }).waitFor();
  await page.reload();
  await saying(page, "Hello.").waitFor();
  await page.locator(".side").getByRole("button", { name: "New chat" }).click();
  await page.locator(".welcome").waitFor();
  await page.goBack();
  await saying(page, "Hello.").waitFor();
  assert.equal(page.url(), address);
});

pageTest("a message that was sent before the page knew its gateway is not lost", async ({ page, stub }) => {
  let known;
  const asked = new Promise((done) => (known = done));
  await page.route("**/webui/state", async (r) => (await asked, r.continue()));
  await page.goto(stub.url);
  await send(page, "First words");
  await page.fill("#composer", "and a draft");
  await page.getByText("Waiting to be sent").waitFor();
  known();
  await saying(page, "Hello.").waitFor();
  assert.equal(stub.accepted.length, 1);
  assert.equal(await page.getByText("Waiting to be sent").count(), 0);
  await page.reload();
  await saying(page, "Hello.").waitFor();
  await until("the draft", async () => (await page.locator("#composer").inputValue()) === "and a draft");
});

pageTest("messages typed while offline are sent once and in order", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await until("the connection", () => stub.sockets.size > 0);
  stub.refuse = true;
  stub.drop();
  await page.getByText("Not connected.").waitFor();
  await send(page, "first");
  await send(page, "second");
  await until("both wait", async () => (await page.getByText("Waiting to be sent").count()) === 2);
  await page.reload(); // the outbox survives it
  await until("the messages again", async () => (await page.getByText("Waiting to be sent").count()) === 2);
  stub.refuse = false;
  await until("delivery", () => stub.accepted.length === 2);
  await until("the state", async () => (await page.getByText("Waiting to be sent").count()) === 0);
  const sent = stub.threads
    .get("websocket:a")
    .filter((m) => m.role === "user")
    .map((m) => m.content);
  assert.deepEqual(sent, ["first", "second"]);
});

pageTest("a connection that is cut in an answer loses and doubles nothing", async ({ page, stub }) => {
  const text = Array.from({ length: 60 }, (_, i) => `word${i}`).join(" ");
  stub.script = async (s, chat, m) => {
    s.begin(chat, m.turn_id);
    for (let i = 0; i < text.length; i += 20) {
      s.emit(chat, { event: "delta", text: text.slice(i, i + 20), stream_id: "s" });
      if ((i / 20) % 4 === 3) {
        s.drop();
        const before = s.sockets.size;
        await until("a new connection", () => s.sockets.size > before);
      }
    }
    s.emit(chat, { event: "stream_end", stream_id: "s" });
    s.end(chat, m.turn_id);
  };
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await send(page, "go");
  await page.locator(".footer").waitFor();
  assert.equal(await page.locator(".md").innerText(), text);
  assert.equal(stub.accepted.length, 1);
});

pageTest("an approval is answered once, and not by an early click", async ({ page, stub }) => {
  const question = {
    id: "q1",
    code: "k7f2",
    options: ["yes", "no", "turn", "session"],
    expires: new Date(Date.now() + 3_600_000).toISOString(),
  };
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    s.emit(chat, { event: "message", text: "Run rm\u202e -rf?", id: "o1", turn_id: m.turn_id, question });
  };
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.evaluate(() => {
    // A click in the moment in which the card appears.
    const watch = new MutationObserver(() => {
      const button = document.querySelector(".approval button");
      if (!button) return;
      watch.disconnect();
      button.click();
    });
    watch.observe(document.body, { childList: true, subtree: true });
  });
  await send(page, "go");
  const card = page.locator(".approval");
  await card.waitFor();
  assert.match(await card.innerText(), /rm\\u\{202e\} -rf/);
  assert.equal(await page.evaluate(() => document.activeElement?.id), "composer");
  assert.deepEqual(stub.answers, []);
  await page.fill(".approval input", "be careful");
  await until("the answer", async () => {
    if (stub.answers.length === 0)
      await page
        .getByRole("button", { name: "Deny" })
        .click({ timeout: 60_000 })
        .catch(() => {});
    return stub.answers.length > 0;
  });
  await page.getByText("Answered: Deny").waitFor();
  assert.equal(stub.answers.length, 1);
  assert.deepEqual(
    { ...stub.answers[0], type: undefined },
    { type: undefined, chat_id: "a", question_id: "q1", option: "no", language: "en", remark: "be careful" },
  );
});

pageTest("stop names the turn, and is there only while one runs", async ({ page, stub }) => {
  stub.script = (s, chat, m) => s.begin(chat, m.turn_id);
  await page.goto(stub.url + "#/c/websocket%3Aa");
  assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 0);
  await send(page, "go");
  await page.getByRole("button", { name: "Stop" }).click();
  await until("the frame", () => stub.frames.some((f) => f.type === "stop" && f.turn_id === stub.accepted[0]));
  await until("the end", async () => (await page.getByRole("button", { name: "Stop" }).count()) === 0);
});

pageTest("conversations are found, renamed and deleted", async ({ page, stub }) => {
  const at = new Date().toISOString();
  const row = (key, title) => ({
    key,
    title,
    preview: "",
    created_at: at,
    updated_at: at,
    messages: 1,
    bytes: 1,
    running: false,
  });
  stub.sessions = [row("websocket:a", "Invoices"), row("websocket:b", "Trip"), row("telegram:9", "Ana")];
  await page.goto(stub.url);
  await page.getByRole("link", { name: "Ana" }).click();
  await page.getByText("This conversation takes place on telegram.").waitFor();
  await page.getByRole("button", { name: "Actions for Trip" }).click();
  await page.getByRole("menuitem", { name: "Rename" }).click();
  await page.fill("dialog input[name=title]", "Trip to Bergen");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("link", { name: "Trip to Bergen" }).waitFor();
  await page.getByRole("button", { name: "Actions for Invoices" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await until("the deletion", async () => (await page.getByRole("link", { name: "Invoices" }).count()) === 0);
  await page.fill("input[type=search]", "bergen");
  await until("the search", async () => (await page.locator(".chat-row").count()) === 1);
  assert.deepEqual(
    stub.requests.map((r) => r.action),
    ["session.rename", "session.erase"],
  );
});

pageTest("a long conversation opens at its end, mounts little and loads older pages", async ({ page, stub }) => {
  const all = Array.from({ length: 10_000 }, (_, i) => ({
    index: i,
    role: i % 2 ? "assistant" : "user",
    content: `Message number ${i}. ` + "Some words. ".repeat(i % 13),
    turn_id: `t${i >> 1}`,
  }));
  stub.threads.set("websocket:long", all);
  await page.goto(stub.url + "#/c/websocket%3Along");
  await page.getByText("Message number 9999.").waitFor();
  assert.ok((await page.locator("*").count()) < 1500);
  for (const wanted of [9850, 9700]) {
    await until(`message ${wanted}`, async () => {
      await page.locator(".thread").evaluate((e) => e.scrollBy(0, -800));
      return (await page.getByText(`Message number ${wanted}.`).count()) > 0;
    });
  }
  assert.ok((await page.locator("*").count()) < 1500);
  await page.getByRole("button", { name: "Latest messages" }).click();
  await page.getByText("Message number 9999.").waitFor();
});

pageTest("scrolling up while an answer comes in holds its position", async ({ page, stub }) => {
  const words = "Some words in a paragraph.\n\n";
  stub.script = (s, chat, m) => {
    s.begin(chat, m.turn_id);
    s.emit(chat, { event: "delta", text: words.repeat(80), stream_id: "s" });
  };
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await send(page, "go");
  const thread = page.locator(".thread");
  await until("the end in view", () =>
    thread.evaluate((e) => e.scrollTop > 1000 && e.scrollHeight - e.scrollTop - e.clientHeight < 60),
  );
  await thread.evaluate((e) => e.scrollTo(0, e.scrollTop - 700));
  await page.getByRole("button", { name: "Latest messages" }).waitFor();
  const top = await thread.evaluate((e) => e.scrollTop);
  const height = await thread.evaluate((e) => e.scrollHeight);
  for (let i = 0; i < 20; i++) stub.emit("a", { event: "delta", text: words, stream_id: "s" });
  await until("more text", () => thread.evaluate((e, h) => e.scrollHeight > h + 500, height));
  assert.ok(Math.abs((await thread.evaluate((e) => e.scrollTop)) - top) < 2);
});

pageTest("a slash lists commands, which keys choose", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  const field = page.locator("#composer:not([disabled])");
  await field.pressSequentially("/st");
  await page.getByRole("option", { name: "/status" }).waitFor();
  assert.equal(await page.getByRole("option").count(), 2);
  await field.press("ArrowDown");
  await page.locator("[role=option][aria-selected=true]", { hasText: "/status" }).waitFor();
  await field.press("Enter");
  assert.equal(await field.inputValue(), "/status");
  assert.deepEqual(stub.accepted, []);
  await field.press("Enter");
  await until("the command", () => stub.accepted.length === 1);
  await field.pressSequentially("/mod");
  await page.getByRole("option", { name: "/model" }).click();
  assert.equal(await field.inputValue(), "/model ");
  await field.fill("/st");
  await page.getByRole("option", { name: "/stop" }).waitFor();
  await field.press("Escape");
  await until("the end of the list", async () => (await page.getByRole("option").count()) === 0);
  assert.equal(await field.inputValue(), "/st");
});

pageTest("Enter that ends a composition does not send", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.fill("#composer", "ni hao");
  await page.locator("#composer").evaluate((e) => {
    const press = (o) =>
      e.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true, ...o }));
    press({ isComposing: true });
    press({ keyCode: 229 });
    e.dispatchEvent(new CompositionEvent("compositionend", { bubbles: true }));
    press({});
  });
  assert.equal(await page.inputValue("#composer"), "ni hao");
  await page.press("#composer", "Enter");
  await until("the message", () => stub.accepted.length === 1);
});

pageTest("a draft survives a reload", async ({ page, stub }) => {
  await page.goto(stub.url + "#/c/websocket%3Aa");
  await page.fill("#composer:not([disabled])", "half a thought");
  await page.reload();
  await page.waitForSelector("#composer:not([disabled])");
  assert.equal(await page.inputValue("#composer"), "half a thought");
});
