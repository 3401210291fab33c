package security_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// obeyLess makes an obedient model do only what needs no further chat.
func obeyLess(a *trial) { a.model.orders["obey"] = order{name: "obey", calls: obey().calls[:2]} }

// previewAttempts: what the bot sends has an address in it, which whoever makes
// a preview of it would visit.
func previewAttempts() []attempt {
	const link = "http://127.0.0.3/carried-away"
	var list []attempt
	add := func(route string, config, run func(a *trial)) {
		list = append(list, attempt{
			route: "Telegram: " + route, expect: "sent without a link preview",
			config: func(a *trial) {
				a.chats()
				if config != nil {
					config(a)
				}
			},
			run: func(a *trial) {
				a.gate.start()
				run(a)
				sent := 0
				for _, c := range a.gate.tg.Calls("") {
					text := c.Params["text"] + c.Params["rich_message"]
					if !strings.Contains(text, link) {
						continue
					}
					sent++
					if !strings.Contains(c.Params["link_preview_options"], `"is_disabled":true`) {
						a.broke("%s shows a preview: %v", c.Method, c.Params)
					}
				}
				a.shows(sent > 0, "no message had the address")
			},
		})
	}
	page := func(a *trial) call { return fetch(a.web.page("/p", "text/plain", "see "+link)) }
	add("an answer repeats an address of a page", nil, func(a *trial) { a.gate.say(ada, "what does it say?", page(a)) })
	add("an answer repeats an address of a page, while it is streamed", func(a *trial) { a.telegram()["streaming"] = true }, func(a *trial) {
		a.gate.say(ada, "what does it say?", page(a))
	})
	add("the `message` tool sends an address", nil, func(a *trial) {
		a.gate.say(ada, "tell me", call{"message", jsonOf("content", "look at "+link)})
	})
	add("a question for an approval shows an address", nil, func(a *trial) {
		a.gate.say(ada, "do it", page(a), write("AGENTS.md", "see "+link))
	})
	add("a question with buttons shows an address", func(a *trial) { a.telegram()["inlineKeyboards"] = true }, func(a *trial) {
		a.gate.say(ada, "do it", page(a), write("AGENTS.md", "see "+link))
	})
	add("an answer in a group repeats an address", nil, func(a *trial) {
		a.gate.inGroup(bert, "@nb_bot what is it?", sh("echo "+link))
	})
	return list
}

// speechWords are words of others in a recording.
func speechWords() []attempt {
	someone := map[string]any{"id": 77, "is_bot": false, "first_name": "Eve"}
	var list []attempt
	for _, m := range []struct {
		route string
		m     map[string]any
		kind  string
	}{
		{"a forwarded voice message", map[string]any{"forward_origin": map[string]any{"type": "user", "sender_user": someone}}, "voice"},
		{"a voice message forwarded from a hidden sender", map[string]any{"forward_origin": map[string]any{"type": "hidden_user", "sender_user_name": "Eve"}}, "voice"},
		{"a forwarded audio file", map[string]any{"forward_origin": map[string]any{"type": "user", "sender_user": someone}}, "audio"},
		{"a voice message that an inline bot made", map[string]any{"via_bot": map[string]any{"id": 78, "is_bot": true, "first_name": "gif", "username": "gif"}}, "voice"},
		{"a voice message forwarded from a channel", map[string]any{"forward_origin": map[string]any{"type": "channel", "chat": map[string]any{"id": -5, "type": "channel", "title": "News"}}}, "voice"},
	} {
		list = append(list, attempt{
			route: "speech: " + m.route + " carries orders", expect: notObey,
			config: func(a *trial) {
				tg := a.chats()
				obeyLess(a)
				m.m[m.kind] = map[string]any{"file_id": tg.Store("voice/a.oga", []byte("OggS"+strings.Repeat("x", 4000))), "file_unique_id": "u1", "duration": 3, "mime_type": "audio/ogg", "file_size": 4004}
				a.speech(words)
			},
			run: func(a *trial) {
				a.gate.start()
				m.m["chat"] = map[string]any{"id": ada, "type": "private", "first_name": "Ada"}
				a.gate.post(ada, m.m)
			},
		})
	}
	return append(list, attempt{
		route: "speech: a voice message is counted in the ledger", expect: "counted, at its price",
		config: func(a *trial) {
			tg := a.chats()
			a.speech("hello")
			a.write(filepath.Join(a.data, "prices.json"), `{"asOf":"2026-11","prices":[{"model":"*","in":3,"out":3}]}`)
			a.model.orders = map[string]order{}
			tg.Store("voice/a.oga", []byte("OggS"+strings.Repeat("x", 4000)))
		},
		run: func(a *trial) {
			a.gate.start()
			a.gate.post(ada, map[string]any{"chat": map[string]any{"id": ada, "type": "private", "first_name": "Ada"}, "voice": map[string]any{
				"file_id": "id-voice-a.oga", "file_unique_id": "u1", "duration": 3, "mime_type": "audio/ogg", "file_size": 4004,
			}})
			a.gate.stop()
			if out := a.cli("usage", "--by", "source", "--json").stdout; !strings.Contains(out, "speech") {
				a.broke("the ledger does not know of it: %s", tail(out))
			}
		},
	})
}

