package security_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// readWords are calls that read every file of the data folder that holds the
// stranger's words.
func (a *trial) readWords() (calls []call) {
	_ = filepath.WalkDir(a.data, func(path string, d os.DirEntry, _ error) error {
		if d == nil || !d.Type().IsRegular() || strings.Contains(path, "/sessions/") {
			return nil
		}
		if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) == words {
			calls = append(calls, read(path))
		}
		return nil
	})
	a.shows(len(calls) > 0, "no file holds the words")
	return calls
}

// page reads a page with the stranger's words, and the model does not obey yet.
func (a *trial) page(more ...call) []call {
	return append([]call{fetch(a.web.page("/p", "text/plain", words))}, more...)
}

// deaf lets do happen with a model that does not obey yet.
func (a *trial) deaf(do func()) {
	a.model.mu.Lock()
	delete(a.model.orders, "obey")
	a.model.mu.Unlock()
	do()
	a.model.mu.Lock()
	a.model.orders["obey"] = order{name: "obey", calls: obey().calls[:2]}
	a.model.mu.Unlock()
}

// lastingAttempts are ways to lose what is known about a text: a new
// conversation, a fork, a temporary chat, a summary, a restart, a lost record.
func lastingAttempts() []attempt {
	list := append(newAttempts(), forkAttempts()...)
	list = append(list, temporaryAttempts()...)
	list = append(list, summaryAttempts()...)
	list = append(list, restartAttempts()...)
	return append(list, recordAttempts()...)
}

func newAttempts() []attempt {
	mark := func(a *trial) {
		a.deaf(func() { a.turn("note it", a.page(write("in/x.md", words))...) })
		a.turn("/new")
	}
	return []attempt{
		{route: "`/new` after a page: the words are gone, and the next turn is not told", expect: keptOff, kept: true, run: func(a *trial) {
			a.deaf(func() { // the summary for memory may hold the words
				a.turn("when do they open?", a.page()...)
				a.turn("/new")
			})
			a.turn("hello")
			a.turn("and now?")
		}},
		{route: "`/new` between writing a page's words to a file and reading it", expect: notObey, run: func(a *trial) {
			mark(a)
			a.turn("what is it about?", read("in/x.md"))
		}},
		{route: "`/new` between, and a command reads the file", expect: notObey, run: func(a *trial) {
			mark(a)
			a.turn("what is it about?", sh("cat in/x.md"))
		}},
		{route: "`/new` twice and `undo`, which brings the file back", expect: notObey, run: func(a *trial) {
			mark(a)
			a.deaf(func() { a.turn("clean up", sh("rm in/x.md")) })
			a.turn("/new")
			a.cli("undo")
			a.turn("what is it about?", read("in/x.md"))
		}},
		{route: "`/new`, then the owner's own edit of the file, then `/new`", expect: notObey, run: func(a *trial) {
			mark(a)
			a.deaf(func() {
				a.turn("correct it", call{"edit_file", edit("in/x.md", "Nice", "Fine")})
			})
			a.turn("/new")
			a.turn("what is it about?", read("in/x.md"))
		}},
	}
}

// client is an attempt of the owner over the WebSocket.
func client(route string, do func(a *trial, s *socket)) attempt {
	return attempt{route: route, expect: notObey, config: func(a *trial) { a.chats() }, run: func(a *trial) {
		a.gate.start()
		s, err := a.gate.connect(wsToken)
		if err != nil {
			a.shows(false, "connect: %v", err)
			return
		}
		do(a, s)
	}}
}

func (s *socket) say(chat any, text string, calls ...call) {
	s.g.a.t.Helper()
	mark := s.g.a.model.beginMarked(calls)
	s.send(map[string]any{"type": "message", "chat_id": chat, "content": text, "turn_id": "t-" + random()}) // events repeat it
	s.told(mark)
}

// chat opens a new one and returns its id.
func (s *socket) chat(kind string) any {
	s.g.a.t.Helper()
	s.mu.Lock()
	n := len(s.got)
	s.mu.Unlock()
	s.send(map[string]any{"type": kind})
	return s.since(n)
}

