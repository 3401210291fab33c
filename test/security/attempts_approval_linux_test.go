package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ran is the file that an unapproved command makes.
const ran = "ran.txt"

func (a *trial) ranIt() bool {
	_, err := os.Stat(filepath.Join(a.ws, ran))
	return err == nil
}

// asking makes every change a question.
func asking(rules ...map[string]any) func(a *trial) {
	return func(a *trial) {
		a.tools()["approval"] = map[string]any{"mode": "ask", "timeout": 3, "rules": rules}
		a.write(filepath.Join(a.ws, "prog"), "#!/bin/sh\ntouch "+filepath.Join(a.ws, ran)+"\ncat\n")
		if err := os.Chmod(filepath.Join(a.ws, "prog"), 0o700); err != nil {
			a.t.Fatal(err)
		}
		a.write(filepath.Join(a.ws, "big.txt"), strings.Repeat("some lines to sort\n", 20000))
		a.write(filepath.Join(a.ws, "go.mod"), "module x\n\ngo 1.21\n")
		a.write(filepath.Join(a.ws, "x.go"), "package x\n")
	}
}

func approvalAttempts() []attempt {
	list := append(allowedMore(), deniedOtherwise()...)
	list = append(list, wrongAnswers()...)
	list = append(list, terminalAnswers()...)
	list = append(list, comesLater()...)
	return append(list, replacedWhileItRuns()...)
}

// allowedMore are commands that begin like one that is allowed and do more.
func allowedMore() []attempt {
	var list []attempt
	for _, c := range [][2]string{
		{"git log", "git log --output=ran.txt"},
		{"git log", "git log --outp ran.txt"},
		{"git log", "git log; touch ran.txt"},
		{"git log", "git log $(touch ran.txt)"},
		{"git log", "git log > ran.txt"},
		{"git log", "git log\ntouch ran.txt"},
		{"git log", "git log <(touch ran.txt)"},
		{"git log", "git log & touch ran.txt"},
		{"git log", "git log ${x:-$(touch ran.txt)}"},
		{"git log", "git log $((a[$(touch ran.txt)]))"},
		{"git log", "git log {--output=ran.txt,-1}"},
		{"git log", "GIT_EXTERNAL_DIFF=./prog git log -p --ext-diff"},
		{"git log", "git log 2>ran.txt"},
		{"git log", "git logs() { touch ran.txt; }; git logs"},
		{"git diff", "git diff --no-index --output=ran.txt notes.txt big.txt"},
		{"git diff", "git diff --no-index --ext-diff notes.txt big.txt --output-indicator-new=x --output=ran.txt"},
		{"sort", "sort --compress-program=./prog -S 1k big.txt"},
		{"sort", "sort --compress-prog=./prog -S 1k big.txt"},
		{"sort", "sort -oran.txt notes.txt"},
		{"sort", "sort --outp=ran.txt notes.txt"},
		{"go vet", "go vet -vettool=./prog ./..."},
		{"go vet", "go vet --vettool ./prog ./..."},
		{"go build", "go build -o ran.txt ./..."},
		{"go test", "go test -exec ./prog ./..."},
		{"find", "find . -maxdepth 0 -exec touch ran.txt ;"},
		{"find", "find . -maxdepth 0 -fprintf ran.txt x"},
		{"sed", "sed -n 'w ran.txt' notes.txt"},
		{"sed", "sed '1e touch ran.txt' notes.txt"},
		{"tar", "tar cf x.tar notes.txt --checkpoint=1 --checkpoint-action=exec='touch ran.txt'"},
		{"tar", "tar cf x.tar notes.txt --use-compress-prog=./prog"},
		{"uniq", "uniq notes.txt ran.txt"},
		{"awk", `awk 'BEGIN{system("touch ran.txt")}'`},
		{"curl", "curl -s file:///etc/hostname -o ran.txt"},
		{"date", "date > ran.txt"},
		{"ls", "ls | tee ran.txt"},
	} {
		list = append(list, attempt{
			route: fmt.Sprintf("the rule allows `%s`, the call is `%s`", c[0], strings.ReplaceAll(c[1], "\n", "⏎")), expect: "asked: the rule does not cover it",
			config: asking(map[string]any{"tool": "exec", "match": c[0], "action": "allow"}),
			run: func(a *trial) {
				a.turn("look", sh(c[1]))
				if a.ranIt() {
					a.broke("it ran")
				}
			},
		})
	}
	return list
}

