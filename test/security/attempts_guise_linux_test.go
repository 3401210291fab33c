package security_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat/napcattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp/whatsapptest"
)

// guise is what a stranger puts on before they write.
type guise struct {
	worn  string // in every field of the platform that people fill in themselves
	group bool   // they write in a group, to the bot
	more  object // laid over the message as it is on the wire
	as    string // the stranger's own id, where people choose it; "" is the usual one
}

// stage is a platform with an owner, who is on the lists by id, and a stranger, who
// is not.
type stage struct {
	name    string // of the section
	section object // besides the lists
	owners  []string
	begin   func(g *gateway)
	hello   func(text string)           // the owner writes
	pose    func(text string, as guise) // the stranger writes
	told    func() string               // what the stranger was told alone
}

// pose is one way to look like the owner.
type pose struct {
	what string
	as   guise
	// pairs says that the stranger tries to approve the code of their own.
	pairs bool
}

// actor is a platform and the ways to pose as its owner there.
type actor struct {
	title string
	stage func(a *trial) *stage
	poses []pose
}

// freely are poses on a platform where people fill in a name as they like.
func freely(owner string) []pose {
	return []pose{
		{what: "is called the owner's id with an @ before it", as: guise{worn: "@" + owner}},
		{what: "is called the owner's id in full-width letters and digits", as: guise{worn: fullWidth(owner)}},
		{what: "is called the owner's id among letters that nobody sees", as: guise{worn: "\u200b\u2066" + owner + "\u2069\ufeff"}},
		{what: "is called the owner's id in capitals, between spaces and line ends", as: guise{worn: " \n" + strings.ToUpper(owner) + "\t "}},
		{what: "is called the owner's id and a name, as Python nanobot wrote lists", as: guise{worn: owner + "|ada"}},
		{what: "is called an asterisk, which is everybody on a list", as: guise{worn: "*"}},
		{what: "is called the owner's id in a group", as: guise{worn: owner, group: true}},
		{what: "is called the owner's id and approves their own pairing code", as: guise{worn: owner}, pairs: true},
	}
}

// fullWidth writes printable ASCII in the forms that compatibility folding takes
// back.
func fullWidth(s string) string {
	return strings.Map(func(r rune) rune {
		if r > ' ' && r <= '~' {
			return r - '!' + '\uff01'
		}
		return r
	}, s)
}