func (s *socket) since(n int) (id any) {
	s.g.a.t.Helper()
	s.g.until("a chat", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range s.got[n:] {
			if m["event"] == "attached" {
				id = m["chat_id"]
				return true
			}
		}
		return false
	})
	return id
}

func (s *socket) fork(chat any, before int) any {
	s.g.a.t.Helper()
	s.mu.Lock()
	n := len(s.got)
	s.mu.Unlock()
	s.send(map[string]any{"type": "fork_chat", "source_chat_id": chat, "before_user_index": before})
	return s.since(n)
}

func forkAttempts() []attempt {
	begin := func(a *trial, s *socket) any {
		chat := s.chat("new_chat")
		a.deaf(func() {
			s.say(chat, "hello")
			s.say(chat, "when do they open?", a.page()...)
			s.say(chat, "and then?")
		})
		return chat
	}
	clean := client("a fork that begins before the page was read", func(a *trial, s *socket) {
		s.say(s.fork(begin(a, s), 1), "and on Sundays?")
	})
	clean.expect, clean.kept = keptOff, true
	return []attempt{
		clean,
		client("a fork right after the page was read", func(a *trial, s *socket) { s.say(s.fork(begin(a, s), 2), "and on Sundays?") }),
		client("a fork of a fork", func(a *trial, s *socket) {
			var second any
			chat := begin(a, s)
			a.deaf(func() {
				first := s.fork(chat, 2)
				s.say(first, "go on")
				second = s.fork(first, 3)
			})
			s.say(second, "and on Sundays?")
		}),
		client("a fork, and a restart before it goes on", func(a *trial, s *socket) {
			forked := s.fork(begin(a, s), 2)
			a.gate.start()
			again, err := a.gate.connect(wsToken)
			if err != nil {
				a.shows(false, "connect: %v", err)
				return
			}
			again.send(map[string]any{"type": "attach", "chat_id": forked})
			again.say(forked, "and on Sundays?")
		}),
		client("a fork of a conversation that read a marked file", func(a *trial, s *socket) {
			a.deaf(func() { s.say(s.chat("new_chat"), "note it", a.page(write("in/x.md", words))...) })
			chat := s.chat("new_chat")
			a.deaf(func() {
				s.say(chat, "what is it about?", read("in/x.md"))
				s.say(chat, "and then?")
			})
			s.say(s.fork(chat, 1), "and on Sundays?")
		}),
	}
}

// temporaryAttempts: such a chat forgets what tools said, but the answers that
// repeat it are still before the model.
func temporaryAttempts() []attempt {
	next := func(route string, turns int) attempt {
		a := client(route, func(a *trial, s *socket) {
			chat := s.chat("new_temporary_chat")
			a.deaf(func() {
				s.say(chat, "when do they open?", a.page()...)
				for i := range turns {
					s.say(chat, fmt.Sprint("go on ", i))
				}
			})
			before := len(a.model.bodies())
			s.say(chat, "and on Sundays?", obey().calls[:2]...)
			a.shows(strings.Contains(string(a.model.bodies()[before]), "INJECTED:obey"), "the answer that repeats the words is gone")
		})
		a.either = true
		return a
	}
	return []attempt{
		next("a temporary chat reads a page, and its next turn obeys", 0),
		next("a temporary chat read a page several turns ago", 2),
		client("a temporary chat reads a marked file", func(a *trial, s *socket) {
			a.deaf(func() { s.say(s.chat("new_chat"), "note it", a.page(write("in/x.md", words))...) })
			s.say(s.chat("new_temporary_chat"), "what is it about?", read("in/x.md"))
		}),
		client("a temporary chat writes a page's words to a file; another chat reads it", func(a *trial, s *socket) {
			a.deaf(func() { s.say(s.chat("new_temporary_chat"), "note it", a.page(write("in/x.md", words))...) })
			s.say(s.chat("new_chat"), "what is it about?", read("in/x.md"))
		}),
		client("a command of a temporary chat writes a page's words; it is discarded, and another chat runs `cat`", func(a *trial, s *socket) {
			chat := s.chat("new_temporary_chat")
			a.deaf(func() { s.say(chat, "note it", a.page(sh("mkdir -p in; echo '"+words+"' > in/x.md"))...) })
			s.send(map[string]any{"type": "discard_temporary_chat", "chat_id": chat})
			s.say(s.chat("new_chat"), "what is it about?", sh("cat in/*"))
		}),
	}
}

