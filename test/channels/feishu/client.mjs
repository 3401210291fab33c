// Does with Feishu's own library what our driver does. Prints what it
// understood; see TestNodeSDK.
import http from 'node:http'
import * as lark from '@larksuiteoapi/node-sdk'

const [domain, appId, appSecret, encryptKey, verificationToken] = process.argv.slice(2)
const silent = { error () {}, warn () {}, info () {}, debug () {}, trace () {} }
const client = new lark.Client({ appId, appSecret, domain, logger: silent })
const out = { got: [], pressed: [] }
setTimeout(() => { console.error('no end after two minutes', JSON.stringify(out)); process.exit(1) }, 120000).unref()
const code = (p) => p.then((r) => r?.code ?? 0, (e) => e.response?.data?.code ?? e.code)
const text = (words) => JSON.stringify({ text: words })
const send = (content, type = 'text', more = {}) => client.im.v1.message.create({
  params: { receive_id_type: 'open_id' }, data: { receive_id: 'ou_ann', msg_type: type, content, ...more }
})

const v2 = (words, streaming) => JSON.stringify({
  schema: '2.0', config: { update_multi: true, streaming_mode: streaming }, body: { elements: [{ tag: 'markdown', content: words, element_id: 'streaming_md' }] }
})
const button = (answer) => ({ tag: 'button', element_id: 'b_' + answer, text: { tag: 'plain_text', content: answer }, type: 'default', behaviors: [{ type: 'callback', value: { answer } }] })
const asking = (...elements) => JSON.stringify({ schema: '2.0', config: { update_multi: true }, body: { elements: [{ tag: 'markdown', content: 'May I?' }, ...elements] } })

let wake
const received = (n, presses = 0) => new Promise((resolve) => {
  wake = () => { if (out.got.length >= n && out.pressed.length >= presses) resolve() }
  wake()
})
const dispatcher = (way, keys = {}) => new lark.EventDispatcher({ ...keys, logger: silent }).register({
  'im.message.receive_v1': async (data) => {
    out.got.push([way, data.event_id.slice(0, 2), data.sender.sender_id.open_id, data.message.chat_type, data.message.content, data.message.mentions?.[0]?.name ?? ''])
    wake?.()
  },
  'card.action.trigger': async (data) => {
    out.pressed.push([way, data.operator.open_id, data.action.tag, data.action.value.answer, data.context.open_message_id.slice(0, 3), data.context.open_chat_id])
    setTimeout(wake) // after the answer
    return { toast: { type: 'success', content: 'done ' + way }, card: { type: 'raw', data: JSON.parse(v2('answered ' + way, false)) } }
  }
})

const ws = new lark.WSClient({ appId, appSecret, domain, logger: silent })
await ws.start({ eventDispatcher: dispatcher('socket') })
await received(2)
await send(asking({ tag: 'column_set', flex_mode: 'flow', columns: [{ tag: 'column', elements: [button('yes')] }] }, button('no')), 'interactive')

out.me = (await client.request({ method: 'GET', url: '/open-apis/bot/v3/info' })).bot.app_name
const one = await send(text('hi'), 'text', { uuid: 'u1' })
const two = await send(text('hi'), 'text', { uuid: 'u1' })
out.same = one.data.message_id === two.data.message_id
const id = one.data.message_id
const reply = await client.im.v1.message.reply({ path: { message_id: 'om_root' }, data: { msg_type: 'text', content: text('in the topic'), reply_in_thread: true } })
out.thread = reply.data.thread_id
out.read = (await client.im.v1.message.get({ path: { message_id: id } })).data.items[0].body.content
out.put = await code(client.im.v1.message.update({ path: { message_id: id }, data: { msg_type: 'text', content: text('hello') } }))
const plain = await send(v2('a card', false), 'interactive')
out.patch = await code(client.im.v1.message.patch({ path: { message_id: plain.data.message_id }, data: { content: v2('another card', false) } }))
const mark = await client.im.v1.messageReaction.create({ path: { message_id: id }, data: { reaction_type: { emoji_type: 'THUMBSUP' } } })
out.marks = (await client.im.v1.messageReaction.list({ path: { message_id: id } })).data.items.map((r) => r.reaction_type.emoji_type)
out.unmark = await code(client.im.v1.messageReaction.delete({ path: { message_id: id, reaction_id: mark.data.reaction_id } }))