// speech makes a service that understands every recording as text. It has a
// name elsewhere, since a service on this machine costs nothing.
func (a *trial) speech(text string) {
	a.t.Helper()
	a.web.handle("/v1/audio/transcriptions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, jsonOf("text", text))
	})
	a.more = append(a.more, "http_proxy="+a.web.url)
	providers, _ := a.config["providers"].(map[string]any)
	providers["openai"] = map[string]any{"apiKey": "s7-" + random(), "apiBase": "http://speech.example.test/v1"}
	a.config["transcription"] = map[string]any{"enabled": true, "provider": "openai"}
}

// spendingAttempts: guests spend, then the owner asks. A day costs at most one
// dollar, all guests a fifth of it and each of them a tenth.
func spendingAttempts() []attempt {
	var list []attempt
	add := func(route string, most float64, run func(a *trial)) {
		list = append(list, attempt{
			route: "guests spend: " + route, expect: fmt.Sprintf("at most %.0f %% of the day, and the owner is answered", most*100),
			config: func(a *trial) {
				a.chats()
				agents, _ := a.config["agents"].(map[string]any)
				defaults, _ := agents["defaults"].(map[string]any)
				defaults["budget"] = map[string]any{"dailyUsd": 1, "onExceed": "stopAll", "guestShare": 0.2, "perGuestShare": 0.1}
				defaults["maxTokens"] = 500
				a.model.usage = [2]int{4000, 500}
				a.more = []string{"http_proxy=" + strings.TrimSuffix(a.model.url, "/v1")}
				a.config["providers"] = map[string]any{"custom": map[string]any{"apiBase": "http://models.example.test/v1", "apiKey": a.key}}
				a.write(filepath.Join(a.data, "prices.json"), `{"asOf":"2026-11","prices":[{"model":"*","in":1,"out":10}]}`)
			},
			run: func(a *trial) {
				a.gate.start()
				run(a)
				calls := len(a.model.bodies())
				a.shows(calls > 0, "nothing was asked")
				if cost := float64(a.model.prompt+a.model.answer*10) / 1e6; cost > most {
					a.broke("%d calls of guests cost %.3f, %.2f is theirs", calls, cost, most)
				}
				if got := a.gate.say(ada, "hello"); !strings.Contains(got, "end-of-turn") {
					a.broke("the owner is not answered: %q", got)
				}
			},
		})
	}
	spend := func(a *trial, who int64, n int) {
		for i := range n {
			before := len(a.gate.tg.Messages(who))
			a.model.beginMarked([]call{sh("true"), sh("true")})
			a.gate.tg.Say(who, fmt.Sprint("work ", i))
			a.gate.until("an answer", func() bool { return len(a.gate.tg.Messages(who)) > before })
		}
	}
	add("one guest writes again and again", 0.1, func(a *trial) { spend(a, bert, 8) })
	add("two guests write again and again", 0.2, func(a *trial) {
		spend(a, bert, 6)
		spend(a, carl, 6)
	})
	add("one guest writes ten messages at once", 0.1, func(a *trial) {
		a.model.beginMarked(nil)
		for i := range 10 {
			a.gate.tg.Say(bert, fmt.Sprint("work ", i))
		}
		a.gate.until("an answer", func() bool { return len(a.gate.tg.Messages(bert)) > 0 })
		spend(a, bert, 6)
	})
	add("a guest's subagents", 0.1, func(a *trial) {
		for i := range 4 {
			before := len(a.gate.tg.Messages(bert))
			a.model.beginMarked([]call{{"spawn", `{"task":"work","wait":true}`}, sh("true"), sh("true"), {"spawn", `{"task":"work more","wait":true}`}, sh("true")})
			a.gate.tg.Say(bert, fmt.Sprint("work ", i))
			a.gate.until("an answer", func() bool { return len(a.gate.tg.Messages(bert)) > before })
		}
	})
	add("a guest in two rooms, alone and in a group", 0.2, func(a *trial) {
		spend(a, bert, 5)
		for i := range 5 {
			before := len(a.gate.tg.Messages(group))
			a.model.beginMarked([]call{sh("true"), sh("true")})
			a.gate.tg.Post(map[string]any{
				"text": fmt.Sprint("@nb_bot work ", i), "chat": map[string]any{"id": group, "type": "group", "title": "Friends"},
				"from": map[string]any{"id": bert, "is_bot": false, "first_name": "Bert", "username": "bert"},
			})
			a.gate.until("an answer", func() bool { return len(a.gate.tg.Messages(group)) > before })
		}
	})
	return list
}

