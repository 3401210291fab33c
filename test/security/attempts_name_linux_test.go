package security_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat/napcattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/weixin/weixintest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp/whatsapptest"
)

// poser is a platform with a stranger who took what belongs to the owner.
type poser struct {
	name    string // of the section
	section object
	pose    func(text string)
}

// nameAttempts are by people who put the owner's id, or a name that is listed,
// into whatever they can choose on a platform.
func nameAttempts() []attempt {
	var list []attempt
	for _, p := range []struct {
		route string
		make  func(a *trial) poser
	}{
		{"Discord: a stranger's shown name and user name are the owner's id", poseDiscord},
		{"Mattermost: a stranger's user name is the owner's id, and lists hold user names", func(a *trial) poser { return poseMattermost(a, "username", mattermosttest.ID("owner1")) }},
		{"Mattermost: a stranger's address is the owner's id, and lists hold addresses", func(a *trial) poser { return poseMattermost(a, "email", mattermosttest.ID("owner1")) }},
		{"Mattermost: a stranger's address looks like a listed one, by a letter that is not of ASCII", func(a *trial) poser { return poseMattermost(a, "email", "\u212Aim@example.org", "kim@example.org") }},
		{"Slack: a stranger's handle, real name and shown name are the owner's id", poseSlack},
		{"Teams: a stranger's name and principal name are the owner's object id", poseTeams},
		{"Matrix: a stranger has the owner's name on another server", poseMatrix},
		{"Signal: the name of a stranger's profile is the owner's number", poseSignal},
		{"WhatsApp: a stranger's hidden id has the digits of the owner's number", poseWhatsApp},
		{"Telegram: a stranger's user name is the whole of an entry of Python nanobot, id and name", func(a *trial) poser { return poseTelegram(a, "42|ada", object{"username": "42|ada"}) }},
		{"Telegram: a stranger has the name of an entry of Python nanobot, id and name", func(a *trial) poser { return poseTelegram(a, "42|ada", object{"username": "ada"}) }},
		{"Telegram: the shown name of a stranger is a listed user name", func(a *trial) poser {
			return poseTelegram(a, "@ada", object{"username": "eve", "first_name": "ada", "last_name": "ada"})
		}},
		{"Feishu: a stranger's user id is the owner's open id", func(a *trial) poser { return poseFeishu(a, "ou_owner", "") }},
		{"Feishu: a stranger of another organisation has the owner's user id", func(a *trial) poser { return poseFeishu(a, "boss", "t2") }},
		{"DingTalk: a stranger of another organisation has the owner's staff id", poseDingTalk},
		{"WeCom: a stranger of another company has the owner's user id", poseWeCom},
		{"Weixin: a stranger's session, nickname and group are the owner's id", poseWeixin},
		{"NapCat: a stranger's nickname and card are the owner's number", poseNapCat},
		{"Mochat: a stranger's name is the owner's id", poseMochat},
	} {
		list = append(list, attempt{
			route: p.route, expect: keptOff, kept: true,
			config: func(a *trial) {
				a.apps = nil
				made := p.make(a)
				a.enrollPoser(made)
				a.posed = made.pose
			},
			run: func(a *trial) {
				g := a.starts()
				a.posed(words)
				g.until("a request to be let in", func() bool { return a.asksToPair() })
			},
		})
	}
	list = append(list, guestsByName()...)
	list = append(list, guiseAttempts()...)
	return append(list, claimAttempts()...)
}

func (a *trial) enrollPoser(p poser) {
	owners, _ := p.section["owners"].([]string)
	a.enroll(p.name, &platform{owners: owners, section: p.section})
}

// asksToPair reports whether somebody waits to be let in.
func (a *trial) asksToPair() bool {
	data, err := os.ReadFile(filepath.Join(a.data, "pairing.json"))
	return err == nil && strings.Contains(string(data), `"sender_id"`)
}

// guestsByName are by somebody whose name is listed: they are a guest, and do not
// let others in.
func guestsByName() []attempt {
	var list []attempt
	for _, c := range []struct {
		route string
		lists object
	}{
		{"Telegram: who has a user name of `allowFrom` lets a stranger in", object{"allowFrom": []string{"@ann"}, "owners": []string{}}},
		{"Telegram: who has a user name of `allowFrom`, as older versions wrote it, lets a stranger in", object{"allowFrom": []string{"ann"}, "owners": []string{}}},
		{"Telegram: who has a user name of `owners` lets a stranger in", object{"allowFrom": []string{"42"}, "owners": []string{"@ann"}}},
		{"Telegram: who has the owner's number as a user name lets a stranger in, where all may write", object{"allowFrom": []string{"*"}, "owners": []string{"42"}}},
	} {
		list = append(list, attempt{
			route: c.route, expect: "refused: a name is no owner", either: true,
			config: func(a *trial) {
				a.chats()
				maps.Copy(a.telegram(), c.lists)
			},
			run: func(a *trial) {
				a.gate.start()
				from := object{"id": bert, "first_name": "Eve", "username": "ann"}
				if c.lists["allowFrom"].([]string)[0] == "*" {
					from["username"] = "42"
				}
				say := func(text string) {
					a.gate.tg.Post(object{"text": text, "from": from, "chat": object{"id": bert, "type": "private", "first_name": "Eve"}})
				}
				say("/pairing list")
				a.gate.until("an answer", func() bool { return a.gate.heard(bert) != "" })
				say("/pairing approve AAAA-BBBB")
				a.gate.until("another answer", func() bool { return strings.Count(a.gate.heard(bert), "\n") > 0 })
				if heard := a.gate.heard(bert); strings.Contains(heard, "No people are paired") || strings.Contains(heard, "no open request") {
					a.broke("the list of people was opened by a name: %q", heard)
				}
			},
		})
	}
	return list
}

