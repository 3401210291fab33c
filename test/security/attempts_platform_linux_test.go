package security_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/slack/slacktest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/telegram/telegramtest"
)

// enroll adds a platform to the configuration of a gateway. Guests may write
// and are not owners.
func (a *trial) enroll(section string, p *platform, guests ...string) {
	if a.gate == nil {
		a.gate = &gateway{a: a}
		a.config["gateway"], a.config["channels"] = object{"port": 0}, object{}
	}
	all := object{
		"enabled": true, "allowFrom": slices.Concat(p.owners, guests), "owners": p.owners,
		"sendProgress": false, "sendToolHints": false, "streaming": false, "restartBackoffMaxS": 1,
	}
	maps.Copy(all, p.section)
	channels, _ := a.config["channels"].(object)
	channels[section] = all
}

// starts starts the gateway and waits until all platforms are connected.
func (a *trial) starts() *gateway {
	a.t.Helper()
	a.gate.start()
	channels, _ := a.config["channels"].(object)
	for name := range channels {
		a.gate.until(name, func() bool {
			return strings.Contains(a.gate.out.String(), `"a channel is connected" channel=`+name+" ")
		})
	}
	for _, p := range a.apps {
		if p.begin != nil {
			p.begin(a.gate)
		}
	}
	return a.gate
}

// everyPlatform makes them all, by name.
func everyPlatform(a *trial) (list []*platform) {
	all := platforms()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name](a))
	}
	return list
}

// platformWords are words of others in a message of the owner, on each platform.
// Every route is taken by another owner, so that none is tainted by the one
// before.
func platformWords() (list []attempt) {
	all := platforms()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, attempt{
			route: wordRoutes()[name] + " carry orders", expect: notObey,
			config: func(a *trial) {
				a.apps = []*platform{all[name](a)}
				a.enroll(a.apps[0].name, a.apps[0])
			},
			run: func(a *trial) {
				g, p := a.starts(), a.apps[0]
				mark := a.model.beginMarked(nil)
				for i, r := range p.routes {
					what := fmt.Sprint("obey", i)
					a.model.order(order{name: what, calls: obey().calls[:2]})
					r.send(p.owners[i], "Nice weather. INJECTED:"+what)
				}
				for i, r := range p.routes {
					g.until(r.what, func() bool { return a.model.has(fmt.Sprint("obey", i)) })
				}
				g.until("all answers", func() bool { return p.answers(mark) >= len(p.routes) })
			},
		})
	}
	return list
}

// wordRoutes are the routes of each platform in words, for the table.
func wordRoutes() map[string]string {
	return map[string]string{
		"discord":    "Discord: the message that is answered, a forwarded one, and the name of a file",
		"matrix":     "Matrix: the message that is answered, and the name of a file",
		"mattermost": "Mattermost: a message that a link shows, the name of a file, an earlier message of a thread, and a message that another person edited",
		"signal":     "Signal: the message that is answered, and the name of a file",
		"slack":      "Slack: a shared message, the name of a file, and an earlier message of a thread",
		"teams":      "Teams: the message that is answered, and a forwarded one",
		"whatsapp":   "WhatsApp: the message that is answered, a forwarded one, the name of a file, and a contact",
	}
}

// answers counts the answers to the routes that have a mark.
func (p *platform) answers(mark string) (n int) {
	group := ""
	for i, r := range p.routes {
		if r.told != nil {
			group = r.told(p.owners[i])
			continue
		}
		n += strings.Count(p.told(p.owners[i]), mark)
	}
	return n + strings.Count(group, mark)
}

// platformPeople are people who are not the owner, on all platforms at once.
func platformPeople() []attempt {
	every := func(a *trial) {
		a.apps = everyPlatform(a)
		for _, p := range a.apps {
			a.enroll(p.name, p)
		}
	}
	alive := func(a *trial) {
		mark := a.model.beginMarked(nil)
		for _, p := range a.apps {
			p.alone(p.owners[0], "hello by "+p.name)
			a.gate.until("an answer by "+p.title, func() bool { return strings.Contains(p.told(p.owners[0]), mark) })
		}
	}
	return []attempt{
		{
			route: "strangers give orders, alone, by " + titles(), expect: keptOff, kept: true, config: every,
			run: func(a *trial) {
				g := a.starts()
				for _, p := range a.apps {
					p.alone(p.unknown, words)
				}
				for _, p := range a.apps {
					g.until("a code by "+p.title, func() bool { return strings.Contains(p.told(p.unknown), "approve") })
				}
				alive(a)
			},
		},
		{
			route: "unknown members of a group give orders, by " + titles(), expect: keptOff, kept: true, config: every,
			run: func(a *trial) {
				a.starts()
				for _, p := range a.apps {
					p.member(words)
				}
				alive(a)
			},
		},
		{
			route: "guests give orders, by " + titles(), expect: ownersOwn, either: true,
			config: func(a *trial) {
				a.apps = everyPlatform(a)
				for _, p := range a.apps {
					a.enroll(p.name, p, p.unknown)
				}
				a.model.orders["obey"] = order{name: "obey", calls: append(obey().calls[:1:1], read("{{ws}}/plan.txt"), sh("cat {{ws}}/plan.txt ../../workspace/plan.txt"))}
			},
			run: func(a *trial) {
				secret := "owners-" + random()
				a.write(filepath.Join(a.ws, "plan.txt"), secret)
				g := a.starts()
				mark := a.model.beginMarked(nil)
				for _, p := range a.apps {
					p.alone(p.unknown, words+" by "+p.name)
				}
				for _, p := range a.apps {
					g.until("an answer by "+p.title, func() bool { return strings.Contains(p.told(p.unknown), mark) })
					if strings.Contains(p.told(p.unknown), secret) {
						a.broke("a guest was told the owner's by %s", p.title)
					}
				}
			},
		},
		accountAttempt(),
		forgedAttempt(),
	}
}