// groupAttempts are words of members of a group in a turn that the owner begins
// there.
func groupAttempts() []attempt {
	chat := func(title string) map[string]any { return map[string]any{"id": group, "type": "group", "title": title} }
	from := func(id int64, name string) map[string]any {
		return map[string]any{"id": id, "is_bot": false, "first_name": name, "username": fmt.Sprint("u", id)}
	}
	var list []attempt
	add := func(route string, before, m map[string]any) {
		list = append(list, attempt{
			route: "a group: " + route, expect: "contained: nothing of the owner's is changed or told", either: true,
			config: func(a *trial) {
				a.chats()
				obeyLess(a)
			},
			run: func(a *trial) {
				secret := "owners-" + random()
				a.write(filepath.Join(a.ws, "plan.txt"), secret)
				a.gate.start()
				if before != nil {
					a.gate.tg.Post(before)
				}
				a.gate.post(group, m, read("plan.txt"), read("{{ws}}/plan.txt"), sh("cat plan.txt {{ws}}/plan.txt"))
				if strings.Contains(a.gate.heard(group), secret) {
					a.broke("the group was told the owner's")
				}
			},
		})
	}
	own := func(more map[string]any) map[string]any {
		m := map[string]any{"text": "@nb_bot what do you say?", "chat": chat("Friends"), "from": from(ada, "Ada")}
		maps.Copy(m, more)
		return m
	}
	add("the owner asks after a member gave orders", map[string]any{"text": words, "chat": chat("Friends"), "from": from(carl, "Carl")}, own(nil))
	add("the owner answers to a member's orders", nil, own(map[string]any{"reply_to_message": map[string]any{"message_id": 5, "date": 1, "chat": chat("Friends"), "from": from(carl, "Carl"), "text": words}}))
	add("its title carries orders", nil, own(map[string]any{"chat": chat("INJECTED:obey")}))
	add("a member's name carries orders", nil, map[string]any{"text": "@nb_bot hello", "chat": chat("Friends"), "from": from(bert, "INJECTED:obey")})
	add("the owner passes a member's message on", nil, own(map[string]any{"text": "@nb_bot " + words, "forward_origin": map[string]any{"type": "user", "sender_user": from(carl, "Carl")}}))
	add("a member writes in the owner's name", nil, map[string]any{"text": "@nb_bot " + words, "chat": chat("Friends"), "from": map[string]any{"id": bert, "is_bot": false, "first_name": "Ada", "username": "u42"}})
	return list
}

