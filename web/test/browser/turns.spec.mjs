// Turns of the real gateway with a scripted model. After each, a reload shows
// the same conversation.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ended, newChat, rigTest, saying, send, until, useRig } from "./fixture.mjs";

useRig({
  config: {
    agents: { defaults: { model: "custom/scripted", provider: "custom", fallbackModels: ["spare"] } },
    modelPresets: { spare: { model: "custom/second", provider: "custom" } },
  },
});

/** shown is what a person reads who opens everything, without what only a live page knows. */
async function shown(page) {
  const read = () =>
    page.evaluate(() => {
      const all = [...document.querySelectorAll(".list details")];
      for (const d of all) d.open = true;
      const busy = document.querySelector(".list .md[aria-busy=true]") || all.some((d) => d.children.length < 2); // what is inside comes later
      return busy ? "" : document.querySelector(".list").innerText;
    });
  let text = "";
  await until("the text", async () => (text = await read()) && !/Thinking now|Loading/.test(text));
  return text;
}

async function same(page, live) {
  await page.reload();
  await page.locator(".footer").first().waitFor();
  assert.equal(await shown(page), live);
}

const turns = {
  "a text": {
    steps: [
      (s) => s.text("# Title\n\nA **bold** word, `code`, and a list:\n\n- one\n- two\n\n```go\nfunc main() {}\n```\n"),
    ],
    has: /Title[^]*bold[^]*func main/,
  },
  "a thought": {
    steps: [async (s) => (await s.think("I should say hello."), await s.text("Hello to you."))],
    has: /I should say hello\.[^]*Hello to you\./,
  },
  tools: {
    steps: [
      async (s) => (
        await s.text("Let me look."),
        s.call("list_dir", { path: "." }),
        s.call("exec", { command: "echo one; echo two" })
      ),
      (s) => s.text("Two calls are done."),
    ],
    has: /Let me look\.[^]*one\ntwo[^]*Two calls are done\./,
  },
  edits: {
    steps: [
      (s) => s.call("write_file", { path: "notes.md", content: "first\nsecond\n" }),
      (s) => s.call("edit_file", { path: "notes.md", old_text: "second", new_text: "third" }),
      (s) => s.text("The file is written."),
    ],
    has: /notes\.md[^]*\+second[^]*-second\n\+third[^]*The file is written\./,
  },
  "a tool that fails": {
    steps: [(s) => s.call("read_file", { path: "missing.txt" }), (s) => s.text("It is missing.")],
    has: /missing\.txt[^]*It is missing\./,
  },
  "a goal": {
    says: "/goal play a goal",
    steps: [
      (s) => s.call("create_goal", { objective: "Have a list of boats", ui_summary: "a list of boats" }),
      async (s) => (
        await s.text("I begin with the list."),
        s.call("write_file", { path: "boats.md", content: "one\n" })
      ),
      (s) => s.call("update_goal", { action: "complete", recap: "The list is there." }),
      (s) => s.text("The goal is reached."),
    ],
    has: /I begin with the list\.[^]*boats\.md[^]*The goal is reached\./,
  },
  "a subagent": {
    steps: [
      (s) => s.call("spawn", { task: "count the herrings", wait: true }),
      (s) => s.text("The subagent has counted."),
    ],
    before: (model) => model.on("count the herrings", (s) => s.text("There are seven herrings.")),
    has: /count the herrings[^]*There are seven herrings\.[^]*The subagent has counted\./,
  },
  "a message": {
    steps: [(s) => s.call("message", { content: "A **message** on the way." }), (s) => s.text("I sent it.")],
    has: /A message on the way\.[^]*I sent it\./,
  },
  "an error of the model": {
    steps: [(s) => s.fail(400, "the scripted model refuses")],
    has: /the scripted model refuses/,
  },
  "a fallback": {
    steps: [
      (s) => (s.request.model === "scripted" ? s.fail(404, "this model is gone") : s.text("The spare model answers.")),
    ],
    has: /The spare model answers\.[^]*Answered by custom\/second[^]*custom\/second \(fallback\)/,
  },
};