func poseDiscord(a *trial) poser {
	fake := discordtest.New()
	a.t.Cleanup(fake.Close)
	return poser{"discord", object{"token": discordtest.Token, "apiBase": fake.URL(), "allowFrom": []string{"101"}, "owners": []string{"101"}}, func(text string) {
		fake.Write("66", fake.DM("66"), text, object{"author": object{"id": "66", "username": "101", "global_name": "101", "discriminator": "0"}})
	}}
}

func poseMattermost(a *trial, mode, taken string, listed ...string) poser {
	fake := mattermosttest.New()
	a.t.Cleanup(fake.Close)
	if listed == nil {
		listed = []string{taken}
	}
	eve := mattermosttest.ID("eve")
	fake.AddUser(mattermosttest.User{ID: eve, Username: taken, Nickname: taken, FirstName: taken, Email: taken})
	return poser{"mattermost", object{
		"token": mattermosttest.Token, "serverUrl": fake.URL(), "allowFromMatchMode": mode, "allowFrom": listed, "owners": listed,
	}, func(text string) {
		fake.Say(mattermosttest.Post{UserID: eve, ChannelID: fake.Direct(eve), Message: text})
	}}
}

func poseSlack(a *trial) poser {
	fake := slacktest.New()
	a.t.Cleanup(fake.Close)
	const owner = "U0OWN1"
	fake.Join([]slacktest.Person{{ID: "U0EVE", Handle: owner, Name: owner}})
	return poser{"slack", object{"botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "apiBase": fake.URL(), "allowFrom": []string{owner}, "owners": []string{owner}}, func(text string) {
		fake.Post(object{
			"user": "U0EVE", "channel": fake.DM("U0EVE"), "text": text, "username": owner,
			"user_profile": object{"name": owner, "display_name": owner, "real_name": owner},
		})
	}}
}

func poseTeams(a *trial) poser {
	p := teams(a)
	fake := teamstest.New()
	a.t.Cleanup(fake.Close)
	section := p.section
	maps.Copy(section, object{
		"loginBase": fake.URL(), "openIdUrl": fake.OpenIDURL(), "serviceUrl": fake.ServiceURL(),
		"allowFrom": []string{"owner1"}, "owners": []string{"owner1"},
	})
	return poser{"msteams", section, func(text string) {
		fake.Endpoint(a.gate.base + "/api/messages")
		fake.Post(fake.Activity("1700000000001", "eve", "a:eve", text, teamstest.Object{
			"from": teamstest.Object{"id": "29:eve", "name": "owner1", "aadObjectId": "eve", "userPrincipalName": "owner1"},
		}))
	}}
}

func poseMatrix(a *trial) poser {
	fake := matrixtest.New()
	a.t.Cleanup(fake.Close)
	owner, eve := "@owner1:"+matrixtest.Server, "@owner1:elsewhere.example"
	fake.Account(owner, "x")
	fake.Room("!eve:"+matrixtest.Server, nil, eve, matrixtest.Bot)
	return poser{"matrix", object{
		"homeserver": fake.URL(), "userId": matrixtest.Bot, "password": matrixtest.Password, "e2eeEnabled": false, "allowFrom": []string{owner}, "owners": []string{owner},
	}, func(text string) {
		fake.Say(matrixtest.Event{Room: "!eve:" + matrixtest.Server, Sender: eve, At: time.Now().UnixMilli()}, matrixtest.Text(text))
	}}
}

func poseSignal(a *trial) poser {
	fake := signaltest.New("Z3JvdXBncm91cGdyb3VwZ3JvdXBncm91cGdyb3VwMDE=")
	a.t.Cleanup(fake.Close)
	const owner, eve = "+4915100000101", "+4917600000066"
	return poser{"signal", object{"phoneNumber": signaltest.Number, "daemonHost": fake.Host(), "daemonPort": fake.Port(), "allowFrom": []string{owner}, "owners": []string{owner}}, func(text string) {
		at := time.Now().UnixMilli()
		fake.Post(object{"source": eve, "sourceNumber": eve, "sourceName": owner, "sourceDevice": 1, "timestamp": at, "dataMessage": object{"message": text, "timestamp": at, "profileName": owner}})
	}}
}

