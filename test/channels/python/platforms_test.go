package python

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nanobot-go/nanobot/internal/chat/platform/dingtalk/dingtalktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/discord/discordtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/feishu/feishutest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/napcat/napcattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/qq/qqtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/signal/signaltest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/teams/teamstest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/wecom/wecomtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/whatsapp/whatsapptest"
)

func dingtalk(t *testing.T) platform {
	t.Helper()
	fake := dingtalktest.New()
	t.Cleanup(fake.Close)
	return platform{
		config:   object{"clientId": dingtalktest.ClientID, "clientSecret": dingtalktest.ClientSecret, "allowFrom": []string{"*"}},
		redirect: map[string]string{"https://api.dingtalk.com": fake.URL(), "https://oapi.dingtalk.com": fake.URL()},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			fake.Write("ann", "", "", object{"msgtype": "file", "content": object{"downloadCode": fake.Store([]byte("in")), "fileName": "in.txt"}})
			fake.Write("ann", "", "hi", nil)
			return true
		},
		want: []object{
			received("ann", "ann", "[File]\n\nReceived files:\n- /.nanobot/media/dingtalk/ann/in.txt"),
			received("ann", "ann", "hi"),
		},
		wantSeen: []string{"ann api sampleMarkdown hello **Ann**", "ann api sampleFile  out.txt", "ann api sampleImageMsg  out.png"},
		seen: func() (out []string) {
			for _, m := range fake.Messages() {
				out = append(out, line(m.Chat, m.Way, m.Key, m.Text(), m.File))
			}
			return out
		},
	}
}

func discord(t *testing.T) platform {
	t.Helper()
	fake := discordtest.New()
	t.Cleanup(fake.Close)
	return platform{
		config:   object{"token": discordtest.Token, "allowFrom": []string{"*"}},
		redirect: map[string]string{"https://discord.com": fake.Root(), "wss://gateway.discord.gg": fake.Root() + "/gateway"},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			file := fake.Store("in.txt", []byte("in"))
			file["id"] = "7" // in the name of the file that the channel keeps
			fake.Write("42", fake.DM("42"), "hi", object{"attachments": []object{file}})
			return true
		},
		want:     []object{received("42", "842", "hi\n[attachment: 7_in.txt]", "in")},
		wantSeen: []string{"842 out.txt", "842 out.png", "842 hello **Ann**"},
		seen: func() (out []string) {
			for _, m := range fake.Messages("") {
				for _, f := range m.Files {
					out = append(out, line(m.Channel, f.Name))
				}
				if m.Text() != "" {
					out = append(out, line(m.Channel, m.Text()))
				}
			}
			return out
		},
	}
}

func feishu(t *testing.T) platform {
	t.Helper()
	fake := feishutest.New()
	t.Cleanup(fake.Close)
	return platform{
		config:   object{"appId": feishutest.AppID, "appSecret": feishutest.AppSecret, "allowFrom": []string{"*"}},
		redirect: map[string]string{"https://open.feishu.cn": fake.URL()},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			fake.Say(feishutest.Message{ID: "om_file", Type: "file", Content: `{"file_key":"` + fake.Store("in.txt", []byte("in")) + `","file_name":"in.txt"}`})
			fake.Say(feishutest.Message{Content: feishutest.Text("hi")})
			return true
		},
		want: []object{
			received(feishutest.AnnID, feishutest.AnnID, "[file: in.txt]", "in"),
			received(feishutest.AnnID, feishutest.AnnID, "hi"),
		},
		// It asks for the bot's own id with a module that the library does not have.
		complaints: []string{`ModuleNotFoundError("No module named 'lark_oapi.api.bot'")`},
		wantSeen:   []string{"oc_p2p_ou_ann file  out.txt", "oc_p2p_ou_ann image", "oc_p2p_ou_ann interactive hello **Ann**"},
		seen: func() (out []string) {
			for _, m := range fake.Messages("") {
				out = append(out, line(m.Chat, m.Type, m.Plain, m.File))
			}
			for _, w := range fake.Wrong() {
				out = append(out, "wrong: "+w)
			}
			return out
		},
	}
}

func matrix(t *testing.T) platform {
	t.Helper()
	fake := matrixtest.New()
	t.Cleanup(fake.Close)
	const ann, room = "@ann:" + matrixtest.Server, "!room:" + matrixtest.Server
	fake.Account(ann, "x")
	fake.Room(room, nil, ann, matrixtest.Bot)
	return platform{
		config: object{"homeserver": fake.URL(), "userId": matrixtest.Bot, "password": matrixtest.Password, "allowFrom": []string{"*"}},
		say: func(string) bool {
			if len(fake.Calls("/sync")) == 0 {
				return false
			}
			fake.Say(matrixtest.Event{Room: room, Sender: ann}, matrixtest.Text("hi"))
			return true
		},
		want:     []object{received(ann, room, "hi")},
		wantSeen: []string{"!room:fake.example m.file out.txt", "!room:fake.example m.image out.png", "!room:fake.example m.text hello **Ann** <p>hello <strong>Ann</strong></p>"},
		seen: func() (out []string) {
			for _, m := range fake.Messages(matrixtest.Bot) {
				out = append(out, line(m.Room, m.Kind, m.Body, m.HTML))
			}
			return out
		},
	}
}

