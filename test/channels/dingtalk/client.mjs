// A bot made with DingTalk's SDK for Node.js that does what ours does. It prints
// what it understood; see TestLibraries.
import axios from 'axios';
import { DWClient, TOPIC_ROBOT } from 'dingtalk-stream';

const [root, clientId, clientSecret] = process.argv.slice(2);
axios.interceptors.request.use((c) => {
  c.url = c.url.replace('https://api.dingtalk.com', root); // a constant of the library
  return c;
});
console.info = () => {};
const out = { heard: [] };
const client = new DWClient({ clientId, clientSecret });
client.registerCallbackListener(TOPIC_ROBOT, async (frame) => {
  const m = JSON.parse(frame.data);
  if (m.msgtype === 'picture') {
    out.picture = m.content.downloadCode !== '';
    client.socketCallBackResponse(frame.headers.messageId, 'OK');
    setTimeout(() => {
      process.stdout.write(JSON.stringify(out), () => process.exit(0));
    }, 500);
    return;
  }
  out.heard.push([m.text.content.trim(), m.senderStaffId, m.senderNick, m.conversationType, m.conversationId]);
  if (m.text.content.trim() === 'hello') {
    out.text = (await axios.post(m.sessionWebhook, { msgtype: 'text', text: { content: 're: hello' } })).data.errcode;
    const markdown = { msgtype: 'markdown', markdown: { title: 'title', text: '**re**' } };
    out.markdown = (await axios.post(m.sessionWebhook, markdown)).data.errcode;
  }
  client.socketCallBackResponse(frame.headers.messageId, 'OK');
});
setTimeout(() => process.exit(1), 50000);
client.connect();