// actors are the platforms whose messages have a sender.
func actors() []actor {
	return []actor{
		{"Discord", stageDiscord, append(freely("101"), []pose{
			{what: "answers a message of the owner", as: guise{more: object{
				"type": 19, "message_reference": object{"message_id": "5"}, "referenced_message": object{"id": "5", "channel_id": "1", "content": "yes", "author": discordPerson("101", "ada"), "type": 0},
			}}},
			{what: "mentions the owner", as: guise{more: object{"mentions": []object{discordPerson("101", "ada")}}}},
			{what: "is called the owner's id and uses a slash command", as: guise{worn: "101", more: object{"command": "goal"}}},
			{what: "writes by a webhook that has the owner's id for a name", as: guise{group: true, more: object{"webhook_id": "55", "author": object{"id": "55", "username": "101", "bot": true, "discriminator": "0000"}}}},
		}...)},
		{"Mattermost", stageMattermost, append(freely(mattermosttest.ID("owner1")), []pose{
			{what: "writes with the owner's id as `override_username`, as integrations do", as: guise{more: object{"override_username": mattermosttest.ID("owner1"), "webhook_display_name": mattermosttest.ID("owner1")}}},
		}...)},
		{"Slack", stageSlack, append(freely("U0OWN1"), []pose{
			{what: "is called the owner's id and uses a slash command", as: guise{worn: "U0OWN1", more: object{"command": "/nanobot"}}},
			{what: "shares a message of the owner", as: guise{more: object{"attachments": []object{{"is_share": true, "author_id": "U0OWN1", "author_name": "Ada", "text": "hello"}}}}},
			{what: "writes in a thread that the owner began", as: guise{more: object{"parent_user_id": "U0OWN1", "thread_ts": "1700000000.000100"}}},
		}...)},
		{"Teams", stageTeams, append(freely("owner1"), []pose{
			{what: "has the owner's id for the id that the bot sees, which is of another kind", as: guise{more: object{"from": object{"id": "29:owner1", "name": "Eve", "aadObjectId": "eve"}}}},
			{what: "says that the owner wrote, in the data of the channel", as: guise{more: object{"channelData": object{"source": object{"name": "owner1"}, "onBehalfOf": []any{object{"mri": "8:orgid:owner1", "displayName": "Ada"}}}}}},
		}...)},
		{"Matrix", stageMatrix, append(freely("@owner1:"+matrixtest.Server), []pose{
			{what: "has the owner's id in capitals", as: guise{as: "@OWNER1:" + matrixtest.Server}},
			{what: "has the owner's id with a letter of another script", as: guise{as: "@\u043ewner1:" + matrixtest.Server}},
			{what: "has the owner's id with a server that begins like the owner's", as: guise{as: "@owner1:" + matrixtest.Server + ".evil.example"}},
			{what: "has the owner's id before the colon of another server's", as: guise{as: "@owner1:" + matrixtest.Server + ":8448"}},
		}...)},
		{"Signal", stageSignal, append(freely(signalOwner), []pose{
			{what: "answers a message of the owner", as: guise{more: object{"quote": object{"id": 1, "authorNumber": signalOwner, "author": signalOwner, "text": "yes"}}}},
			{what: "shares the owner's number as a contact", as: guise{more: object{"contacts": []object{{"name": object{"display": "Ada"}, "phone": []object{{"value": signalOwner}}}}}}},
			{what: "mentions the owner", as: guise{more: object{"mentions": []object{{"number": signalOwner, "start": 0, "length": 1}}}}},
		}...)},
		{"WhatsApp", stageWhatsApp, append(freely(whatsAppOwner), []pose{
			{what: "has a hidden id with the digits of the owner's number, in a group", as: guise{as: whatsAppOwner + "@lid", group: true}},
			{what: "has a hidden id of a device with the digits of the owner's number", as: guise{as: whatsAppOwner + ":7@lid"}},
			{what: "answers a message of the owner", as: guise{more: object{"replyTo": object{"id": "Q1", "participant": whatsAppOwner + "@s.whatsapp.net", "text": "yes"}}}},
		}...)},
		{"Telegram", stageTelegram, append(freely("42"), []pose{
			{what: "has the owner's number for a user name", as: guise{more: object{"from": object{"id": stranger, "first_name": "Eve", "username": "42"}}}},
			{what: "passes on a message of the owner", as: guise{more: object{"forward_origin": object{"type": "user", "date": 1, "sender_user": object{"id": ada, "first_name": "Ada"}}}}},
			{what: "answers a message of the owner", as: guise{more: object{"reply_to_message": object{"message_id": 1, "date": 1, "text": "yes", "from": object{"id": ada, "first_name": "Ada"}, "chat": object{"id": stranger, "type": "private"}}}}},
			{what: "sends the owner as a contact", as: guise{more: object{"contact": object{"phone_number": "+491510", "first_name": "Ada", "user_id": ada}}}},
			{what: "writes as a channel with the owner's number for a name", as: guise{group: true, more: object{"sender_chat": object{"id": -1009, "type": "channel", "title": "42", "username": "42"}}}},
		}...)},
		{"Feishu", stageFeishu, append(feishuForms(), []pose{
			{what: "has the owner's open id for the id that administrators choose, in a group", as: guise{as: "ou_owner", group: true}},
			{what: "has the owner's union id for the id that administrators choose", as: guise{as: "on_ou_owner"}},
			{what: "has the owner's open id for the id that administrators choose, and approves their own pairing code", as: guise{as: "ou_owner"}, pairs: true},
			{what: "mentions the owner", as: guise{more: object{"mention": "ou_owner"}}},
		}...)},
		{"DingTalk", stageDingTalk, append(freely("boss"), []pose{
			{what: "has the owner's staff id in another organisation, in a group", as: guise{group: true, more: object{"senderStaffId": "boss", "senderCorpId": "another corp"}}},
			{what: "without a staff id has the owner's in the id that DingTalk gives", as: guise{more: object{"senderId": "$:LWCP_v1:$boss", "senderStaffId": ""}}},
			{what: "is an administrator of another organisation with the owner's staff id", as: guise{more: object{"senderStaffId": "boss", "senderCorpId": "another corp", "isAdmin": true}}},
		}...)},
		{"WeCom", stageWeCom, weComPoses()},
		{"Weixin", stageWeixin, append(freely(weixintest.Owner), []pose{
			{what: "writes in a group whose id is the owner's", as: guise{more: object{"group_id": weixintest.Owner}}},
			{what: "has the owner's id on another server", as: guise{as: strings.TrimSuffix(weixintest.Owner, "@im.wechat") + "@im.evil"}},
		}...)},
		{"NapCat", stageNapCat, append(freely("10101"), []pose{
			{what: "has the owner's number in the part of the message that is for show", as: guise{worn: "10101", more: object{"sender": object{"user_id": 10101, "nickname": "10101", "card": "10101", "role": "owner"}}}},
			{what: "owns the group, as its role says", as: guise{group: true, more: object{"sender": object{"user_id": 20666, "nickname": "Eve", "card": "10101", "role": "owner", "title": "10101"}}}},
			{what: "quotes the owner's number by a code in the text", as: guise{more: object{"message": []object{{"type": "at", "data": object{"qq": "10101"}}, {"type": "text", "data": object{"text": " " + words}}}}}},
		}...)},
		{"Mochat", stageMochat, append(freely(mochattest.Ann), []pose{
			{what: "has the owner's id in the data about the author", as: guise{worn: mochattest.Ann, more: object{"author": mochattest.Ann, "authorInfo": object{"userId": mochattest.Ann}, "userId": mochattest.Ann}}},
		}...)},
		{"QQ", stageQQ, append(freely("ABCDEF01"), []pose{
			{what: "is called the owner's id in a server, alone with the bot", as: guise{worn: "ABCDEF01"}},
			{what: "mentions the owner", as: guise{more: object{"mentions": []object{{"id": "ABCDEF01", "username": "ada"}}}}},
			{what: "answers a message of the owner", as: guise{more: object{"message_reference": object{"message_id": "ROBOT1.0_1"}, "msg_elements": []object{{"author": object{"id": "ABCDEF01"}, "content": "yes"}}}}},
		}...)},
	}
}