for (const [name, turn] of Object.entries(turns)) {
  rigTest(`a reload shows the same: ${name}`, async ({ page, rig }) => {
    turn.before?.(rig.model);
    rig.model.on(`play ${name}`, ...turn.steps);
    await newChat(page);
    await send(page, turn.says ?? `play ${name}`);
    await ended(page);
    const live = await shown(page);
    assert.match(live, turn.has);
    await same(page, live);
  });
}

rigTest("the output of a running command is there after a reload, whatever came after it", async ({ page, rig }) => {
  rig.model.on("run for long", (s) =>
    s.call("exec", { command: "echo first; until [ -e go ]; do sleep 0.1; done; echo last" }),
  );
  rig.model.on("by the way", (s) => s.text("It ran."));
  await newChat(page);
  await send(page, "run for long");
  const output = page.locator(".output:not(.part)", { hasText: "first" });
  await output.waitFor();
  await send(page, "by the way");
  await until(
    "the second message is taken",
    async () => (await page.locator("article.user:not(:has(.state))").count()) === 2,
  );
  for (const _ of [1, 2]) {
    await page.reload();
    await output.waitFor();
  }
  await writeFile(join(rig.gateway.workspace, "go"), "");
  await saying(page, "It ran.").waitFor();
  await ended(page);
  await page.getByText("added to the running turn").waitFor({ state: "detached" }); // the page is read again
  await same(page, await shown(page));
});

rigTest("a file that was sent is there after a reload, and can be saved", async ({ page, rig }) => {
  await writeFile(join(rig.gateway.workspace, "report.bin"), Buffer.from([0, 1, 2, 255]));
  rig.model.on(
    "send the report",
    (s) => s.call("message", { content: "Here it is.", media: ["report.bin"] }),
    (s) => s.text("Sent."),
  );
  await newChat(page);
  await send(page, "send the report");
  await ended(page);
  await same(page, await shown(page));
  await page.getByRole("button", { name: "report.bin", exact: true }).click();
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).click();
  const file = await saved;
  assert.equal(file.suggestedFilename(), "report.bin");
  assert.deepEqual([...(await readFile(await file.path()))], [0, 1, 2, 255]);
});

rigTest(
  "pictures are shown, live and after a reload: one that was sent, and one that an answer names",
  async ({ page, rig }) => {
    const png = Buffer.from(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      "base64",
    );
    await writeFile(join(rig.gateway.workspace, "plot.png"), png);
    rig.model.on(
      "draw a plot",
      (s) => s.call("message", { content: "Here it is.", media: ["plot.png"] }),
      (s) => s.text("And here: ![the plot](plot.png)\n\n![none](missing.png)"),
    );
    await newChat(page);
    await send(page, "draw a plot");
    await ended(page);
    const drawn = () =>
      page.locator(".list img").evaluateAll((all) => all.filter((i) => i.complete && i.naturalWidth === 1).length);
    await until("two pictures", async () => (await drawn()) === 2);
    await page.getByRole("button", { name: "none" }).waitFor();
    await page.reload();
    await until("two pictures after a reload", async () => (await drawn()) === 2);
  },
);

rigTest("a question is there after a reload, and the next message answers it", async ({ page, rig }) => {
  rig.model.on("ask me", (s) => s.call("ask_user", { question: "Tea or coffee?", options: ["Tea", "Coffee"] }));
  rig.model.on("Tea", (s) => s.text("Tea it is."));
  rig.model.on("water", (s) => s.text("Water it is."));
  await newChat(page);
  await send(page, "ask me");
  const tea = page.getByRole("button", { name: "Tea", exact: true });
  await tea.waitFor();
  await ended(page);
  await same(page, await shown(page));
  await until(
    "the answer is taken",
    async () => ((await tea.count()) && (await tea.click()), page.getByText("Tea it is.").count()),
  ); // not at once: the card may have come under the mouse
  await ended(page, 2);
  await same(page, await shown(page));
  assert.match(await shown(page), /Answer sent: Tea/);
  await send(page, "ask me");
  await tea.waitFor();
  await ended(page, 3);
  await send(page, "water, please");
  await saying(page, "Water it is.").waitFor();
  await ended(page, 4);
  await until("the question is closed", async () => (await tea.count()) === 0);
  await same(page, await shown(page));
});

