// Every page with axe, in each look.
import { check, looks } from "./axe.mjs";
import { pageTest, useBrowser } from "./fixture.mjs";

useBrowser();

for (const [name, options] of Object.entries(looks)) {
  pageTest(
    `axe finds nothing: ${name}`,
    async ({ page, stub }) => {
      const at = new Date().toISOString();
      stub.sessions = ["a", "b"].map((k) => ({
        key: "websocket:" + k,
        title: "Chat " + k,
        preview: "",
        created_at: at,
        updated_at: at,
        messages: 1,
        bytes: 1,
        running: k === "b",
      }));
      stub.threads.set("websocket:a", [
        { index: 0, role: "user", content: "Question", turn_id: "t", at },
        {
          index: 1,
          role: "assistant",
          content:
            "# Title\n\nText with [a link](https://example.com), `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- [x] task\n\n```js\nlet x = 1; // note\n```",
          reasoning: "Hm.",
          turn_id: "t",
          at,
          latency_ms: 100,
          tool_calls: [
            { call_id: "k", name: "exec", arguments: { command: "ls" }, result: "\u001b[31mred", untrusted: true },
          ],
        },
      ]);
      stub.script = (s, chat, m) => {
        s.begin(chat, m.turn_id);
        s.emit(chat, {
          event: "message",
          text: "May I?",
          turn_id: m.turn_id,
          question: {
            id: "q",
            code: "c",
            options: ["yes", "no"],
            expires: new Date(Date.now() + 60_000).toISOString(),
          },
        });
      };
      await page.goto(stub.url + "#/c/websocket%3Aa");
      await page.locator(".h-keyword").waitFor();
      await page.fill("#composer", "go");
      await page.press("#composer", "Enter");
      await page.locator(".approval").waitFor();
      await page.locator("details.tool summary").click();
      await page.setInputFiles("input[type=file]", [
        { name: "notes.md", mimeType: "", buffer: Buffer.from("# Notes") },
      ]);
      await page.locator(".attached").waitFor();
      await check(page, "chat");
      await page.locator(".bar .button.model").click();
      await page.locator("dialog[open] input[name=path]").waitFor();
      await check(page, "model and folder");
      await page.keyboard.press("Escape");
      await page.locator("dialog").waitFor({ state: "detached" });
      if (!options.viewport) {
        // a phone has the list in a drawer
        for (const [action, what] of Object.entries(
          options.locale ? { 重命名: "rename", 删除: "delete" } : { Rename: "rename", Delete: "delete" },
        )) {
          await page.locator(".chat-row").first().hover();
          await page.locator(".chat-row > .button").first().click();
          await check(page, "menu of a conversation");
          await page.getByRole("menuitem", { name: action }).click();
          await page.locator("dialog[open]").waitFor();
          await check(page, what);
          await page.keyboard.press("Escape");
          await page.locator("dialog").waitFor({ state: "detached" });
        }
      }
      await page.goto(stub.url + "#/preferences");
      await page.locator(".facts").waitFor();
      await check(page, "preferences");
      await page.goto(stub.url + "#/c/websocket%3Anew");
      await page.locator(".welcome").waitFor();
      await check(page, "new chat");
      stub.reads.set("approvals/history", {
        answers: [
          { key: "websocket:a", tool: "exec", what: "ls", reason: "a rule", option: "yes", remark: "go on", at },
          { key: "websocket:a", what: "May I?", expired: true, at },
        ],
        cursor: "c",
      });
      stub.reads.set("questions", {
        questions: [
          {
            id: "q",
            key: "websocket:b",
            channel: "websocket",
            chat_id: "b",
            text: "May I?",
            options: ["yes", "no"],
            detail: { tool: "exec", command: "ls -l", reason: "it lists files" },
          },
        ],
      });
      await page.goto(stub.url + "#/inbox");
      await page.reload(); // reads the open questions
      await page.locator("main tbody tr").first().waitFor();
      await page.locator(".approval").waitFor();
      await check(page, "inbox");
      stub.reads.set("undo", {
        turns: [
          {
            id: "u0",
            session: "websocket:a",
            at,
            changes: [{ path: "notes.md", what: "changed" }],
            gaps: ["a command ran"],
          },
        ],
        total: 1,
      });
      stub.reads.set("undo/u0", { diff: "--- a/notes.md\n+++ b/notes.md\n@@ -1 +1 @@\n-one\n+two\n" });
      await page.goto(stub.url + "#/changes");
      await page.locator("section.change").waitFor();
      await check(page, "changes");
      stub.signedIn = false;
      await page.reload();
      await page.locator(".sign-in").waitFor();
      await check(page, "sign-in");
    },
    options,
  );
}