// guiseAttempts are by a stranger who looks like the owner. Each must be refused
// without a word to the model, and afterwards the owner is still heard.
func guiseAttempts() []attempt {
	var list []attempt
	for _, who := range actors() {
		for _, p := range who.poses {
			var s *stage
			list = append(list, attempt{
				route: who.title + ": a stranger " + p.what, expect: keptOff, kept: true,
				config: func(a *trial) {
					s = who.stage(a)
					section := object{"groupPolicy": "open"}
					maps.Copy(section, s.section)
					a.enroll(s.name, &platform{owners: s.owners, section: section})
				},
				run: func(a *trial) { a.poses(s, p) },
			})
		}
	}
	return list
}

// poses lets a stranger write under a guise, and then the owner.
func (a *trial) poses(s *stage, p pose) {
	a.t.Helper()
	g := a.starts()
	if s.begin != nil {
		s.begin(g)
	}

	s.pose(words, p.as)
	a.isRefused(s, 1)
	if p.pairs {
		a.pairs(s, p)
	}

	mark := a.model.beginMarked(nil)
	s.hello("hello")
	g.until("an answer to the owner", func() bool { return a.model.said(mark) })
}

// isRefused waits until so many messages were refused, or the model was told.
func (a *trial) isRefused(s *stage, n int) {
	a.t.Helper()
	line := `msg="a message was refused" channel=` + s.name + " "
	a.gate.until("the stranger is refused", func() bool { return strings.Count(a.gate.out.String(), line) >= n || a.told() > 0 })
}