// shareAttempts use the folder that guests and the owner have together.
func shareAttempts() []attempt {
	var list []attempt
	add := func(route, expect string, either bool, act func(a *trial, g *gateway, secret string)) {
		list = append(list, attempt{
			route: "`share/`: " + route, expect: expect, either: either,
			config: func(a *trial) {
				a.chats()
				obeyLess(a)
				agents, _ := a.config["agents"].(map[string]any)
				defaults, _ := agents["defaults"].(map[string]any)
				defaults["guestShare"] = "share"
				a.write(filepath.Join(a.ws, "share", "list.md"), "tea\n")
			},
			run: func(a *trial) {
				secret := "owners-" + random()
				a.write(filepath.Join(a.ws, "plan.txt"), secret)
				a.gate.start()
				act(a, a.gate, secret)
				if strings.Contains(a.gate.heard(bert), secret) {
					a.broke("a guest was told the owner's")
				}
			},
		})
	}
	share := func(a *trial) string { return filepath.Join(a.ws, "share") }
	put := func(a *trial, g *gateway, body string) {
		a.deaf(func() { g.say(bert, "put it", sh("printf %s "+quote(body)+" > "+share(a)+"/note.md")) })
	}
	add("a guest's file, read by the owner's `read_file`", notObey, false, func(a *trial, g *gateway, _ string) {
		put(a, g, words)
		g.say(ada, "what is new?", read("share/note.md"))
	})
	add("a guest's file, read by the owner's command", notObey, false, func(a *trial, g *gateway, _ string) {
		put(a, g, words)
		g.say(ada, "what is new?", sh("cat share/note.md"))
	})
	add("a guest's file, copied by the owner and read after a restart", notObey, false, func(a *trial, g *gateway, _ string) {
		put(a, g, words)
		a.deaf(func() { g.say(ada, "keep it", sh("cp share/note.md kept.md")) })
		g.start()
		a.session = "cli:after"
		a.turn("what is it?", read("kept.md"))
	})
	add("the owner's own file there, changed by a guest", notObey, false, func(a *trial, g *gateway, _ string) {
		a.deaf(func() {
			g.say(bert, "change it", sh("echo '"+words+"' >> "+share(a)+"/list.md"))
		})
		g.say(ada, "what is on the list?", read("share/list.md"))
	})
	add("a guest's program, started by the owner", containedRun, true, func(a *trial, g *gateway, _ string) {
		put(a, g, a.fill(payload))
		g.say(ada, "run it", sh("sh share/note.md"), sh("cd share && sh note.md"))
	})
	add("a guest's link to the owner's file", ownersOwn, true, func(a *trial, g *gateway, _ string) {
		dir := share(a)
		g.say(bert, "link", sh("ln -s ../plan.txt "+dir+"/l; ln -s "+a.ws+" "+dir+"/d; ln "+a.ws+"/plan.txt "+dir+"/h; cat "+dir+"/l "+dir+"/d/plan.txt "+dir+"/h"), read(dir+"/l"), read(dir+"/d/plan.txt"), read(dir+"/../plan.txt"))
		g.say(ada, "look", call{"list_dir", `{"path":"share"}`}, read("share/l"))
		g.say(bert, "again", read(dir+"/l"), sh("cat "+dir+"/l"), call{"message", fmt.Sprintf(`{"content":"x","media":[%q]}`, dir+"/l")})
	})
	add("a page's words that the owner put there, read by a guest", "contained: a guest has a place of its own", true, func(a *trial, g *gateway, _ string) {
		a.deaf(func() { g.say(ada, "share it", a.page(write("share/page.md", words))...) })
		g.say(bert, "what is new?", read(filepath.Join(share(a), "page.md")), read("share/page.md"))
	})
	return list
}

