// Works with a Mattermost server as a bot does, by Mattermost's own client
// library, and prints what the library understood as one JSON object.
import {createRequire} from 'node:module';
import WebSocket from 'ws';

const {Client4, WebSocketClient} = createRequire(import.meta.url)('@mattermost/client');
const [url, token, ann, town] = process.argv.slice(2);
console.log = () => {}; // the library reports its connections there
// The token is in the handshake, where a browser has a cookie: the server takes
// up a lost connection only for those whom it knows then.
globalThis.WebSocket = class extends WebSocket {
    constructor(address) { super(address, {headers: {Authorization: `Bearer ${token}`}}); }
};
globalThis.CloseEvent = class { constructor(type, init) { Object.assign(this, {type}, init); } };

const seen = {};
const fail = async (what, call) => {
    try {
        await call();
        seen[what] = 'no error';
    } catch (e) {
        seen[what] = `${e.status_code} ${e.server_error_id}`;
    }
};
const person = (t) => {
    const c = new Client4();
    c.setUrl(url);
    c.setToken(t);
    return c;
};
const bot = person(token);
const other = person(ann);

// Events arrive in order; wait(name) is the next one of a name.
const socket = new WebSocketClient({minWebSocketRetryTime: 10, reconnectJitterRange: 10});
const events = [];
let wake = () => {};
socket.addMessageListener((m) => { events.push(m); wake(); });
let missed = 0;
socket.addMissedMessageListener(() => { missed++; });
const wait = async (name, fits = () => true) => {
    for (;;) {
        const i = events.findIndex((e) => e.event === name && fits(e));
        if (i >= 0) {
            return events.splice(i, 1)[0];
        }
        await new Promise((resolve) => { wake = resolve; });
    }
};
const post = (e) => JSON.parse(e.data.post);

const me = await bot.getMe();
seen.me = me.username;
const config = await bot.getClientConfig();
seen.config = [config.MaxPostSize, config.MaxFileSize];
seen.teams = (await bot.getMyTeams()).map((t) => t.name);

socket.initialize(url.replace('http', 'ws') + '/api/v4/websocket', token);
const hello = await wait('hello');
seen.hello = Boolean(hello.data.connection_id) && hello.seq === 0;

// A person writes; the bot is told, with the post as a JSON string.
const direct = await bot.createDirectChannel([me.id, (await other.getMe()).id]);
seen.direct = direct.type;
const question = await other.createPost({channel_id: direct.id, message: 'hello', pending_post_id: 'ann:1'});
seen.question = question.id;
const told = await wait('posted', (e) => post(e).id === question.id);
seen.posted = [told.data.channel_type, told.data.sender_name, post(told).message, post(told).root_id];

// The bot answers: once, however often it says so.
const draft = {channel_id: direct.id, message: 'hi', root_id: question.id, pending_post_id: `${me.id}:1`, props: {k: 'v'}};
const answer = await bot.createPost(draft);
const again = await bot.createPost(draft);
seen.once = answer.id === again.id;
seen.props = [answer.props.k, answer.props.from_bot];
const patched = await bot.patchPost({id: answer.id, message: 'hi Ann'});
seen.patched = [patched.message, patched.edit_at > 0];
seen.edited = post(await wait('post_edited')).message;

// Threads and channels.
// Some versions of the server name the first post twice.
const thread = await bot.getPostThread(question.id);
seen.thread = [...new Set(thread.order)].map((id) => thread.posts[id].message);
const list = await bot.getPosts(direct.id);
seen.list = list.order.map((id) => list.posts[id].message);
const square = await bot.getChannelByName((await bot.getMyTeams())[0].id, 'town-square');
seen.square = square.id === town;
seen.byName = (await bot.getUserByUsername('ann')).username;

// Files.
const form = new FormData();
form.append('files', new Blob(['content']), 'out.txt');
form.append('channel_id', direct.id);
form.append('client_ids', 'c1');
const up = await bot.uploadFile(form);
const sent = await bot.createPost({channel_id: direct.id, message: 'file', file_ids: [up.file_infos[0].id]});
const infos = await other.getFileInfosForPost(sent.id);
const got = await fetch(bot.getFileUrl(infos[0].id), {headers: {Authorization: `Bearer ${token}`}});
seen.file = [infos[0].name, infos[0].size, infos[0].extension, await got.text()];

// Marks, typing, removal.
await bot.addReaction(me.id, question.id, 'eyes');
await bot.removeReaction(me.id, question.id, 'eyes');
await bot.addReaction(me.id, question.id, 'white_check_mark');
seen.typing = await new Promise((resolve) => { socket.userTyping(direct.id, question.id, (r) => resolve(r.status)); });
await bot.deletePost(sent.id);
seen.deleted = post(await wait('post_deleted')).id === sent.id;

// A lost connection: the client comes back and gets what it has missed.
await fetch(`${url}/test/cut`);
await other.createPost({channel_id: direct.id, message: 'while away'});
seen.resumed = post(await wait('posted', (e) => post(e).message === 'while away')).message;
seen.missed = missed;
await fetch(`${url}/test/restart`);
await wait('hello');
seen.restarted = missed;

// What the server refuses.
await fail('tooLong', () => bot.createPost({channel_id: direct.id, message: 'x'.repeat(16384)}));
await fail('noRoot', () => bot.createPost({channel_id: direct.id, message: 'x', root_id: 'a'.repeat(26)}));
await fail('replyToReply', () => bot.createPost({channel_id: direct.id, message: 'x', root_id: answer.id}));
await fail('noChannel', () => bot.createPost({channel_id: 'b'.repeat(26), message: 'x'}));
await fail('notMine', () => bot.patchPost({id: question.id, message: 'x'}));
await fail('gone', () => bot.getPostThread(sent.id));
await fail('noEmoji', () => bot.addReaction(me.id, question.id, 'no_such_emoji'));
await fail('notMe', () => bot.addReaction('c'.repeat(26), question.id, 'eyes'));
await fail('badID', () => bot.getChannel('short'));
await fail('noToken', () => person('wrong').getMe());

socket.close();
process.stdout.write(JSON.stringify(seen) + '\n');
process.exit(0);