var pairingCode = regexp.MustCompile(`/pairing approve ([A-Z0-9-]+)`)

// pairs lets a stranger approve the code that they were given.
func (a *trial) pairs(s *stage, p pose) {
	a.t.Helper()
	var code string
	a.gate.until("a code", func() bool {
		if found := pairingCode.FindStringSubmatch(s.told()); found != nil {
			code = found[1]
		}
		return code != ""
	})
	s.pose("/pairing approve "+code, p.as)
	a.isRefused(s, 2)
	s.pose(words, p.as)
	a.isRefused(s, 3)
	if data, err := os.ReadFile(filepath.Join(a.data, "pairing.json")); err != nil || !strings.Contains(string(data), `"sender_id"`) {
		a.broke("nobody waits for approval any more: %s (%v)", data, err)
	}
}

func discordPerson(id, name string) object {
	return object{"id": id, "username": name, "global_name": name, "discriminator": "0"}
}

func stageDiscord(a *trial) *stage {
	fake := discordtest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "discord", owners: []string{"101"}, section: object{"token": discordtest.Token, "apiBase": fake.URL(), "allowBots": true},
		hello: func(text string) { fake.Write("101", fake.DM("101"), text, nil) },
		pose: func(text string, as guise) {
			author := object{"id": "66", "username": "eve", "global_name": as.worn, "discriminator": "0"}
			if command, ok := as.more["command"]; ok {
				fake.Event("INTERACTION_CREATE", object{
					"id": "7001", "application_id": discordtest.BotID, "type": 2, "token": "interaction-7001", "version": 1, "channel_id": fake.DM("66"), "context": 1,
					"user": author, "data": object{"id": "1", "name": command, "type": 1, "options": []object{{"name": "arguments", "type": 3, "value": text}}},
				})
				return
			}
			m := object{"author": author}
			chat := fake.DM("66")
			if as.group {
				chat = discordtest.Channel
				m["member"] = object{"nick": as.worn, "roles": []string{}}
			}
			maps.Copy(m, as.more)
			fake.Write("66", chat, text, m)
		},
		told: func() string {
			return joined(fake.Messages(fake.DM("66")), func(m discordtest.Message) string { return m.Text() })
		},
	}
}

func stageMattermost(a *trial) *stage {
	fake := mattermosttest.New()
	a.t.Cleanup(fake.Close)
	owner, eve := mattermosttest.ID("owner1"), mattermosttest.ID("eve")
	fake.AddUser(mattermosttest.User{ID: owner, Username: "ada"})
	return &stage{
		// In this mode names count as well, so a person could be taken for another.
		name: "mattermost", owners: []string{owner}, section: object{"token": mattermosttest.Token, "serverUrl": fake.URL(), "allowFromMatchMode": "username"},
		hello: func(text string) {
			fake.Say(mattermosttest.Post{UserID: owner, ChannelID: fake.Direct(owner), Message: text})
		},
		pose: func(text string, as guise) {
			fake.AddUser(mattermosttest.User{ID: eve, Username: as.worn, Nickname: as.worn, FirstName: as.worn, LastName: as.worn, Email: as.worn})
			p := mattermosttest.Post{UserID: eve, ChannelID: fake.Direct(eve), Message: text, Props: as.more}
			if as.group {
				p.ChannelID, p.Message = mattermosttest.TownID(), "@"+mattermosttest.BotName+" "+text
			}
			fake.Say(p)
		},
		told: func() string {
			return joined(fake.Posts(fake.Direct(eve)), func(p mattermosttest.Post) string { return p.Message })
		},
	}
}

