// Runs WeCom's own library for Node against the fake.
//
// Arguments: address of the connection, address of the test, bot id, secret.
// Prints what the library understood as one line of JSON.
import { WSClient } from "@wecom/aibot-node-sdk";

const [wsUrl, test, botId, secret] = process.argv.slice(2);
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const got = {};
const tell = (path) => fetch(test + path).then((r) => r.text());
const code = (call) => call.then(() => 0, (frame) => frame.errcode ?? String(frame.message));

const make = (options = {}) => new WSClient({ botId, secret, wsUrl, logger: quiet, heartbeatInterval: 200, ...options });
const client = make();
const next = (event, from = client) => new Promise((resolve) => from.once(event, resolve));

let wait = next("authenticated");
client.connect();
await wait;

wait = next("message.text");
await tell("/say");
let frame = await wait;
got.text = [frame.body.from.userid, frame.body.chattype, frame.body.text.content];
await client.replyStream(frame, "s1", "<think></think>", false);
await client.replyStream(frame, "s1", "half", false);
await client.replyStream(frame, "s1", "whole", true);
got.finished = await code(client.replyStream(frame, "s1", "more", true));
got.tooLong = await code(client.replyStream(frame, "s2", "x".repeat(20481), true));
got.badReqId = await code(client.replyStream({ headers: { req_id: "none" } }, "s3", "x", true));

await client.replyTemplateCard(frame, {
  card_type: "button_interaction", main_title: { title: "Choose" },
  button_list: [{ text: "Yes", key: "yes", style: 1 }], task_id: "task_1",
});
wait = next("event.template_card_event");
await tell("/press");
frame = await wait;
got.press = [frame.body.event.event_key, frame.body.event.task_id];
got.notAStream = await code(client.replyStream(frame, "s4", "x", true));
await client.updateTemplateCard(frame, { card_type: "text_notice", main_title: { title: "Chosen" }, card_action: { type: 1, url: "https://work.weixin.qq.com/" }, task_id: "task_1" });

wait = next("event.enter_chat");
await tell("/enter");
await client.replyWelcome(await wait, { msgtype: "text", text: { content: "Hello!" } });

await client.sendMessage("ann", { msgtype: "markdown", markdown: { content: "pushed" } });
got.noText = await code(client.sendMessage("ann", { msgtype: "text", text: { content: "x" } }));
got.noChat = await code(client.sendMessage("nobody", { msgtype: "markdown", markdown: { content: "x" } }));

const data = Buffer.alloc(1200000, "a");
const up = await client.uploadMedia(data, { type: "file", filename: "out.txt" });
got.upload = [up.type, up.media_id !== ""];
await client.sendMediaMessage("ann", "file", up.media_id);
got.noMedia = await code(client.sendMediaMessage("ann", "image", up.media_id));

wait = next("message.image");
await tell("/picture");
frame = await wait;
const down = await client.downloadFile(frame.body.image.url, frame.body.image.aeskey);
got.picture = [down.filename, down.buffer.toString()];

wait = next("disconnected");
const second = make();
const ready = next("authenticated", second);
second.connect();
await ready;
got.takenOver = await wait;

const wrong = make({ secret: "wrong", maxAuthFailureAttempts: 1 });
wrong.on("error", () => {});
wait = next("error", wrong);
wrong.connect();
got.refused = (await wait).message;
wrong.disconnect();
second.disconnect();
console.log(JSON.stringify(got));
process.exit(0);