func poseWhatsApp(a *trial) poser {
	fake := whatsapptest.New(a.t.TempDir())
	a.t.Cleanup(fake.Close)
	const owner = "4915100000101"
	return poser{"whatsapp", object{"bridgeUrl": fake.URL(), "bridgeToken": whatsapptest.Token, "allowFrom": []string{owner}, "owners": []string{owner}}, func(text string) {
		fake.Post(object{"type": "message", "id": "M1", "sender": owner + "@lid", "participant": owner + "@lid", "content": text, "timestamp": time.Now().Unix(), "name": owner})
	}}
}

func poseTelegram(a *trial, listed string, from object) poser {
	fake := telegramtest.New()
	a.t.Cleanup(fake.Close)
	from["id"] = stranger
	return poser{"telegram", object{"token": telegramtest.Token, "apiBase": fake.URL(), "reactEmoji": "", "allowFrom": []string{listed}, "owners": []string{listed}}, func(text string) {
		fake.Post(object{"text": text, "from": from, "chat": object{"id": stranger, "type": "private", "first_name": "Eve"}, "date": time.Now().Unix()})
	}}
}

func poseFeishu(a *trial, owner, tenant string) poser {
	fake := feishutest.New()
	a.t.Cleanup(fake.Close)
	return poser{"feishu", object{"appId": feishutest.AppID, "appSecret": feishutest.AppSecret, "apiBaseUrl": fake.URL(), "allowFrom": []string{owner}, "owners": []string{owner}}, func(text string) {
		fake.Say(feishutest.Message{Sender: "ou_eve", UserID: owner, Tenant: tenant, Chat: "oc_p2p_ou_eve", Content: feishutest.Text(text)})
	}}
}

func poseDingTalk(a *trial) poser {
	fake := dingtalktest.New()
	a.t.Cleanup(fake.Close)
	return poser{"dingtalk", object{
		"clientId": dingtalktest.ClientID, "clientSecret": dingtalktest.ClientSecret, "apiBaseUrl": fake.URL(), "oapiBaseUrl": fake.URL(), "allowFrom": []string{"boss"}, "owners": []string{"boss"},
	}, func(text string) {
		fake.Write("eve", "", text, dingtalktest.Object{"senderStaffId": "boss", "senderNick": "boss", "senderCorpId": "another corp"})
	}}
}

func poseWeCom(a *trial) poser {
	fake := wecomtest.New()
	a.t.Cleanup(fake.Close)
	return poser{"wecom", object{"botId": wecomtest.BotID, "secret": wecomtest.Secret, "wsUrl": fake.Socket(), "allowFrom": []string{"boss"}, "owners": []string{"boss"}}, func(text string) {
		fake.Say(wecomtest.Message{From: "boss", Corp: "another corp", Text: text})
	}}
}

func poseWeixin(a *trial) poser {
	fake := weixintest.New()
	a.t.Cleanup(fake.Close)
	const eve = "o9cq-eve@im.wechat"
	return poser{"weixin", object{
		"baseUrl": fake.URL(), "cdnBaseUrl": fake.CDN(), "token": weixintest.Token, "pollTimeout": 1, "allowFrom": []string{weixintest.Owner}, "owners": []string{weixintest.Owner},
	}, func(text string) {
		fake.Post(map[string]any{"from_user_id": eve, "session_id": weixintest.Owner, "nickname": weixintest.Owner, "user_id": weixintest.Owner, "item_list": []any{weixintest.Text(text)}})
	}}
}

func poseNapCat(a *trial) poser {
	fake := napcattest.New()
	a.t.Cleanup(fake.Close)
	const owner = "10101"
	return poser{"napcat", object{"wsUrl": fake.Socket(), "accessToken": napcattest.Token, "allowFrom": []string{owner}, "owners": []string{owner}}, func(text string) {
		fake.Say(napcattest.Message{From: 20666, CQ: text, Name: owner})
	}}
}

func poseMochat(a *trial) poser {
	fake := mochattest.New()
	a.t.Cleanup(fake.Close)
	return poser{"mochat", object{
		"baseUrl": fake.URL(), "clawToken": mochattest.Token, "agentUserId": mochattest.Self, "sessions": []string{"*"}, "panels": []string{"*"},
		"replyDelayMode": "off", "refreshIntervalMs": 1000, "retryDelayMs": 100, "socketReconnectDelayMs": 100, "allowFrom": []string{mochattest.Ann}, "owners": []string{mochattest.Ann},
	}, func(text string) {
		fake.AddSession(mochattest.SessionOf("bob"), "bob")
		fake.Say(mochattest.SessionOf("bob"), mochattest.Message{From: "bob", Name: mochattest.Ann, Text: text})
	}}
}