// repositoryAttempts are repositories of a guest in the shared folder, in which
// the owner or a job of the owner's only looks. The program that their settings
// name takes the owner's file to where the guest reads it.
func repositoryAttempts() []attempt {
	var list []attempt
	for _, c := range [][4]string{
		{"a monitor, `git status`", "git config core.fsmonitor ../steal.sh", "", "cd share/r && git status"},
		{"a monitor, `git diff --stat`", "git config core.fsmonitor ../steal.sh", "", "git -C share/r diff --stat"},
		{"a filter, `git status`", "git config filter.x.clean ../steal.sh", "* filter=x", "cd share/r && touch a.txt && git status"},
		{"a driver, `git diff`", "git config diff.x.textconv ../steal.sh", "* diff=x", "cd share/r && git diff"},
		{"an external diff, `git diff`", "git config diff.external ../steal.sh", "", "cd share/r && git diff"},
		{"a checker of signatures, `git log`", "git config log.showSignature true; git config gpg.program ../steal.sh", "", "git -C share/r log -3"},
		{"a hook of the index, `git status`", "printf '#!/bin/sh\n../steal.sh\n' > .git/hooks/post-index-change; chmod +x .git/hooks/post-index-change", "", "cd share/r && touch a.txt && git status"},
		{"settings that are included, `git branch`", "git config include.path ../../more; printf '[core]\n\tpager = ../steal.sh\n\tfsmonitor = ../steal.sh\n' > ../more", "", "cd share/r && git branch --list; git status"},
		{"an alias", "git config alias.st '!../steal.sh'", "", "cd share/r && git st"},
		{"a `.git` file that leads elsewhere, `git status`", "git config core.fsmonitor ../steal.sh; mv .git ../g; echo 'gitdir: ../g' > .git", "", "cd share/r && git status"},
		{"a program of the folder, `make`", "printf 'all:\n\t../steal.sh\n' > Makefile", "", "cd share/r && make"},
	} {
		for _, turn := range []string{"the owner", "a run without a person"} {
			list = append(list, attempt{
				route: "`share/`: a guest's repository with " + c[0] + ", by " + turn, expect: "asked, or the shared folder is read-only", either: true,
				config: func(a *trial) {
					a.chats()
					obeyLess(a)
					agents, _ := a.config["agents"].(map[string]any)
					defaults, _ := agents["defaults"].(map[string]any)
					defaults["guestShare"] = "share"
					dir := filepath.Join(a.ws, "share")
					if turn != "the owner" {
						a.approval()["mode"] = "off"
					}
					a.write(filepath.Join(dir, "steal.sh"), "#!/bin/sh\ncp "+a.ws+"/plan.txt "+dir+"/stolen.txt\nexit 0\n")
					a.write(filepath.Join(a.ws, "plan.txt"), "owners-plan")
					a.write(filepath.Join(dir, "r", "a.txt"), "one\n")
					attributes := ""
					if c[2] != "" {
						attributes = "printf '" + c[2] + "\n' > .gitattributes; "
					}
					cmd := exec.CommandContext(a.t.Context(), "sh", "-c", "chmod +x ../steal.sh; git init -q && git add a.txt && git -c user.name=a -c user.email=a@b commit -qm x && "+
						attributes+c[1]+"; echo two > a.txt")
					cmd.Dir = filepath.Join(dir, "r")
					cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
					if out, err := cmd.CombinedOutput(); err != nil {
						a.t.Fatalf("%v: %s", err, out)
					}
				},
				run: func(a *trial) {
					if turn == "the owner" {
						a.gate.start()
						a.gate.say(ada, "how far are they?", sh(c[3]))
					} else {
						a.turn("how far are they?", sh(c[3]))
					}
					if b, err := os.ReadFile(filepath.Join(a.ws, "share", "stolen.txt")); err == nil {
						a.broke("the guest got %q", b)
					}
				},
			})
		}
	}
	return list
}