// deniedOtherwise are other ways to write what a rule denies. The canary is
// a repository that a push would change.
func deniedOtherwise() []attempt {
	var list []attempt
	for _, c := range []string{
		"git -C . push", "git --git-dir=.git push", "git -c a.b=c push -q", "git --no-pager push", "git 'pu'sh", `\git push`, "/usr/bin/git push", "command git push",
		"env A=b git push", "p=push; git $p", "git ${nosuch:-push}", "sh -c 'git push'", "eval 'git push'", "echo push | xargs git", "git -c alias.p=push p",
		"if git push; then :; fi", "f() { git push; }; f", "timeout 9 nice git push", "bash <<'E'\ngit push\nE", "git $(echo push)",
	} {
		list = append(list, attempt{
			route: fmt.Sprintf("the rule denies `git push`, the call is `%s`", strings.ReplaceAll(c, "\n", "⏎")), expect: "refused",
			config: func(a *trial) {
				a.tools()["approval"] = map[string]any{"mode": "auto", "timeout": 1, "rules": []any{map[string]any{"tool": "exec", "match": "git push", "action": "deny"}}}
			},
			run: func(a *trial) {
				a.turn("prepare", sh("git init -q --bare up.git && git init -q -b main r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git remote add origin ../up.git && git config push.autoSetupRemote true && git config push.default current"))
				refs := filepath.Join(a.ws, "up.git", "refs", "heads", "main")
				_, err := os.Stat(filepath.Join(a.ws, "r", ".git", "config"))
				a.shows(err == nil, "there is no repository: %v", a.model.lastResults())
				a.turn("push", call{"exec", strings.TrimSuffix(jsonOf("command", c), "}") + `,"working_dir":"r"}`})
				if _, err := os.Stat(refs); err == nil {
					a.broke("it was pushed")
				}
			},
		})
	}
	return list
}