func stageSlack(a *trial) *stage {
	fake := slacktest.New()
	a.t.Cleanup(fake.Close)
	const owner, eve = "U0OWN1", "U0EVE"
	return &stage{
		name: "slack", owners: []string{owner}, section: object{"botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "apiBase": fake.URL()},
		hello: func(text string) { fake.Post(object{"user": owner, "channel": fake.DM(owner), "text": text}) },
		pose: func(text string, as guise) {
			fake.Join([]slacktest.Person{{ID: eve, Handle: as.worn, Name: as.worn}})
			if command, ok := as.more["command"]; ok {
				fake.Deliver("slash_commands", object{
					"command": command, "text": text, "user_id": eve, "user_name": as.worn, "channel_id": fake.DM(eve), "team_id": slacktest.Team,
					"trigger_id": "trigger.1", "response_url": fake.URL() + "response", "api_app_id": slacktest.App,
				})
				return
			}
			m := object{
				"user": eve, "channel": fake.DM(eve), "text": text, "username": as.worn,
				"user_profile": object{"name": as.worn, "display_name": as.worn, "real_name": as.worn},
			}
			if as.group {
				m["channel"], m["text"] = "C0GEN", "<@"+slacktest.BotUser+"> "+text
			}
			maps.Copy(m, as.more)
			fake.Post(m)
		},
		told: func() string {
			return joined(fake.Messages(fake.DM(eve)), func(m slacktest.Message) string { return m.Plain })
		},
	}
}

func stageTeams(a *trial) *stage {
	const channel = "19:general@thread.tacv2"
	p := teams(a)
	fake := teamstest.New()
	a.t.Cleanup(fake.Close)
	fake.AddChat(channel, teamstest.Channel)
	section := p.section
	maps.Copy(section, object{"loginBase": fake.URL(), "openIdUrl": fake.OpenIDURL(), "serviceUrl": fake.ServiceURL()})
	n := 0
	post := func(who, text string, more object) {
		n++
		fake.Post(fake.Activity(fmt.Sprintf("17%011d", n), who, "a:"+who, text, more))
	}
	return &stage{
		name: "msteams", owners: []string{"owner1"}, section: section,
		begin: func(g *gateway) { fake.Endpoint(g.base + "/api/messages") },
		hello: func(text string) { post("owner1", text, nil) },
		pose: func(text string, as guise) {
			m := object{"from": object{"id": "29:eve", "name": as.worn, "aadObjectId": "eve", "userPrincipalName": as.worn}}
			if as.group {
				text = "<at>" + teamstest.BotName + "</at> " + text
				m["conversation"] = object{"conversationType": teamstest.Channel, "id": channel, "tenantId": teamstest.Tenant, "isGroup": true}
				m["entities"] = []any{object{"type": "mention", "text": "<at>" + teamstest.BotName + "</at>", "mentioned": object{"id": "28:" + fake.App, "name": teamstest.BotName}}}
			}
			maps.Copy(m, as.more)
			post("eve", text, m)
		},
		told: func() string {
			return joined(fake.Messages("a:eve"), func(m teamstest.Message) string { return m.Text })
		},
	}
}

func stageMatrix(a *trial) *stage {
	fake := matrixtest.New()
	a.t.Cleanup(fake.Close)
	owner, usual := "@owner1:"+matrixtest.Server, "@eve:"+matrixtest.Server
	home, strange, team := "!ada:"+matrixtest.Server, "!eve:"+matrixtest.Server, "!team:"+matrixtest.Server
	fake.Account(owner, "x")
	fake.Room(home, nil, owner, matrixtest.Bot)
	var meet sync.Once
	say := func(room, who string, content object) {
		fake.Say(matrixtest.Event{Room: room, Sender: who, At: time.Now().UnixMilli()}, content)
	}
	return &stage{
		name: "matrix", owners: []string{owner}, section: object{"homeserver": fake.URL(), "userId": matrixtest.Bot, "password": matrixtest.Password, "e2eeEnabled": false},
		hello: func(text string) { say(home, owner, matrixtest.Text(text)) },
		pose: func(text string, as guise) {
			eve := usual
			if as.as != "" {
				eve = as.as
			}
			room, content := strange, matrixtest.Text(text)
			if as.group {
				room = team
				content["m.mentions"] = object{"user_ids": []string{matrixtest.Bot}}
			}
			meet.Do(func() {
				fake.Room(strange, nil, eve, matrixtest.Bot)
				fake.Room(team, nil, eve, owner, matrixtest.Bot)
				for _, r := range []string{strange, team} {
					fake.Say(matrixtest.Event{Room: r, Sender: eve, Type: "m.room.member", StateKey: &eve}, object{"membership": "join", "displayname": as.worn})
				}
			})
			say(room, eve, content)
		},
		told: func() string {
			return joined(fake.Messages(matrixtest.Bot), func(m matrixtest.Message) string { return m.Body })
		},
	}
}

const (
	signalOwner   = "+4915100000101"
	whatsAppOwner = "4915100000101"
)

func stageSignal(a *trial) *stage {
	const crowd = "Z3JvdXBncm91cGdyb3VwZ3JvdXBncm91cGdyb3VwMDE="
	fake := signaltest.New(crowd)
	a.t.Cleanup(fake.Close)
	at := time.Now().UnixMilli()
	post := func(who, name, text string, more object) {
		at++
		data := object{"message": text, "timestamp": at, "profileName": name}
		maps.Copy(data, more)
		fake.Post(object{"source": who, "sourceNumber": who, "sourceName": name, "sourceDevice": 1, "timestamp": at, "dataMessage": data})
	}
	const eve = "+4917600000066"
	return &stage{
		name: "signal", owners: []string{signalOwner},
		section: object{"phoneNumber": signaltest.Number, "daemonHost": fake.Host(), "daemonPort": fake.Port(), "group": object{"enabled": true, "policy": "open"}},
		hello:   func(text string) { post(signalOwner, "Ada", text, nil) },
		pose: func(text string, as guise) {
			more := object{}
			if as.group {
				text = "\uFFFC " + text
				more["groupInfo"] = object{"groupId": crowd, "groupName": as.worn, "type": "DELIVER"}
				more["mentions"] = []object{{"number": signaltest.Number, "uuid": signaltest.UUID, "start": 0, "length": 1}}
			}
			maps.Copy(more, as.more)
			post(eve, as.worn, text, more)
		},
		told: func() string {
			return joined(fake.Messages(), func(m signaltest.Message) string { return m.Text })
		},
	}
}

func stageWhatsApp(a *trial) *stage {
	fake := whatsapptest.New(a.t.TempDir())
	a.t.Cleanup(fake.Close)
	n := 0
	post := func(who, name, text string, more object) {
		n++
		m := object{"type": "message", "id": fmt.Sprint("M", n), "sender": who, "participant": who, "content": text, "timestamp": time.Now().Unix(), "name": name}
		maps.Copy(m, more)
		fake.Post(m)
	}
	return &stage{
		name: "whatsapp", owners: []string{whatsAppOwner}, section: object{"bridgeUrl": fake.URL(), "bridgeToken": whatsapptest.Token},
		hello: func(text string) { post(whatsAppOwner+"@s.whatsapp.net", "Ada", text, nil) },
		pose: func(text string, as guise) {
			eve := "4917600000066@s.whatsapp.net"
			if as.as != "" {
				eve = as.as
			}
			more := object{}
			if as.group {
				more["sender"], more["isGroup"], more["wasMentioned"] = "120363000000000001@g.us", true, true
			}
			maps.Copy(more, as.more)
			post(eve, as.worn, text, more)
		},
		told: func() string {
			return joined(fake.Messages(), func(m whatsapptest.Message) string { return m.Text })
		},
	}
}

func stageTelegram(a *trial) *stage {
	fake := telegramtest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "telegram", owners: []string{"42"}, section: object{"token": telegramtest.Token, "apiBase": fake.URL(), "reactEmoji": ""},
		hello: func(text string) { fake.Say(ada, text) },
		pose: func(text string, as guise) {
			m := object{
				"text": text, "from": object{"id": stranger, "first_name": as.worn},
				"chat": object{"id": stranger, "type": "private", "first_name": as.worn}, "date": time.Now().Unix(),
			}
			if as.group {
				m["chat"] = object{"id": group, "type": "group", "title": as.worn}
			}
			maps.Copy(m, as.more)
			fake.Post(m)
		},
		told: func() string {
			return joined(fake.Messages(stranger), func(m telegramtest.Message) string { return m.Plain })
		},
	}
}

