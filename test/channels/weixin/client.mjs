// Runs Tencent's own Weixin plug-in against the fake. The plug-in's host,
// OpenClaw, is replaced by the few functions that its transport needs.
// Arguments: address of the service. Prints what the plug-in understood as JSON.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const base = process.argv[2];
const temp = fs.mkdtempSync(path.join(os.tmpdir(), "weixin-"));
process.env.OPENCLAW_STATE_DIR = temp;

const host = path.join(here, "node_modules", "openclaw");
fs.mkdirSync(path.join(host, "plugin-sdk"), { recursive: true });
fs.writeFileSync(path.join(host, "package.json"), JSON.stringify({ name: "openclaw", version: "0.0.0", type: "module", exports: { "./plugin-sdk/*": "./plugin-sdk/*.js" } }));
fs.writeFileSync(path.join(host, "plugin-sdk", "account-id.js"), "export const normalizeAccountId = (s) => s.replace(/[^a-z0-9]+/gi, '-');");
fs.writeFileSync(path.join(host, "plugin-sdk", "infra-runtime.js"), `export const resolvePreferredOpenClawTmpDir = () => ${JSON.stringify(temp)}; export const withFileLock = (f, o, run) => run();`);

// Codes are asked for at a fixed address.
const real = globalThis.fetch;
globalThis.fetch = (url, init) => real(String(url).replace("https://ilinkai.weixin.qq.com", base), init);
const out = process.stdout.write.bind(process.stdout);
process.stdout.write = () => true;

const load = (name) => import(pathToFileURL(path.join(here, "node_modules/@tencent-weixin/openclaw-weixin/dist/src", name)));
const api = await load("api/api.js");
const login = await load("auth/login-qr.js");
const download = await load("media/media-download.js");
const cdn = await load("cdn/upload.js");
const send = await load("messaging/send.js");
const quote = await load("messaging/partial-quote.js");

const refused = async (call) => {
  try {
    return await call();
  } catch (err) {
    return err.message.slice(0, 30);
  }
};

const result = {};
const started = await login.startWeixinLoginWithQr({ apiBaseUrl: base });
result.code = started.qrcodeUrl;
const connected = await login.waitForWeixinLogin({ sessionKey: started.sessionKey, apiBaseUrl: base, timeoutMs: 30000 });
result.login = { connected: connected.connected, bot: connected.accountId, user: connected.userId, home: connected.baseUrl === base };

const opts = { baseUrl: base, token: connected.botToken };
result.start = (await api.notifyStart(opts)).ret;
const updates = await api.getUpdates({ ...opts, get_updates_buf: "" });
result.got = [];
for (const m of updates.msgs) {
  for (const item of m.item_list) {
    const files = await download.downloadMediaFromItem(item, {
      cdnBaseUrl: base + "/c2c",
      label: "test",
      log: () => {},
      errLog: (s) => result.got.push(s),
      saveMedia: async (buf, type, dir, max, name) => ({ path: (name ?? "") + ":" + buf.toString() }),
    });
    result.got.push({ id: m.message_id, from: m.from_user_id, text: item.text_item?.text, file: Object.values(files)[0] });
  }
}
const ann = updates.msgs[0].from_user_id;
const reply = { ...opts, contextToken: updates.msgs.at(-1).context_token };
const sent = await send.sendMessageWeixin({ to: ann, text: "hello", opts: reply });
result.sent = typeof sent.serverMessageId;

const file = (name, text) => {
  const p = path.join(temp, name);
  fs.writeFileSync(p, text);
  return p;
};
const upload = { toUserId: ann, opts, cdnBaseUrl: base + "/c2c" };
const image = await cdn.uploadFileToWeixin({ ...upload, filePath: file("a.png", "an image of 16by") });
await send.sendImageMessageWeixin({ to: ann, text: "", uploaded: image, opts: reply });
const video = await cdn.uploadVideoToWeixin({ ...upload, filePath: file("a.mp4", "a video") });
await send.sendVideoMessageWeixin({ to: ann, text: "", uploaded: video, opts: reply });
const doc = await cdn.uploadFileAttachmentToWeixin({ ...upload, filePath: file("a.txt", "a file"), fileName: "a.txt" });
await send.sendFileMessageWeixin({ to: ann, text: "with words", fileName: "a.txt", uploaded: doc, opts: reply });
await send.sendMessageItemWeixin({ to: ann, item: { type: 11, tool_call_start_item: { tool_name: "exec", tool_call_id: "1" } }, opts: { ...reply, runId: "run" } });

const config = await api.getConfig({ ...opts, ilinkUserId: ann, contextToken: reply.contextToken });
result.ticket = config.typing_ticket;
for (const status of [1, 2]) await api.sendTyping({ ...opts, body: { ilink_user_id: ann, typing_ticket: config.typing_ticket, status } });

const again = await api.getUpdates({ ...opts, get_updates_buf: updates.get_updates_buf, timeoutMs: 10000 });
result.again = again.msgs.length;
result.errors = [
  await refused(() => send.sendMessageWeixin({ to: ann, text: "x", opts: { ...reply, contextToken: "wrong" } })),
  await refused(() => send.sendMessageWeixin({ to: "stranger", text: "x", opts: reply })),
  await refused(() => send.sendMessageWeixin({ to: ann, text: "x".repeat(4001), opts: reply })),
  (await api.getUpdates({ ...opts, token: "stale", get_updates_buf: "" })).errcode,
];
let spent = "";
for (let i = 0; i < 20 && spent === ""; i++) {
  spent = await refused(async () => (await send.sendMessageWeixin({ to: ann, text: "n" + i, opts: reply }), ""));
}
result.errors.push(spent);
result.stop = (await api.notifyStop(opts)).ret;
result.quotes = [
  { start: "b", end: "d", startindex: 0, endindex: 0, quotemd5: "" },
  { start: "b", end: "d", startindex: 1, endindex: 0, quotemd5: "d4b7c284882ca9e208bb65e8abd5f4c8" },
  { start: "b", end: "d", startindex: 1, endindex: 1, quotemd5: "d4b7c284882ca9e208bb65e8abd5f4c8" },
  { start: "b", end: "x", startindex: 0, endindex: 0, quotemd5: "" },
].map((p) => quote.resolvePartialQuote("abcdabcd", p).resolved);
fs.rmSync(temp, { recursive: true });
out(JSON.stringify(result));
process.exit(0);