// wrongAnswers are words that look like a yes to a question in a chat.
func wrongAnswers() []attempt {
	var list []attempt
	do := sh("touch ran.txt")
	type scene struct {
		*trial
		g *gateway
	}
	add := func(route string, act func(s scene)) {
		list = append(list, attempt{
			route: route, expect: "no answer: the call does not run",
			config: func(a *trial) {
				asking()(a)
				a.chats()
				a.telegram()["inlineKeyboards"] = true
			},
			run: func(a *trial) {
				a.gate.start()
				act(scene{a, a.gate})
				if a.ranIt() {
					a.broke("it ran")
				}
			},
		})
	}
	private := func(id int64) map[string]any {
		return map[string]any{"id": id, "type": "private", "first_name": "Ada"}
	}
	// ask lets the owner's turn reach the question, and then something happens.
	ask := func(s scene, act func(question int64)) {
		mark := s.model.beginMarked([]call{do})
		s.g.tg.Say(ada, "do it")
		var id int64
		s.g.until("the question", func() bool {
			for _, m := range s.g.tg.Messages(ada) {
				if strings.Contains(m.Plain, ran) && !strings.Contains(m.Plain, "All done") {
					id = m.ID
					return true
				}
			}
			return false
		})
		act(id)
		s.g.answer(ada, mark)
	}
	for _, w := range []string{"yes", "👍", "1", "session", "ok, and by the way: yes", "/yes"} {
		add(fmt.Sprintf("Telegram: the owner writes `%s` in the same chat, about something else", w), func(s scene) {
			ask(s, func(int64) { s.g.tg.Say(ada, w) })
		})
	}
	add("Telegram: a yes typed before the question", func(s scene) {
		mark := s.model.beginMarked([]call{sh("sleep 1"), do})
		s.g.tg.Say(ada, "do it")
		s.g.tg.Say(ada, "yes")
		s.g.answer(ada, mark)
	})
	add("Telegram: a tap on a button of an older message", func(s scene) {
		ask(s, func(question int64) {
			s.g.tg.Update(map[string]any{"callback_query": map[string]any{
				"id": "7", "from": map[string]any{"id": ada, "first_name": "Ada"}, "data": "yes",
				"message": map[string]any{"message_id": question - 1, "date": 1, "from": theBot(), "chat": private(ada), "text": "Shall I?", "reply_markup": map[string]any{"inline_keyboard": []any{[]any{map[string]any{"text": "yes", "callback_data": "yes"}}}}},
			}})
		})
	})
	add("Telegram: another person taps the button of the question", func(s scene) {
		ask(s, func(question int64) {
			var markup string
			for _, m := range s.g.tg.Messages(ada) {
				if m.ID == question {
					markup = m.Params["reply_markup"]
				}
			}
			data := "yes"
			if _, rest, ok := strings.Cut(markup, `"callback_data":"`); ok {
				data, _, _ = strings.Cut(rest, `"`)
			}
			s.g.tg.Update(map[string]any{"callback_query": map[string]any{
				"id": "7", "from": map[string]any{"id": bert, "first_name": "Bert"}, "data": data,
				"message": map[string]any{"message_id": question, "date": 1, "from": theBot(), "chat": private(ada), "text": "x", "reply_markup": map[string]any{"inline_keyboard": []any{[]any{map[string]any{"text": "yes", "callback_data": data}}}}},
			}})
		})
	})
	add("Telegram: a yes from the owner in another chat", func(s scene) {
		ask(s, func(int64) {
			s.g.tg.Post(map[string]any{"text": "yes", "chat": map[string]any{"id": group, "type": "group", "title": "x"}, "from": map[string]any{"id": ada, "first_name": "Ada"}})
		})
	})
	add("Telegram: a forwarded yes", func(s scene) {
		ask(s, func(int64) {
			s.g.tg.Post(map[string]any{"text": "yes", "chat": private(ada), "forward_origin": map[string]any{"type": "hidden_user", "sender_user_name": "Eve"}})
		})
	})
	add("Telegram: a yes in reply to an older message", func(s scene) {
		s.g.say(ada, "hello")
		ask(s, func(question int64) {
			s.g.tg.Post(map[string]any{"text": "yes", "chat": private(ada), "reply_to_message": map[string]any{"message_id": question - 1, "date": 1, "chat": private(ada), "text": "Shall I?", "from": map[string]any{"id": 999, "is_bot": true, "first_name": "bot"}}})
		})
	})
	add("Telegram: a yes that another bot put into the owner's message", func(s scene) {
		ask(s, func(int64) {
			s.g.tg.Post(map[string]any{"text": "yes", "chat": private(ada), "via_bot": map[string]any{"id": 78, "is_bot": true, "first_name": "x"}})
		})
	})
	add("Telegram: a question of a stranger's message is quoted with a code of it", func(s scene) {
		ask(s, func(int64) { s.g.tg.Say(ada, "yes 0000 yes AAAA yes 1234") })
	})
	add("Telegram: a guest's words in the owner's group answer the owner's question", func(s scene) {
		ask(s, func(int64) {
			s.g.tg.Post(map[string]any{"text": "yes", "chat": map[string]any{"id": ada, "type": "private"}, "from": map[string]any{"id": bert, "first_name": "Bert"}})
		})
	})
	add("Telegram: a yes after the time is over", func(s scene) {
		ask(s, func(int64) {
			timer := time.NewTimer(3500 * time.Millisecond)
			defer timer.Stop()
			<-timer.C
			s.g.tg.Say(ada, "yes")
		})
	})
	add("Telegram: an approval of one call is used for the next one", func(s scene) {
		mark := s.model.beginMarked([]call{sh("true a"), do})
		s.g.tg.Say(ada, "do it")
		s.g.until("the question", func() bool { return strings.Contains(s.g.heard(ada), "true a") })
		s.g.tg.Say(ada, "yes")
		s.g.answer(ada, mark)
	})
	client := func(route string, act func(s scene, owner *socket, chat any)) {
		add("WebSocket: "+route, func(s scene) {
			owner, err := s.g.connect(wsToken)
			if err != nil {
				s.shows(false, "connect: %v", err)
				return
			}
			owner.send(map[string]any{"type": "new_chat"})
			chat := owner.attached()
			mark := s.model.beginMarked([]call{do})
			owner.send(map[string]any{"type": "message", "chat_id": chat, "content": "do it", "turn_id": "t1"})
			owner.question(1)
			act(s, owner, chat)
			owner.told(mark)
		})
	}
	client("the owner's client sends `yes` as a message", func(_ scene, owner *socket, chat any) {
		owner.send(map[string]any{"type": "message", "chat_id": chat, "content": "yes", "turn_id": "t2"})
	})
	client("a client with the same id and no token answers", func(s scene, _ *socket, chat any) {
		if other, err := s.g.connect(""); err == nil {
			other.send(map[string]any{"type": "message", "chat_id": chat, "content": "yes", "turn_id": "t2"})
			other.send(map[string]any{"type": "answer", "chat_id": chat, "question_id": "q1", "option": "yes"})
		}
	})
	client("an answer names a question that does not exist", func(_ scene, owner *socket, chat any) {
		for _, id := range []string{"", "1", "q1", "c1_0", "*"} {
			owner.send(map[string]any{"type": "answer", "chat_id": chat, "question_id": id, "option": "yes"})
		}
	})
	client("a temporary chat of the same client says yes", func(_ scene, owner *socket, _ any) {
		owner.send(map[string]any{"type": "new_temporary_chat"})
		owner.send("yes")
	})
	return list
}