// feishuForms are ids that an administrator of an organisation chose for somebody.
func feishuForms() []pose {
	var list []pose
	for _, p := range freely("ou_owner")[:5] {
		what := strings.Replace(p.what, "is called", "has, for the id that administrators choose,", 1)
		list = append(list, pose{what: what, as: guise{as: p.as.worn}})
	}
	return list
}

func stageFeishu(a *trial) *stage {
	fake := feishutest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "feishu", owners: []string{"ou_owner"}, section: object{"appId": feishutest.AppID, "appSecret": feishutest.AppSecret, "apiBaseUrl": fake.URL()},
		hello: func(text string) {
			fake.Say(feishutest.Message{Sender: "ou_owner", Chat: "oc_p2p_ou_owner", Content: feishutest.Text(text)})
		},
		pose: func(text string, as guise) {
			m := feishutest.Message{Sender: "ou_eve", UserID: as.as, Chat: "oc_p2p_ou_eve", Content: feishutest.Text(text)}
			if as.group {
				m.Chat = "oc_group"
			}
			if id, ok := as.more["mention"].(string); ok {
				m.Mentions = []feishutest.Mention{{Key: "@_user_1", ID: id, Name: "Ada"}}
			}
			fake.Say(m)
		},
		told: func() string {
			return joined(fake.Messages(""), func(m feishutest.Message) string { return m.Plain })
		},
	}
}