func qq(t *testing.T) platform {
	t.Helper()
	fake := qqtest.New()
	t.Cleanup(fake.Close)
	return platform{
		config:   object{"appId": qqtest.AppID, "secret": qqtest.Secret, "allowFrom": []string{"*"}},
		redirect: map[string]string{"https://bots.qq.com": fake.URL(), "https://api.sgroup.qq.com": fake.URL()},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			fake.Write(qqtest.Direct, "ann", "ann", "hi", object{"attachments": []object{fake.Store("in.txt", []byte("in"))}})
			return true
		},
		want:     []object{received("ann", "ann", "hi\n\nReceived files:\n- in.txt\n  saved: /.nanobot/media/qq/in.txt", "in")},
		wantSeen: []string{"users ann ⏳ Processing...", "users ann  out.txt", "users ann  out.png", "users ann hello **Ann**"},
		seen: func() (out []string) {
			for _, m := range fake.Messages() {
				out = append(out, line(m.Kind, m.Chat, m.Text(), m.File))
			}
			return append(out, fake.Broken()...)
		},
	}
}

func slack(t *testing.T) platform {
	t.Helper()
	fake := slacktest.New()
	t.Cleanup(fake.Close)
	return platform{
		config:   object{"botToken": slacktest.BotToken, "appToken": slacktest.AppToken, "allowFrom": []string{"*"}},
		redirect: map[string]string{"https://slack.com/api/": fake.URL(), "https://www.slack.com/api/": fake.URL()},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			fake.Say("U0ANN", "hi")
			return true
		},
		want:     []object{received("U0ANN", "D0ANN", "hi")},
		wantSeen: []string{"D0ANN hello *Ann*", "D0ANN out.txt 6", "D0ANN out.png 8"},
		seen: func() (out []string) {
			for _, m := range fake.Messages("") {
				if m.Plain != "" {
					out = append(out, line(m.Channel, m.Plain))
				}
				for _, f := range m.Files {
					out = append(out, line(m.Channel, f.Name, len(f.Data)))
				}
			}
			return out
		},
	}
}

func wecom(t *testing.T) platform {
	t.Helper()
	fake := wecomtest.New()
	t.Cleanup(fake.Close)
	return platform{
		config:   object{"botId": wecomtest.BotID, "secret": wecomtest.Secret, "allowFrom": []string{"*"}},
		redirect: map[string]string{"wss://openws.work.weixin.qq.com": fake.Socket()},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			fake.Say(wecomtest.Message{From: wecomtest.Ann, Body: object{"msgtype": "file", "file": fake.Store("in.txt", []byte("in"))}})
			fake.Say(wecomtest.Message{From: wecomtest.Ann, Text: "hi"})
			return true
		},
		want: []object{
			received(wecomtest.Ann, wecomtest.Ann, "[file: unknown]\n[File: source: /.nanobot/media/wecom/unknown]"),
			received(wecomtest.Ann, wecomtest.Ann, "hi"),
		},
		// The channel does not send files, and reports its own end.
		complaints: []string{"WeCom WebSocket disconnected: manual_disconnect"},
		wantSeen:   []string{"ann stream hello **Ann**"},
		seen: func() (out []string) {
			for _, m := range fake.Shown() {
				out = append(out, line(m.Chat, m.Kind, m.Text))
			}
			return out
		},
	}
}

func whatsapp(t *testing.T) platform {
	t.Helper()
	fake := whatsapptest.New(t.TempDir())
	fake.Old = true // the bridge of Python nanobot
	t.Cleanup(fake.Close)
	const ann = "4915155555555@s.whatsapp.net"
	return platform{
		config: object{"bridgeUrl": fake.URL(), "bridgeToken": whatsapptest.Token, "allowFrom": []string{"*"}},
		say: func(folder string) bool {
			if !fake.Connected() {
				return false
			}
			file := filepath.Join(folder, "in.txt")
			if err := os.WriteFile(file, []byte("in"), 0o600); err != nil {
				panic(err)
			}
			fake.Post(whatsapptest.Frame{"id": "A", "sender": ann, "pn": "", "content": "hi", "timestamp": 1, "media": []string{file}, "isGroup": false})
			return true
		},
		want:     []object{received("4915155555555", ann, "hi\n[file: /in.txt]", "in")},
		wantSeen: []string{ann + "  hello **Ann**", ann + "   out.txt text/plain", ann + "   out.png image/png"},
		seen: func() (out []string) {
			for _, m := range fake.Messages() {
				out = append(out, line(m.To, m.Kind, m.Text, m.FileName, m.MIME))
			}
			return out
		},
	}
}