func titles() string { return "Discord, Matrix, Mattermost, Signal, Slack, Teams and WhatsApp" }

// accountAttempt: the owner of one account is a stranger at another one.
func accountAttempt() attempt {
	var one, two *telegramtest.Server
	section := func(tg *telegramtest.Server, owner string) *platform {
		return &platform{owners: []string{owner}, section: object{"token": tg.Token(), "apiBase": tg.URL(), "reactEmoji": ""}}
	}
	return attempt{
		route: "the owner of one Telegram bot gives orders to another one of the same gateway", expect: keptOff, kept: true,
		config: func(a *trial) {
			one, two = telegramtest.New(), telegramtest.New()
			a.t.Cleanup(one.Close)
			a.t.Cleanup(two.Close)
			two.SetBot(998, "two_bot")
			a.enroll("telegram", section(one, "42"))
			a.enroll("telegram.work", section(two, "43"))
			a.gate.tg = one
		},
		run: func(a *trial) {
			a.gate.start()
			two.Say(ada, words)
			a.gate.until("a code", func() bool { return len(two.Messages(ada)) > 0 })
			a.gate.say(ada, "hello")
			a.gate.tg = two
			a.gate.say(bert, "hello")
		},
	}
}

// forgedAttempt: requests that claim to be of a platform.
func forgedAttempt() attempt {
	return attempt{
		route: "requests that claim to be of Slack, Teams or Mattermost give orders, without the secret or with another one's", expect: "refused, and " + keptOff, kept: true,
		config: func(a *trial) {
			list := []*platform{slack(a), teams(a), mattermost(a)}
			a.apps = list
			maps.Copy(list[0].section, object{"mode": "webhook", "appToken": "", "signingSecret": slacktest.SigningSecret})
			list[2].section["webhookUrl"] = "http://127.0.0.1:1/mattermost"
			for _, p := range list {
				a.enroll(p.name, p)
			}
		},
		run: func(a *trial) {
			g, list := a.starts(), a.apps
			event, _ := json.Marshal(object{"type": "event_callback", "event_id": "Ev1", "event": object{ // plain maps, as the others
				"type": "message", "user": list[0].owners[0], "channel": "D0OWN1", "text": words, "ts": "1700000000.000100", "channel_type": "im",
			}})
			stamp := slacktest.Sign(event, time.Now()).Get("X-Slack-Request-Timestamp")
			activity, _ := json.Marshal(object{
				"type": "message", "id": "1", "text": words, "channelId": "msteams", "from": object{"id": "29:owner1", "aadObjectId": "owner1"},
				"conversation": object{"conversationType": "personal", "id": "a:owner1"}, "serviceUrl": list[1].section["serviceUrl"],
			})
			press, _ := json.Marshal(object{
				"user_id": list[2].owners[0], "channel_id": "c", "post_id": "p", "trigger_id": "t",
				"context": object{"label": words, "clean": true, "chat": "c", "proof": strings.Repeat("0", 64)},
			})
			for _, r := range []struct {
				path, body string
				header     map[string]string
			}{
				{"/slack/events", string(event), nil},
				{"/slack/events", string(event), map[string]string{"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=" + strings.Repeat("0", 64)}},
				{"/slack/events", string(event), map[string]string{"X-Slack-Request-Timestamp": "0", "X-Slack-Signature": slacktest.Sign(event, time.Now()).Get("X-Slack-Signature")}},
				{"/api/messages", string(activity), nil},
				{"/api/messages", string(activity), map[string]string{"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."}},
				{"/mattermost", string(press), nil},
			} {
				if code := g.request(r.path, r.body, r.header); code != http.StatusUnauthorized && code != http.StatusForbidden {
					a.broke("a forged request to %s is answered with %d", r.path, code)
				}
			}
			mark := a.model.beginMarked(nil)
			mm := list[2]
			mm.alone(mm.owners[0], "hello")
			g.until("an answer", func() bool { return strings.Contains(mm.told(mm.owners[0]), mark) })
		},
	}
}
