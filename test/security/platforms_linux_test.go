package security_test

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp/whatsapptest"
)

type object = map[string]any

// platform is a chat platform of the house, besides Telegram.
type platform struct {
	title   string
	name    string // of the section
	section object
	owners  []string         // ids of people who are owners
	unknown string           // the id of somebody who is not known
	begin   func(g *gateway) // nil: nothing to do after the start
	// routes are how words of others get into a message of an owner.
	routes []wordRoute
	// alone lets a person write to the bot alone, member somebody unknown in a
	// group, with a mention.
	alone  func(who, text string)
	member func(text string)
	// told is what a person was told in a chat with the bot alone.
	told func(who string) string
}

// wordRoute is one way. who is the owner who takes it, words are what others
// say.
type wordRoute struct {
	what string
	send func(who, words string)
	told func(who string) string // what the group was told; nil: it is a chat of two
}

// owned are ids of as many people as there are routes, at most.
func owned(format string) (out []string) {
	for i := range 5 {
		out = append(out, fmt.Sprintf(format, i+1))
	}
	return out
}

func joined[T any](list []T, text func(T) string) string {
	var b strings.Builder
	for _, m := range list {
		b.WriteString(text(m) + "\n")
	}
	return b.String()
}

// platforms makes them all, each with a fake that ends with the test.
func platforms() map[string]func(a *trial) *platform {
	return map[string]func(a *trial) *platform{
		"discord": discord, "matrix": matrix, "mattermost": mattermost, "signal": signal, "slack": slack, "teams": teams, "whatsapp": whatsapp,
	}
}