func mattermost(t *testing.T) platform {
	t.Helper()
	fake := mattermosttest.New()
	t.Cleanup(fake.Close)
	ann := mattermosttest.AnnID()
	return platform{
		head:   true,
		config: object{"serverUrl": fake.URL(), "token": mattermosttest.Token, "allowFrom": []string{"*"}},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			dm := fake.Direct(ann)
			fake.Say(mattermosttest.Post{UserID: ann, ChannelID: dm, Message: "hi", FileIDs: []string{fake.Store(ann, dm, "in.txt", []byte("in"))}})
			return true
		},
		want:     []object{received(ann, fake.Direct(ann), "hi", "in")},
		wantSeen: []string{"hello **Ann** [out.txt out.png]"},
		seen: func() (out []string) {
			for _, p := range fake.Posts("") {
				out = append(out, line(p.Message, fake.Files(p)))
			}
			return out
		},
	}
}

func teams(t *testing.T) platform {
	t.Helper()
	fake := teamstest.NewTLS()
	t.Cleanup(fake.Close)
	return platform{
		head: true,
		config: object{
			"appId": teamstest.AppID, "appPassword": teamstest.Password, "tenantId": teamstest.Tenant, "host": "127.0.0.1", "port": 0,
			"allowFrom": []string{"*"}, "trustedServiceUrlHosts": []string{"127.0.0.1"},
		},
		cert:     fake.Certificate(),
		redirect: map[string]string{"https://login.microsoftonline.com": fake.URL(), "https://login.botframework.com/v1/.well-known/openidconfiguration": fake.OpenIDURL()},
		say: func(folder string) bool {
			address, err := os.ReadFile(filepath.Join(folder, "address"))
			if err != nil || len(address) == 0 {
				return false
			}
			fake.Endpoint(string(address) + "/api/messages")
			status, _ := fake.Post(fake.Activity("a1", "ann", "chat-ann", "hi", nil))
			return status == 200
		},
		want: []object{received("ann", "chat-ann", "hi")},
		// The channel does not send files.
		wantSeen: []string{"chat-ann hello **Ann**"},
		seen: func() (out []string) {
			for _, m := range fake.Messages("") {
				out = append(out, line(m.Chat, m.Text))
			}
			return out
		},
	}
}

func napcat(t *testing.T) platform {
	t.Helper()
	fake := napcattest.New()
	t.Cleanup(fake.Close)
	return platform{
		head:   true,
		config: object{"wsUrl": fake.Socket(), "accessToken": napcattest.Token, "allowFrom": []string{"*"}},
		say: func(string) bool {
			if fake.Connected() == 0 {
				return false
			}
			fake.Say(napcattest.Message{From: napcattest.Ann, Segments: []napcattest.Segment{napcattest.Text("hi"), {Type: "image", Data: object{"url": fake.Store([]byte("in")), "file": "in.png"}}}})
			return true
		},
		want: []object{received("20001", "private:20001", "hi", "in")},
		// The channel sends every file as a picture, which has no name.
		wantSeen: []string{"20001 hello **Ann** [ ]"},
		seen: func() (out []string) {
			for _, m := range fake.Sent() {
				out = append(out, line(m.To, m.Words(), m.Files))
			}
			return out
		},
	}
}

func signal(t *testing.T) platform {
	t.Helper()
	fake := signaltest.New()
	t.Cleanup(fake.Close)
	const ann = "+4915155555555"
	return platform{
		head: true,
		config: object{
			"phoneNumber": signaltest.Number, "daemonHost": fake.Host(), "daemonPort": fake.Port(),
			"dm": object{"enabled": true, "policy": "open", "allowFrom": []string{"*"}},
		},
		say: func(string) bool {
			if !fake.Listening() {
				return false
			}
			fake.Post(object{"source": ann, "sourceNumber": ann, "sourceName": "Ann", "timestamp": 1, "dataMessage": object{"timestamp": 1, "message": "hi"}})
			return true
		},
		want:     []object{received(ann, ann, "hi")},
		wantSeen: []string{ann + " hello Ann [6:3:BOLD] [out.txt out.png]"},
		seen: func() (out []string) {
			for _, m := range fake.Messages() {
				var names []string
				for _, f := range m.Files {
					names = append(names, f.Name)
				}
				out = append(out, line(m.Chat, m.Text, m.Styles, names))
			}
			return out
		},
	}
}
