// A bot made with discord.js that does what ours does. It prints what it
// understood; see TestLibraries.
import { ActionRowBuilder, AttachmentBuilder, ButtonBuilder, ButtonStyle, Client, Events, GatewayIntentBits, MessageFlags, Routes } from 'discord.js'

const [root, token] = process.argv.slice(2)
const { Guilds, GuildMessages, DirectMessages, MessageContent, GuildMembers } = GatewayIntentBits
const base = [Guilds, GuildMessages, DirectMessages, MessageContent]
const make = (intents) => new Client({ intents, rest: { api: root + '/api', retries: 1 } })
const once = (client, event, fits) => new Promise((resolve) => {
  const look = (v) => { if (fits(v)) { client.off(event, look); resolve(v) } }
  client.on(event, look)
})
const code = (p) => p.then(() => 0, (e) => e.code)
const out = {}

const client = make(base)
const ready = once(client, Events.ClientReady, () => true)
await client.login(token)
await ready
const guild = client.guilds.cache.get('500')
const channel = await client.channels.fetch('600')
out.me = client.user.username
out.guild = guild.name
out.role = guild.members.me.roles.botRole.id
out.thread = (await client.channels.fetch('700')).parentId
const commands = await client.application.commands.set([{ name: 'model', description: 'choose', options: [{ name: 'preset', type: 3, description: 'which' }] }])
out.commands = commands.map((c) => c.name)

const heard = once(client, Events.MessageCreate, (m) => m.content.includes('hello'))
const one = await channel.send({ content: 'ready', nonce: 'n1', enforceNonce: true })
const two = await channel.send({ content: 'ready', nonce: 'n1', enforceNonce: true })
out.same = one.id === two.id
const m = await heard
const file = m.attachments.first()
out.heard = [m.content, m.author.id, m.mentions.has(client.user), m.member.id, file.name, file.size]
out.file = await (await fetch(file.url)).text()
await channel.sendTyping()
await m.react('👀')
await m.reactions.cache.get('👀').users.remove(client.user.id)
const reply = await m.reply({ content: 're: hello', allowedMentions: { parse: [], repliedUser: false } })
out.reply = reply.reference.messageId === m.id
await reply.edit('re: hello!')
const sent = await channel.send({ files: [new AttachmentBuilder(Buffer.from('data'), { name: 'out.txt' })] })
out.sent = sent.attachments.first().name
await sent.delete()
out.gone = await code(channel.messages.fetch({ message: sent.id, force: true }))
out.history = (await channel.messages.fetch({ after: one.id, limit: 100 })).map((x) => x.content).reverse()

out.tooLong = await code(channel.send('x'.repeat(2001)))
out.empty = await code(channel.send(' '))
out.unknown = await code(client.rest.post(Routes.channelMessages('12345'), { body: { content: 'x' } }))
out.archived = await code(client.rest.post(Routes.channelMessages('702'), { body: { content: 'x' } }))
out.locked = await code(client.rest.patch(Routes.channel('701'), { body: { archived: false } }))
out.callback = await code(client.rest.post(Routes.interactionCallback('1', 'nope'), { body: { type: 4, data: { content: 'x' } }, auth: false }))
const direct = await client.users.createDM('42')
out.direct = direct.id

const tapped = once(client, Events.InteractionCreate, (i) => i.isButton())
await channel.send({ content: 'press me', components: [new ActionRowBuilder().addComponents(new ButtonBuilder().setCustomId('go').setLabel('Go').setStyle(ButtonStyle.Secondary))] })
const tap = await tapped
await tap.deferUpdate()
out.tap = [tap.customId, tap.user.id, tap.message.content]
const used = once(client, Events.InteractionCreate, (i) => i.isChatInputCommand())
await channel.send('slash please')
const slash = await used
await slash.reply({ content: 'done', flags: MessageFlags.Ephemeral })
out.slash = [slash.commandName, slash.options.getString('preset'), slash.user.id]

const resumed = once(client, Events.MessageCreate, (x) => x.content === 'after the cut')
await channel.send('cut me')
out.resumed = (await resumed).content
await client.destroy()

out.token = await make(base).login('bad.token.here').then(() => 'in', (e) => 'refused')
const greedy = make([...base, GuildMembers])
out.intents = await greedy.login(token).then(() => 'in', (e) => 'refused')
await greedy.destroy()
console.log(JSON.stringify(out))
process.exit(0)