func slack(a *trial) *platform {
	fake := slacktest.New()
	a.t.Cleanup(fake.Close)
	owners := owned("U0OWN%d")
	for _, id := range owners {
		fake.Join([]slacktest.Person{{ID: id, Handle: strings.ToLower(id), Name: "Ada"}})
	}
	post := func(who, chat, text string, more object) string {
		m := object{"user": who, "channel": chat, "text": text}
		maps.Copy(m, more)
		return fake.Post(m)
	}
	told := func(chat string) string {
		return joined(fake.Messages(chat), func(m slacktest.Message) string { return m.Plain })
	}
	return &platform{
		title: "Slack", name: "slack", owners: owners, unknown: "U0EVE",
		section: object{"botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "apiBase": fake.URL()},
		alone:   func(who, text string) { post(who, fake.DM(who), text, nil) },
		member:  func(text string) { post("U0EVE", "C0GEN", "<@"+slacktest.BotUser+"> "+text, nil) },
		told:    func(who string) string { return told(fake.DM(who)) },
		routes: []wordRoute{
			{what: "a shared message", send: func(who, words string) {
				post(who, fake.DM(who), "look 1", object{"attachments": []object{{"is_share": true, "author_name": "Eve", "text": words}}})
			}},
			{what: "the name of a file", send: func(who, words string) {
				post(who, fake.DM(who), "look 2", object{"subtype": "file_share", "files": []any{fake.Store(words+".txt", "text/plain", []byte("x"))}})
			}},
			{what: "an earlier message of a thread", send: func(who, words string) {
				root := fake.Write(object{"user": "U0EVE", "channel": "C0GEN", "text": words})
				post(who, "C0GEN", "<@"+slacktest.BotUser+"> look 3", object{"thread_ts": root})
			}, told: func(string) string { return told("C0GEN") }},
		},
	}
}

func discord(a *trial) *platform {
	fake := discordtest.New()
	a.t.Cleanup(fake.Close)
	told := func(who string) string {
		return joined(fake.Messages(fake.DM(who)), func(m discordtest.Message) string { return m.Text() })
	}
	write := func(who, text string, more object) { fake.Write(who, fake.DM(who), text, more) }
	other := func(words string) object {
		return object{"id": "5", "channel_id": discordtest.Channel, "content": words, "author": object{"id": "77", "username": "eve"}, "type": 0}
	}
	return &platform{
		title: "Discord", name: "discord", owners: owned("10%d"), unknown: "66",
		section: object{"token": discordtest.Token, "apiBase": fake.URL()},
		alone:   func(who, text string) { write(who, text, nil) },
		member: func(text string) {
			fake.Write("66", discordtest.Channel, "<@"+discordtest.BotID+"> "+text, object{"mentions": []object{{"id": discordtest.BotID, "username": discordtest.BotName}}})
		},
		told: told,
		routes: []wordRoute{
			{what: "the message that is answered", send: func(who, words string) {
				write(who, "look 1", object{"type": 19, "message_reference": object{"message_id": "5"}, "referenced_message": other(words)})
			}},
			{what: "a forwarded message", send: func(who, words string) {
				write(who, "", object{"message_reference": object{"type": 1, "message_id": "5"}, "message_snapshots": []object{{"message": object{"content": words}}}})
			}},
			{what: "the name of a file", send: func(who, words string) {
				write(who, "look 3", object{"attachments": []object{fake.Store(words+".txt", []byte("x"))}})
			}},
		},
	}
}

func mattermost(a *trial) *platform {
	fake := mattermosttest.New()
	a.t.Cleanup(fake.Close)
	owners := owned("owner%d")
	for i, name := range owners {
		owners[i] = mattermosttest.ID(name)
		fake.AddUser(mattermosttest.User{ID: owners[i], Username: name})
	}
	eve := mattermosttest.ID("eve")
	fake.AddUser(mattermosttest.User{ID: eve, Username: "eve"})
	told := func(chat string) string {
		return joined(fake.Posts(chat), func(p mattermosttest.Post) string { return p.Message })
	}
	direct := func(who, text string, more mattermosttest.Post) {
		more.UserID, more.ChannelID, more.Message = who, fake.Direct(who), text
		fake.Say(more)
	}
	town := func(string) string { return told(mattermosttest.TownID()) }
	return &platform{
		title: "Mattermost", name: "mattermost", owners: owners, unknown: eve,
		section: object{"token": mattermosttest.Token, "serverUrl": fake.URL()},
		alone:   func(who, text string) { direct(who, text, mattermosttest.Post{}) },
		member: func(text string) {
			fake.Say(mattermosttest.Post{UserID: eve, ChannelID: mattermosttest.TownID(), Message: "@" + mattermosttest.BotName + " " + text})
		},
		told: func(who string) string { return told(fake.Direct(who)) },
		routes: []wordRoute{
			{what: "a message that a link shows", send: func(who, words string) {
				direct(who, "look 1", mattermosttest.Post{Metadata: object{"embeds": []any{
					object{"type": "permalink", "data": object{"post_id": "p", "post": object{"message": words}}},
				}}})
			}},
			{what: "the name of a file", send: func(who, words string) {
				direct(who, "look 2", mattermosttest.Post{FileIDs: []string{fake.Store(who, fake.Direct(who), words+".txt", []byte("x"))}})
			}},
			{what: "an earlier message of a thread", send: func(who, words string) {
				root := fake.SayUnseen(mattermosttest.Post{UserID: eve, ChannelID: mattermosttest.TownID(), Message: words})
				fake.Say(mattermosttest.Post{UserID: who, ChannelID: mattermosttest.TownID(), RootID: root.ID, Message: "@" + mattermosttest.BotName + " look 3"})
			}, told: town},
			{what: "a message that another person edited", send: func(who, words string) {
				p := fake.Say(mattermosttest.Post{UserID: who, ChannelID: mattermosttest.TownID(), Message: "good morning"})
				fake.Edit(p.ID, "@"+mattermosttest.BotName+" "+words)
			}, told: town},
		},
	}
}

func matrix(a *trial) *platform {
	fake := matrixtest.New()
	a.t.Cleanup(fake.Close)
	eve, room := "@eve:"+matrixtest.Server, func(who string) string { return "!" + strings.TrimPrefix(who, "@") }
	owners := owned("@owner%d:" + matrixtest.Server)
	fake.Account(eve, "eve's")
	fake.Room("!team:"+matrixtest.Server, nil, eve, owners[0], matrixtest.Bot)
	for _, who := range append([]string{eve}, owners...) {
		fake.Account(who, "x")
		fake.Room(room(who), nil, who, matrixtest.Bot)
	}
	say := func(who string, content matrixtest.Object) {
		fake.Say(matrixtest.Event{Room: room(who), Sender: who, At: time.Now().UnixMilli()}, content)
	}
	return &platform{
		title: "Matrix", name: "matrix", owners: owners, unknown: eve,
		section: object{"homeserver": fake.URL(), "userId": matrixtest.Bot, "password": matrixtest.Password, "e2eeEnabled": false},
		alone:   func(who, text string) { say(who, matrixtest.Text(text)) },
		member: func(text string) {
			c := matrixtest.Text(text)
			c["m.mentions"] = object{"user_ids": []string{matrixtest.Bot}}
			fake.Say(matrixtest.Event{Room: "!team:" + matrixtest.Server, Sender: eve, At: time.Now().UnixMilli()}, c)
		},
		told: func(who string) string {
			var b strings.Builder
			for _, m := range fake.Messages(matrixtest.Bot) {
				if m.Room == room(who) {
					b.WriteString(m.Body + "\n")
				}
			}
			return b.String()
		},
		routes: []wordRoute{
			{what: "the message that is answered", send: func(who, words string) {
				id := fake.Say(matrixtest.Event{Room: room(who), Sender: eve, At: time.Now().UnixMilli()}, matrixtest.Text(words))
				say(who, matrixtest.Object{"msgtype": "m.text", "body": "> <" + eve + "> " + words + "\n\nlook 1", "m.relates_to": object{"m.in_reply_to": object{"event_id": id}}})
			}},
			{what: "the name of a file", send: func(who, words string) {
				say(who, matrixtest.Object{"msgtype": "m.file", "body": "look 2", "filename": words + ".txt", "url": fake.Store("text/plain", []byte("x"))})
			}},
		},
	}
}

func teams(a *trial) *platform {
	fake := teamstest.New()
	a.t.Cleanup(fake.Close)
	const channel = "19:general@thread.tacv2"
	fake.AddChat(channel, teamstest.Channel)
	n := 0
	post := func(who, text string, more teamstest.Object) {
		n++
		fake.Post(fake.Activity(fmt.Sprintf("17%011d", n), who, "a:"+who, text, more))
	}
	page := func(kind, words, text string) teamstest.Object {
		return teamstest.Object{"attachments": []any{teamstest.Object{"contentType": "text/html", "content": `<blockquote itemscope="" itemtype="http://schema.skype.com/` + kind +
			`" itemid="1700000000001"><strong itemprop="mri" itemid="8:orgid:x">Eve</strong><p itemprop="preview">` + words + `</p></blockquote><p>` + text + `</p>`}}}
	}
	return &platform{
		title: "Teams", name: "msteams", owners: owned("owner%d"), unknown: "eve",
		section: object{
			"appId": teamstest.AppID, "appPassword": teamstest.Password, "tenantId": teamstest.Tenant, "port": 0,
			"loginBase": fake.URL(), "openIdUrl": fake.OpenIDURL(), "serviceUrl": fake.ServiceURL(), "trustedServiceUrlHosts": []string{"127.0.0.1"},
		},
		begin: func(g *gateway) { fake.Endpoint(g.base + "/api/messages") },
		alone: func(who, text string) { post(who, text, nil) },
		member: func(text string) {
			post("eve", "<at>"+teamstest.BotName+"</at> "+text, teamstest.Object{
				"conversation": teamstest.Object{"conversationType": teamstest.Channel, "id": channel, "tenantId": teamstest.Tenant, "isGroup": true},
				"entities":     []any{teamstest.Object{"type": "mention", "text": "<at>" + teamstest.BotName + "</at>", "mentioned": teamstest.Object{"id": "28:" + fake.App, "name": teamstest.BotName}}},
			})
		},
		told: func(who string) string {
			return joined(fake.Messages("a:"+who), func(m teamstest.Message) string { return m.Text })
		},
		routes: []wordRoute{
			{what: "the message that is answered", send: func(who, words string) {
				post(who, words+" look 1", page("Reply", words, "look 1"))
			}},
			{what: "a forwarded message", send: func(who, words string) {
				post(who, words+" look 2", page("Forward", words, "look 2"))
			}},
		},
	}
}

func signal(a *trial) *platform {
	const crowd = "Z3JvdXBncm91cGdyb3VwZ3JvdXBncm91cGdyb3VwMDE="
	fake := signaltest.New(crowd)
	a.t.Cleanup(fake.Close)
	at := time.Now().UnixMilli()
	post := func(who string, data object) {
		at++
		data["timestamp"] = at
		fake.Post(object{"source": who, "sourceNumber": who, "sourceName": "Ada", "sourceDevice": 1, "timestamp": at, "dataMessage": data})
	}
	return &platform{
		title: "Signal", name: "signal", owners: owned("+491510000010%d"), unknown: "+4917600000066",
		section: object{
			"phoneNumber": signaltest.Number, "daemonHost": fake.Host(), "daemonPort": fake.Port(), "group": object{"enabled": true, "allowFrom": []string{crowd}},
		},
		alone: func(who, text string) { post(who, object{"message": text}) },
		member: func(text string) {
			post("+4917600000066", object{
				"message": "\uFFFC " + text, "groupInfo": object{"groupId": crowd, "type": "DELIVER"},
				"mentions": []object{{"number": signaltest.Number, "uuid": signaltest.UUID, "start": 0, "length": 1}},
			})
		},
		told: func(who string) string {
			var b strings.Builder
			for _, m := range fake.Messages() {
				if m.Chat == who {
					b.WriteString(m.Text + "\n")
				}
			}
			return b.String()
		},
		routes: []wordRoute{
			{what: "the message that is answered", send: func(who, words string) {
				post(who, object{"message": "look 1", "quote": object{"id": 1, "authorNumber": "+4917600000066", "text": words}})
			}},
			{what: "the name of a file", send: func(who, words string) {
				fake.Store("f1", []byte("x"))
				post(who, object{"message": "look 2", "attachments": []object{{"contentType": "text/plain", "filename": words + ".txt", "id": "f1", "size": 1}}})
			}},
		},
	}
}

func whatsapp(a *trial) *platform {
	fake := whatsapptest.New(a.t.TempDir())
	a.t.Cleanup(fake.Close)
	n := 0
	jid := func(who string) string { return who + "@s.whatsapp.net" }
	post := func(who, text string, more object) {
		n++
		m := object{"id": fmt.Sprint("M", n), "sender": jid(who), "participant": jid(who), "content": text, "timestamp": time.Now().Unix(), "name": "Ada"}
		maps.Copy(m, more)
		fake.Post(m)
	}
	return &platform{
		title: "WhatsApp", name: "whatsapp", owners: owned("491510000010%d"), unknown: "4917600000066",
		section: object{"bridgeUrl": fake.URL(), "bridgeToken": whatsapptest.Token},
		alone:   func(who, text string) { post(who, text, nil) },
		member: func(text string) {
			post("4917600000066", text, object{"sender": "120363000000000001@g.us", "isGroup": true, "wasMentioned": true})
		},
		told: func(who string) string {
			var b strings.Builder
			for _, m := range fake.Messages() {
				if m.To == jid(who) {
					b.WriteString(m.Text + "\n")
				}
			}
			return b.String()
		},
		routes: []wordRoute{
			{what: "the message that is answered", send: func(who, words string) {
				post(who, "look 1", object{"replyTo": object{"id": "Q1", "participant": jid("4917600000066"), "text": words}})
			}},
			{what: "a forwarded message", send: func(who, words string) { post(who, words, object{"forwarded": true}) }},
			{what: "the name of a file", send: func(who, words string) {
				fake.Store("f1", []byte("x"))
				post(who, "look 3", object{"files": []object{{"kind": "document", "name": words + ".txt", "size": 1, "ref": "f1"}}})
			}},
			{what: "a contact", send: func(who, words string) { post(who, "look 4", object{"notes": []string{"contact: " + words}}) }},
		},
	}
}
