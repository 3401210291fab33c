// Runs Slack's own framework against the fake: bolt.mjs MODE API-ADDRESS BOT-TOKEN APP-TOKEN SIGNING-SECRET.
// It answers what arrives, tries the Web API, and prints what it understood as one line of JSON.
import bolt from '@slack/bolt';
import { WebClient } from '@slack/web-api';

const [mode, slackApiUrl, token, appToken, signingSecret] = process.argv.slice(2);
const clientOptions = { slackApiUrl, retryConfig: { retries: 2, minTimeout: 10 } };
const options = mode === 'socket' ? { token, appToken, socketMode: true, clientOptions } : { token, signingSecret, clientOptions };
const app = new bolt.App({ ...options, logLevel: 'error' });

const got = [];
let wake = () => {};
const note = (what) => { got.push(what); wake(); };
const until = (ready) => new Promise((resolve) => { wake = () => ready() && resolve(); wake(); });

app.message(async ({ message, say }) => {
  if (message.channel_type === 'im') await say(`bolt heard ${message.text}`);
  note({ message: message.text, user: message.user, kind: message.channel_type, files: (message.files ?? []).map((f) => f.name) });
});
app.event('app_mention', async ({ event, say }) => {
  await say({ text: 'choose', thread_ts: event.ts, blocks: [
    { type: 'markdown', text: '**choose**' },
    { type: 'actions', elements: [{ type: 'button', action_id: 'pick', value: 'one', text: { type: 'plain_text', text: 'One' } }] },
  ] });
  note({ mention: event.text, user: event.user });
});
app.action('pick', async ({ ack, action, body }) => { await ack(); note({ action: action.value, user: body.user.id, thread: !!body.message.thread_ts }); });
app.command('/new', async ({ ack, command }) => { await ack(); note({ command: command.command, text: command.text, user: command.user_id }); });

const refused = async (call) => { try { await call(); return ''; } catch (e) { return e.data?.error ?? String(e); } };

async function webAPI(client) {
  const channel = 'C0GEN';
  const first = await client.chat.postMessage({ channel, text: 'first' });
  await client.chat.update({ channel, ts: first.ts, text: 'changed' });
  await client.reactions.add({ channel, timestamp: first.ts, name: 'eyes' });
  await client.files.uploadV2({ channel_id: channel, thread_ts: first.ts, filename: 'a.txt', file: Buffer.from('hello'), initial_comment: 'a file' });
  const thread = await client.conversations.replies({ channel, ts: first.ts });
  const names = [];
  for await (const page of client.paginate('conversations.list', { limit: 2, types: 'public_channel,private_channel' })) names.push(...page.channels.map((c) => c.name));
  const dm = await client.conversations.open({ users: 'U0ANN' });
  return {
    ok: [thread.messages.length, names, dm.channel.id],
    who: (await client.auth.test()).user_id,
    errors: [
      await refused(() => client.chat.postMessage({ channel: 'C0NOPE', text: 'x' })),
      await refused(() => client.chat.postMessage({ channel: 'C0OUT', text: 'x' })),
      await refused(() => client.chat.postMessage({ channel, text: 'x', thread_ts: '1.000001' })),
      await refused(() => client.chat.postMessage({ channel, text: 'x', blocks: [{ type: 'markdown', text: 'x'.repeat(12001) }] })),
      await refused(() => client.reactions.add({ channel, timestamp: first.ts, name: 'eyes' })),
      await refused(() => new WebClient('xoxb-wrong', clientOptions).auth.test()),
      await refused(() => new WebClient(appToken, clientOptions).chat.postMessage({ channel, text: 'x' })),
    ],
  };
}

const server = await app.start(mode === 'socket' ? undefined : { port: 0, host: '127.0.0.1' });
if (mode !== 'socket') await app.client.chat.postMessage({ channel: 'G0SEC', text: `listening ${server.address().port}` });
await until(() => got.length >= 5);
const api = mode === 'socket' ? await webAPI(app.client) : null;
console.log(JSON.stringify({ got, api }));
await app.stop();
process.exit(0);