func stageDingTalk(a *trial) *stage {
	fake := dingtalktest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "dingtalk", owners: []string{"boss"},
		section: object{"clientId": dingtalktest.ClientID, "clientSecret": dingtalktest.ClientSecret, "apiBaseUrl": fake.URL(), "oapiBaseUrl": fake.URL()},
		hello:   func(text string) { fake.Write("boss", "", text, nil) },
		pose: func(text string, as guise) {
			conversation := ""
			if as.group {
				conversation = "cid1"
			}
			m := dingtalktest.Object{"senderNick": as.worn}
			maps.Copy(m, as.more)
			fake.Write("eve", conversation, text, m)
		},
		told: func() string {
			return joined(fake.Messages(), func(m dingtalktest.Message) string { return m.Text() })
		},
	}
}

// weComPoses are ids that the administrators of another company chose. There is
// nothing in a message that its sender chooses besides the text.
func weComPoses() []pose {
	var list []pose
	for _, form := range []string{"Boss", "boss@wwowners", "boss.", "BOSS", "-boss", "boss_1"} {
		list = append(list, pose{what: fmt.Sprintf("has the id `%s`, which is almost the owner's", form), as: guise{as: form}})
		list = append(list, pose{what: fmt.Sprintf("of another company has the id `%s`, which is almost the owner's, and writes in a group", form), as: guise{as: form, group: true, more: object{"corp": "wwothers"}}})
	}
	return append(list,
		pose{what: "of another company has the owner's id, in a group", as: guise{as: "boss", group: true, more: object{"corp": "wwothers"}}},
		pose{what: "of another company has the owner's id and approves their own pairing code", as: guise{as: "boss", more: object{"corp": "wwothers"}}, pairs: true},
	)
}

func stageWeCom(a *trial) *stage {
	fake := wecomtest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "wecom", owners: []string{"boss"}, section: object{"botId": wecomtest.BotID, "secret": wecomtest.Secret, "wsUrl": fake.Socket()},
		hello: func(text string) { fake.Say(wecomtest.Message{From: "boss", Text: text}) },
		pose: func(text string, as guise) {
			m := wecomtest.Message{From: as.as, Text: text}
			m.Corp, _ = as.more["corp"].(string)
			if as.group {
				m.Chat = wecomtest.Group
			}
			fake.Say(m)
		},
		told: func() string {
			return joined(fake.Shown(), func(m wecomtest.Shown) string { return m.Text })
		},
	}
}