rigTest("a turn that was stopped looks the same after a reload", async ({ page, rig }) => {
  rig.model.on("talk for long", async (s) => (await s.text("It began well "), await rig.model.gate("never").wait));
  await newChat(page);
  await send(page, "talk for long");
  await saying(page, "It began well").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".footer", { hasText: "Stopped" }).waitFor();
  const live = await shown(page);
  assert.match(live, /^talk for long\s+It began well\s/);
  assert.doesNotMatch(live, /interrupted/i);
  await same(page, live);
});

rigTest("the reply to a command has no line below it", async ({ page }) => {
  await newChat(page);
  await send(page, "hello");
  await ended(page);
  await send(page, "/undo");
  await saying(page, "No turn of this conversation").waitFor();
  await until("the end", async () => (await page.getByRole("button", { name: "Stop" }).count()) === 0);
  assert.equal(await page.locator(".footer").count(), 1);
  await same(page, await shown(page));
});

rigTest(
  "a new conversation begins empty, here and after a reload, and the old one is in the archive",
  async ({ page, rig }) => {
    rig.model.on("remember the herrings", (s) => s.text("Seven herrings."));
    rig.model.on("talk on", async (s) => (await s.text("I talk "), await rig.model.gate("on").wait));
    rig.model.on("what now", (s) => s.text("A new day."));
    await newChat(page);
    await send(page, "remember the herrings");
    await ended(page);
    await send(page, "/new");
    await until("the old messages are gone", async () => /^\/new\s+New conversation\./.test(await shown(page)));
    await send(page, "what now");
    await ended(page);
    await send(page, "talk on");
    await saying(page, "I talk").waitFor();
    await send(page, "/new"); // ends the turn
    await until("the old messages are gone again", async () => /^\/new\s+New conversation\./.test(await shown(page)));
    await send(page, "what now");
    await ended(page);
    await page.reload();
    await page.locator(".footer").first().waitFor();
    assert.match(await shown(page), /^what now\s+A new day\./);
    await page.getByRole("button", { name: "More about conversations" }).click();
    await page.getByRole("menuitem", { name: "Archived conversations" }).click();
    await page.locator(".archive", { hasText: "remember the herrings" }).waitFor();
  },
);

rigTest("what was said while no page was open is there once", async ({ page, rig }) => {
  const held = rig.model.gate("away");
  rig.model.on(
    "work alone",
    async (s) => (await held.wait, s.call("message", { content: "A word on the way." })),
    (s) => s.call("ask_user", { question: "Shall I go on?", options: ["Go on", "Enough"] }),
  );
  await newChat(page);
  await send(page, "work alone");
  await until("the turn", async () =>
    rig.model.requests.some((r) => JSON.stringify(r.messages).includes("work alone")),
  );
  const address = page.url();
  await page.goto("about:blank");
  held.open();
  await until("the result", async () =>
    rig.model.requests.some((r) => JSON.stringify(r.messages).includes("A word on the way.")),
  );
  await page.goto(address);
  await page.locator("article.user", { hasText: "work alone" }).waitFor(); // events come before the page is read
  await page.getByRole("button", { name: "Go on", exact: true }).waitFor();
  await ended(page);
  const once = async () =>
    assert.deepEqual(
      [
        await page.locator("article", { hasText: "A word on the way." }).count(),
        await page.locator(".approval").count(),
        await page.locator(".footer").count(),
      ],
      [1, 1, 1],
    );
  await once();
  await same(page, await shown(page));
  await once();
});