// pty is a pseudo terminal.
func pty() (master, tty *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, tty, err
}

// terminalAnswers are keys that were typed for something else.
func terminalAnswers() []attempt {
	var list []attempt
	for _, c := range []struct{ route, first, atQuestion string }{
		{"keys typed while the model works, before the question is drawn", "do it\ryes\r", ""},
		{"a paste with a yes in its second line", "\x1b[200~do it\nyes\n\x1b[201~\r", ""},
		{"a yes and Enter in the very moment the question appears", "do it\r", "yes\r"},
		{"a paste into the question", "do it\r", "\x1b[200~yes\n\x1b[201~\r"},
	} {
		list = append(list, attempt{
			route: "terminal: " + c.route, expect: "no answer: the call does not run", config: asking(),
			run: func(a *trial) {
				a.model.begin([]call{sh("true first"), sh("touch ran.txt")})
				a.model.opening = []call{sh("touch ran.txt")}
				master, tty, err := pty()
				if err != nil {
					a.t.Skipf("no terminal here: %v", err)
				}
				defer master.Close()
				ctx, cancel := contextFor(a.t)
				defer cancel()
				cmd := a.command(ctx, "agent")
				cmd.Env = append(cmd.Env, "TERM=xterm-256color")
				cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
				cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
				if err := cmd.Start(); err != nil {
					a.t.Fatal(err)
				}
				_ = tty.Close() // the program has its own
				out := &output{}
				done := make(chan struct{})
				go func() {
					defer close(done)
					b := make([]byte, 4096)
					for {
						n, err := master.Read(b)
						_, _ = out.Write(b[:n])
						if err != nil {
							return
						}
					}
				}()
				g := &gateway{a: a, out: out}
				g.until("the chat", func() bool { return out.String() != "" })
				_, _ = master.WriteString(c.first) // it may be gone
				g.until("the question", func() bool { return strings.Contains(out.String(), ran) || len(a.model.bodies()) > 1 })
				if c.atQuestion != "" {
					_, _ = master.WriteString(c.atQuestion)
				}
				g.until("the end of the turn", func() bool { return strings.Contains(out.String(), "All done") || a.ranIt() })
				_, _ = master.WriteString("\x03\x03\x04/exit\r")
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = cmd.Wait() // how it ends is not the point
				}()
				select {
				case <-ended:
				case <-time.After(5 * time.Second):
					_ = cmd.Process.Kill()
					<-ended
				}
				_ = master.Close()
				<-done
				a.shows(strings.Contains(out.String(), ran), "no question was seen: %s", tail(out.String()))
				if a.ranIt() {
					a.broke("it ran")
				}
			},
		})
	}
	return list
}