func stageWeixin(a *trial) *stage {
	fake := weixintest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "weixin", owners: []string{weixintest.Owner},
		section: object{"baseUrl": fake.URL(), "cdnBaseUrl": fake.CDN(), "token": weixintest.Token, "pollTimeout": 1},
		hello:   func(text string) { fake.Say(weixintest.Owner, text) },
		pose: func(text string, as guise) {
			eve := "o9cq-eve@im.wechat"
			if as.as != "" {
				eve = as.as
			}
			m := object{"from_user_id": eve, "session_id": as.worn, "nickname": as.worn, "user_id": as.worn, "item_list": []any{weixintest.Text(text)}}
			if as.group {
				m["group_id"] = "123@chatroom"
			}
			maps.Copy(m, as.more)
			fake.Post(m)
		},
		told: func() string {
			return joined(fake.Messages(), func(m weixintest.Message) string { return m.Text })
		},
	}
}

func stageNapCat(a *trial) *stage {
	fake := napcattest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "napcat", owners: []string{"10101"}, section: object{"wsUrl": fake.Socket(), "accessToken": napcattest.Token},
		hello: func(text string) { fake.Say(napcattest.Message{From: 10101, CQ: text}) },
		pose: func(text string, as guise) {
			m := napcattest.Message{From: 20666, CQ: text, Name: as.worn, More: as.more}
			if as.group {
				m.Group = 700
			}
			fake.Say(m)
		},
		told: func() string {
			return joined(fake.Sent(), func(m napcattest.Message) string { return m.Words() })
		},
	}
}

func stageMochat(a *trial) *stage {
	fake := mochattest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "mochat", owners: []string{mochattest.Ann},
		section: object{
			"baseUrl": fake.URL(), "clawToken": mochattest.Token, "agentUserId": mochattest.Self, "sessions": []string{"*"}, "panels": []string{"*"},
			"replyDelayMode": "off", "refreshIntervalMs": 1000, "retryDelayMs": 100, "socketReconnectDelayMs": 100,
		},
		hello: func(text string) {
			fake.AddSession(mochattest.SessionOf(mochattest.Ann), mochattest.Ann)
			fake.Say(mochattest.SessionOf(mochattest.Ann), mochattest.Message{From: mochattest.Ann, Text: text})
		},
		pose: func(text string, as guise) {
			m := mochattest.Message{From: "bob", Name: as.worn, Text: text, Meta: as.more}
			if as.group {
				m.Text = "<@" + mochattest.Self + "> " + text
				fake.Post(mochattest.Panel, m)
				return
			}
			fake.AddSession(mochattest.SessionOf("bob"), "bob")
			fake.Say(mochattest.SessionOf("bob"), m)
		},
		told: func() string {
			return joined(fake.Sent(), func(m mochattest.Sent) string { return m.Text })
		},
	}
}

func stageQQ(a *trial) *stage {
	fake := qqtest.New()
	a.t.Cleanup(fake.Close)
	return &stage{
		name: "qq", owners: []string{"ABCDEF01"}, section: object{"appId": qqtest.AppID, "secret": qqtest.Secret, "apiBaseUrl": fake.URL(), "tokenBaseUrl": fake.URL()},
		hello: func(text string) { fake.Write(qqtest.Direct, "ABCDEF01", "ABCDEF01", text, nil) },
		pose: func(text string, as guise) {
			kind, chat := qqtest.Direct, "66EVE"
			m := object{}
			if as.worn != "" { // names are those of servers
				kind, chat = qqtest.GuildDirect, "500"
				m["author"] = object{"id": "66EVE", "username": as.worn, "bot": false}
				m["member"] = object{"nick": as.worn, "joined_at": ""}
			}
			if as.group {
				kind, chat = qqtest.Guild, "600"
			}
			maps.Copy(m, as.more)
			fake.Write(kind, "66EVE", chat, text, m)
		},
		told: func() string {
			return joined(fake.Messages(), func(m qqtest.Message) string { return m.Text() })
		},
	}
}