// summaryAttempts: the model that sums a conversation up repeats the words.
func summaryAttempts() []attempt {
	small := func(a *trial) {
		agents, _ := a.config["agents"].(map[string]any)
		defaults, _ := agents["defaults"].(map[string]any)
		defaults["contextWindowTokens"], defaults["maxTokens"] = 9000, 1000
		a.model.beside = "They open at nine. " + words
	}
	long := func(a *trial, n int) {
		for i := range n {
			a.turn(fmt.Sprint("go on ", i, strings.Repeat(" and on", 700)))
		}
	}
	add := func(route string, run func(a *trial)) attempt {
		return attempt{route: route, expect: notObey, config: small, run: func(a *trial) {
			run(a)
			a.model.mu.Lock()
			defer a.model.mu.Unlock()
			a.shows(a.model.repeated > 0, "no summary repeated the words")
		}}
	}
	return []attempt{
		add("a summary repeats a page's words in the next turns", func(a *trial) {
			a.deaf(func() {
				a.turn("when do they open?", a.page()...)
				long(a, 5)
			})
			a.turn("and now?")
		}),
		add("a summary of a summary repeats them", func(a *trial) {
			a.deaf(func() {
				a.turn("when do they open?", a.page()...)
				long(a, 10)
			})
			a.turn("and now?")
		}),
		add("a summary repeats the words of a marked file", func(a *trial) {
			a.deaf(func() {
				a.fresh("note it", a.page(write("in/x.md", words))...)
				a.session = ""
				a.turn("what is it about?", read("in/x.md"))
				long(a, 5)
			})
			a.turn("and now?")
		}),
		add("a summary repeats what a command with the network printed", func(a *trial) {
			a.reaches("proxy")
			a.seal()
			a.forge.page("/p", "text/plain", words)
			a.deaf(func() {
				a.turn("what does it say?", a.pkg("curl -s --max-time 3 {{forge}}/p"))
				long(a, 5)
			})
			a.turn("and now?")
		}),
		add("a summary repeats them in a chat of the gateway", func(a *trial) {
			a.chats()
			a.gate.start()
			a.deaf(func() {
				a.gate.say(ada, "when do they open?", a.page()...)
				for i := range 14 {
					a.gate.say(ada, fmt.Sprint("go on ", i, strings.Repeat(" and on", 550)))
				}
			})
			a.gate.say(ada, "and now?")
		}),
	}
}