const card = await client.cardkit.v1.card.create({ data: { type: 'card_json', data: v2('', true) } })
const cardId = card.data.card_id
const shown = await send(JSON.stringify({ type: 'card', data: { card_id: cardId } }), 'interactive')
out.converted = (await client.cardkit.v1.card.idConvert({ data: { message_id: shown.data.message_id } })).data.card_id === cardId
const write = (words, sequence, uuid) => client.cardkit.v1.cardElement.content({ path: { card_id: cardId, element_id: 'streaming_md' }, data: { content: words, sequence, uuid } })
const set = (on, sequence) => client.cardkit.v1.card.settings({ path: { card_id: cardId }, data: { settings: JSON.stringify({ config: { streaming_mode: on } }), sequence } })
out.card = [await code(write('It is', 1, 'a')), await code(write('It is four.', 2)), await code(write('late', 2)), await code(set(false, 3)), await code(write('closed', 4)), await code(set(true, 5)), await code(write('It is **four**.', 6)), await code(set(false, 7))]

const image = await client.im.v1.image.create({ data: { image_type: 'message', image: Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex') } })
const file = await client.im.v1.file.create({ data: { file_type: 'stream', file_name: 'out.txt', file: Buffer.from('content') } })
out.image = await code(send(JSON.stringify({ image_key: image.image_key }), 'image'))
const sent = await send(JSON.stringify({ file_key: file.file_key }), 'file')
const body = await client.im.v1.messageResource.get({ path: { message_id: sent.data.message_id, file_key: file.file_key }, params: { type: 'file' } })
out.file = ''
for await (const part of body.getReadableStream()) out.file += part

out.refused = {
  kind: await code(send(text('x'), 'video')),
  empty: await code(send(text(''))),
  long: await code(send(text('x'.repeat(160000)))),
  card: await code(send('{"elements":[]}', 'interactive')),
  twice: await code(send(asking(button('yes'), button('yes')), 'interactive')),
  action: await code(send(asking({ tag: 'action', actions: [] }), 'interactive')),
  deaf: await code(send(asking({ ...button('yes'), behaviors: [] }), 'interactive')),
  many: await code(send(asking(...[...Array(201).keys()].map((n) => ({ tag: 'markdown', content: 'x' }))), 'interactive')),
  uuid: await code(send(text('x'), 'text', { uuid: 'x'.repeat(51) })),
  outside: await code(client.im.v1.message.create({ params: { receive_id_type: 'chat_id' }, data: { receive_id: 'oc_other', msg_type: 'text', content: text('x') } })),
  type: await code(client.im.v1.message.create({ params: { receive_id_type: 'chat_id' }, data: { receive_id: 'ou_ann', msg_type: 'text', content: text('x') } })),
  gone: await code(client.im.v1.message.reply({ path: { message_id: 'om_none' }, data: { msg_type: 'text', content: text('x') } })),
  emoji: await code(client.im.v1.messageReaction.create({ path: { message_id: id }, data: { reaction_type: { emoji_type: 'NOPE' } } })),
  secret: await new lark.Client({ appId, appSecret: 'wrong', domain, logger: silent }).auth.v3.tenantAccessToken.internal({ data: { app_id: appId, app_secret: 'wrong' } }).then((r) => r.code)
}
out.deleted = await code(client.im.v1.message.delete({ path: { message_id: id } }))
ws.close()

const handler = lark.adaptDefault('/hook', dispatcher('hook', { encryptKey, verificationToken }), { autoChallenge: true })
const server = http.createServer(handler).listen(0, '127.0.0.1', () => send(text('listening ' + server.address().port)))
await received(3, 2)
await new Promise((resolve) => server.close(resolve))
console.log(JSON.stringify(out))
process.exit(0)