// restartAttempts end the gateway at a bad moment.
func restartAttempts() []attempt {
	add := func(route string, run func(a *trial)) attempt {
		return attempt{route: route, expect: notObey, config: func(a *trial) { a.chats() }, run: func(a *trial) {
			a.gate.start()
			run(a)
		}}
	}
	cat := []call{read("in/x.md"), sh("cat in/x.md")}
	return []attempt{
		add("the gateway is killed after a page was read; the conversation goes on", func(a *trial) {
			a.deaf(func() { a.gate.say(ada, "when do they open?", a.page()...) })
			a.gate.kill()
			a.gate.start()
			a.gate.say(ada, "and on Sundays?")
		}),
		add("the gateway is killed right after a tainted turn wrote a file; another chat reads it", func(a *trial) {
			a.deaf(func() { a.gate.say(ada, "note it", a.page(write("in/x.md", words))...) })
			a.gate.kill()
			a.gate.start()
			a.gate.tg.Say(ada, "/new")
			a.gate.say(ada, "what is it about?", cat...)
		}),
		add("the gateway is killed while a tainted turn's command writes; another chat reads what it left", func(a *trial) {
			a.deaf(func() {
				a.model.beginMarked(a.page(sh("mkdir -p in; echo '" + words + "' > in/x.md; sleep 20")))
				a.gate.tg.Say(ada, "note it")
				a.gate.until("the file", func() bool { _, err := os.Stat(filepath.Join(a.ws, "in", "x.md")); return err == nil })
			})
			a.gate.kill()
			a.gate.start()
			a.session = "cli:after"
			a.turn("what is it about?", cat...)
		}),
		add("the gateway is told to end while a tainted turn's command writes; another chat reads what it left", func(a *trial) {
			a.deaf(func() {
				a.model.beginMarked(a.page(sh("mkdir -p in; echo '" + words + "' > in/x.md; sleep 20")))
				a.gate.tg.Say(ada, "note it")
				a.gate.until("the file", func() bool { _, err := os.Stat(filepath.Join(a.ws, "in", "x.md")); return err == nil })
			})
			a.gate.start()
			a.session = "cli:after"
			a.turn("what is it about?", cat...)
		}),
		add("the gateway is killed while the model answers about a page; the turn is taken up again", func(a *trial) {
			a.deaf(func() {
				a.model.beginMarked(a.page(sh("sleep 20")))
				a.gate.tg.Say(ada, "when do they open?")
				a.gate.until("the page", func() bool { return len(a.web.seen()) > 0 })
			})
			a.gate.kill()
			a.gate.start()
			a.gate.say(ada, "and on Sundays?", fetch(a.web.url+"/p"))
		}),
	}
}

// kill ends the gateway without a chance to put anything in order.
func (g *gateway) kill() {
	g.a.t.Helper()
	_ = g.cmd.Process.Signal(syscall.SIGKILL) // it may be gone
	_ = g.cmd.Wait()                          // says that it was killed
	g.a.all.stderr += g.out.String()
}

// recordAttempts damage one of the two copies of the record of outside files
// between the turn that wrote a file and the one that reads it.
func recordAttempts() []attempt {
	var list []attempt
	for _, d := range []struct {
		how  string
		harm func(path string, b []byte) error
	}{
		{"is deleted", func(path string, _ []byte) error { return os.Remove(path) }},
		{"is emptied", func(path string, _ []byte) error { return os.Truncate(path, 0) }},
		{"loses its second half", func(path string, b []byte) error { return os.Truncate(path, int64(len(b)/2)) }},
		{"has a bit of every line flipped", func(path string, b []byte) error {
			lines := strings.SplitAfter(string(b), "\n")
			for i, line := range lines {
				if len(line) > 8 {
					lines[i] = line[:5] + string(line[5]^1) + line[6:]
				}
			}
			return os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600)
		}},
		{"has its paths flipped", func(path string, b []byte) error {
			return os.WriteFile(path, []byte(strings.ReplaceAll(string(b), "x.md", "y.md")), 0o600)
		}},
		{"is full of other bytes", func(path string, b []byte) error {
			return os.WriteFile(path, []byte(strings.Repeat("\x00\xff{", len(b))), 0o600)
		}},
	} {
		for i := range 2 {
			list = append(list, attempt{
				route: fmt.Sprintf("copy %d of the record of outside files %s between two turns; a clean conversation reads a marked file", i+1, d.how), expect: notObey,
				run: func(a *trial) {
					a.deaf(func() { a.turn("note it", a.page(write("in/x.md", words))...) })
					var copies []string
					_ = filepath.WalkDir(filepath.Join(a.data, "origin"), func(path string, e os.DirEntry, _ error) error {
						if b, err := os.ReadFile(path); err == nil && e.Type().IsRegular() && strings.Contains(string(b), "x.md") {
							copies = append(copies, path)
						}
						return nil
					})
					slices.Sort(copies)
					a.shows(len(copies) == 2, "the record is in %v", copies)
					if len(copies) < 2 {
						return
					}
					b, err := os.ReadFile(copies[i])
					if err == nil {
						err = d.harm(copies[i], b)
					}
					a.shows(err == nil, "%v", err)
					a.fresh("what is it about?", read("in/x.md"))
					a.fresh("and by a command?", sh("cat in/x.md"))
				},
			})
		}
	}
	return list
}
