package tui

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nanobot-go/nanobot/internal/bus"
)

// scene is a chat on a fake terminal with a scripted agent.
type scene struct {
	t    *testing.T
	vt   *vt
	keys *io.PipeWriter
	done chan error

	mu      sync.Mutex
	asked   []bus.Inbound
	stopped []string
}

type script func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool)

// start runs Chat in the bubble of the calling test.
func start(t *testing.T, o Options, play script) *scene {
	t.Helper()
	r, w := io.Pipe()
	s := &scene{t: t, vt: newVT(40, 16), keys: w, done: make(chan error, 1)}
	o.Console = Console{In: r, Out: s.vt, Err: io.Discard, InTTY: true, OutTTY: true, Size: s.vt.size}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	o.Markdown = true
	if o.Banner.Name == "" {
		o.Banner = Banner{Name: "nanobot", Icon: "🐈", Model: "demo"}
	}
	o.Ask = func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
		s.mu.Lock()
		s.asked = append(s.asked, in)
		s.mu.Unlock()
		return func(yield func(bus.Outbound, error) bool) { play(ctx, in, yield) }
	}
	if o.Stop != nil {
		inner := o.Stop
		o.Stop = func(ctx context.Context, session string) {
			s.mu.Lock()
			s.stopped = append(s.stopped, session)
			s.mu.Unlock()
			inner(ctx, session)
		}
	}
	go func() { s.done <- Chat(t.Context(), o) }()
	t.Cleanup(func() { w.Close() })
	synctest.Wait()
	return s
}

// press sends keys and lets everything settle.
func (s *scene) press(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatalf("press %q: %v", keys, err)
	}
	synctest.Wait()
}

// wait moves the clock.
func (s *scene) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// texts are the messages the agent got.
func (s *scene) texts() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, in := range s.asked {
		out = append(out, in.Text)
	}
	return out
}

func (s *scene) wantLeft() {
	s.t.Helper()
	synctest.Wait()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Errorf("Chat = %v, want nil", err)
		}
		if s.vt.paste {
			s.t.Error("bracketed paste left on")
		}
	default:
		s.t.Fatalf("still chatting:\n%s", s.vt.text(s.t))
	}
}

func (s *scene) wantText(parts ...string) {
	s.t.Helper()
	got := s.vt.text(s.t)
	for _, p := range parts {
		if !strings.Contains(got, p) {
			s.t.Errorf("screen lacks %q:\n%s", p, got)
		}
	}
}

func (s *scene) wantNoText(part string) {
	s.t.Helper()
	if got := s.vt.text(s.t); strings.Contains(got, part) {
		s.t.Errorf("screen has %q:\n%s", part, got)
	}
}

func answerOK() script {
	return func(_ context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
		yield(bus.Outbound{Kind: bus.Final, Text: "ok", Turn: &bus.Turn{ID: in.ID}}, nil)
	}
}

// scripted makes an Ask of a script.
func scripted(play script) func(context.Context, bus.Inbound) iter.Seq2[bus.Outbound, error] {
	return func(ctx context.Context, in bus.Inbound) iter.Seq2[bus.Outbound, error] {
		return func(yield func(bus.Outbound, error) bool) { play(ctx, in, yield) }
	}
}

// hang waits for the end of its context.
func hang(ctx context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
	<-ctx.Done()
	yield(bus.Outbound{}, ctx.Err())
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func TestChatTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{ShowTools: true, ShowReasoning: true, Banner: Banner{
			Name: "nanobot", Icon: "🐈", Model: "demo", Hints: []string{"Enter sends, Alt-Enter starts a new line."},
		}}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			pause(ctx, 1500*time.Millisecond)
			yield(bus.Outbound{Kind: bus.Reasoning, Text: "Let me see.\nYes."}, nil)
			yield(bus.Outbound{Kind: bus.Delta, Text: "I will **look** at"}, nil)
			pause(ctx, time.Second)
			yield(bus.Outbound{Kind: bus.Delta, Text: " it.\n"}, nil)
			yield(bus.Outbound{Kind: bus.DeltaEnd, Resuming: true}, nil)
			yield(bus.Outbound{Kind: bus.ToolHint, Text: "read ~/notes.md"}, nil)
			pause(ctx, time.Second)
			yield(bus.Outbound{Kind: bus.ToolEvent, Tool: &bus.Tool{Name: "exec", Phase: "error", Detail: "exit 1\nmore"}}, nil)
			yield(bus.Outbound{Kind: bus.Notice, Text: "retrying in 4 s"}, nil)
			yield(bus.Outbound{Kind: bus.Delta, Text: "- 你好\n- two\n"}, nil)
			yield(bus.Outbound{Kind: bus.DeltaEnd}, nil)
			yield(bus.Outbound{
				Kind: bus.Final, Text: "- 你好\n- two", Streamed: true,
				Media: []bus.Media{{Path: "out/plot.png"}},
				Turn: &bus.Turn{
					ID: in.ID, DurationMS: 3456,
					Usage: bus.Usage{Prompt: 12345, Completion: 340, Cached: 10000},
				},
			}, nil)
		})
		var frames strings.Builder
		frame := func(name string) {
			frames.WriteString("== " + name + "\n" + s.vt.text(t))
		}
		frame("start")
		s.press("你好 nanobot")
		frame("typed")
		s.press("\r")
		s.wait(1200 * time.Millisecond)
		frame("thinking")
		s.wait(900 * time.Millisecond)
		frame("streaming")
		s.wait(time.Second)
		frame("tool")
		s.wait(2 * time.Second)
		frame("answered")
		s.press("\x04")
		s.wantLeft()
		frame("left")
		golden(t, "chat.golden", frames.String())
		in := s.asked[0]
		if in.Text != "你好 nanobot" || in.Route != (bus.Route{Channel: "cli", ChatID: "direct"}) || !in.WantsStream || in.ID == "" {
			t.Errorf("inbound = %+v", in)
		}
	})
}

func TestChatInput(t *testing.T) {
	for _, c := range []struct{ name, keys, want string }{
		{"backslash continues", "a\\\rb\r", "a\nb"},
		{"double backslash sends", "a\\\\\r", `a\\`},
		{"alt-enter", "a\x1b\rb\r", "a\nb"},
		{"ctrl-j", "a\nb\r", "a\nb"},
		{"shift-enter in extended protocols", "a\x1b[13;2ub\x1b[27;2;13~c\r", "a\nb\nc"},
		{"paste", "\x1b[200~one\r\ntwo\rthree\x1b[201~ x\r", "one\ntwo\nthree x"},
		{"paste is no control", "\x1b[200~a\x1b[2Jb\x03\x1b[201~\r", "a[2Jb"},
		{"completion", "/he\t\r", "/help"},
		{"completion with argument", "/mo\tx\r", "/model x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, Options{Commands: []Command{{Name: "/help"}, {Name: "/model", Args: "[name]"}}}, answerOK())
				s.press(c.keys)
				if got := s.texts(); len(got) != 1 || got[0] != c.want {
					t.Errorf("asked %q, want %q", got, c.want)
				}
				s.press("\x04")
				s.wantLeft()
			})
		})
	}
}

func TestChatLeaves(t *testing.T) {
	for _, c := range []struct{ name, keys string }{
		{"ctrl-d", "\x04"},
		{"exit", "exit\r"},
		{"quit", "quit\r"},
		{"slash exit", "/exit\r"},
		{"slash quit", "/QUIT\r"},
		{"vi", " :q \r"},
		{"ctrl-c twice", "\x03\x03"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, Options{}, answerOK())
				s.press(c.keys)
				s.wantLeft()
				if got := s.texts(); got != nil {
					t.Errorf("asked %q, want nothing", got)
				}
			})
		})
	}
}

func TestChatEndsWithItsInputAndContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, hang)
		s.press("hi\r")
		s.keys.Close()
		s.wantLeft()
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		v := newVT(40, 10)
		done := make(chan error, 1)
		go func() {
			done <- Chat(ctx, Options{
				Getenv:  func(string) string { return "" },
				Console: Console{In: r, Out: v, InTTY: true, OutTTY: true, Size: v.size},
			})
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Chat = %v, want canceled", err)
		}
		w.Close()
	})
}

func TestChatCtrlCAtThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, answerOK())
		s.press("draft\x03")
		s.wantNoText("draft")
		s.wantNoText(leaveMessage[:20])
		s.press("\x1b[A") // it is not lost
		s.wantText("You: draft▮")
		s.press("\x1b[B\x03")
		s.wantText("press Ctrl-C again")
		s.press("x")
		s.wantNoText("press Ctrl-C again")
		s.press("\x7f\x03")
		s.wantText("press Ctrl-C again")
		s.press("\x03")
		s.wantLeft()
	})
}

func TestChatCtrlCCancelsTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, hang)
		s.press("work\r")
		s.wantText("thinking")
		s.press("\x03")
		s.wantText("! stopped")
		s.wantNoText("thinking")
		s.press("again\r")
		s.wantText("thinking")
		s.press("\x04")
		s.wantLeft()
	})
}

func TestChatCtrlCTwice(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  time.Duration
		left bool
	}{
		{"within two seconds leaves", time.Second, true},
		{"later cancels the turn itself", 3 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := start(t, Options{Session: "cli:x", Stop: func(context.Context, string) {}}, hang)
				s.press("work\r")
				s.press("\x03")
				s.wantText("stopping")
				s.wait(c.gap)
				s.press("\x03")
				if c.left {
					s.wantLeft()
					return
				}
				s.wantText("! stopped")
				if len(s.stopped) != 1 || s.stopped[0] != "cli:x" {
					t.Errorf("stopped %q, want cli:x once", s.stopped)
				}
				s.press("\x04")
				s.wantLeft()
			})
		})
	}
}

// What is typed while a turn runs reaches the agent at once, and an answer that
// both questions report is shown once.
func TestChatFollowUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final := bus.Outbound{Kind: bus.Final, Text: "answer to both", Streamed: true, Turn: &bus.Turn{ID: "t1"}}
		s := start(t, Options{}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			if in.Text == "/status" {
				yield(bus.Outbound{Kind: bus.Final, Text: "all is *well*", Plain: true}, nil)
				return
			}
			if in.Text == "second" {
				pause(ctx, 3*time.Second)
				yield(final, nil)
				return
			}
			yield(bus.Outbound{Kind: bus.Delta, Text: "line one\nanswer to"}, nil)
			pause(ctx, 2*time.Second)
			yield(bus.Outbound{Kind: bus.Delta, Text: " both"}, nil)
			yield(final, nil)
		})
		s.press("first\r")
		s.press("second\r")
		if got := s.texts(); len(got) != 2 {
			t.Fatalf("asked %q, want two", got)
		}
		s.press("/status\r")
		s.wantText("answer to\n\nYou: second\nYou: /status\n")
		s.press("dra")
		s.wait(5 * time.Second)
		s.wantText("nanobot\nline one\nanswer to both\n\nYou: second\n\nYou: /status\n\n🐈 nanobot\nall is *well*\n\nYou: dra▮")
		if got := s.vt.text(t); strings.Count(got, "answer to") != 1 {
			t.Errorf("the answer must stand there once:\n%s", got)
		}
		s.press("\x03\x04")
		s.wantLeft()
	})
}

// Two texts at once, which an agent should not send, still come out one by one.
func TestChatTwoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			for _, w := range []string{"one ", "two ", "three"} {
				yield(bus.Outbound{Kind: bus.Delta, Text: in.Text + w}, nil)
				pause(ctx, time.Second)
			}
			yield(bus.Outbound{Kind: bus.DeltaEnd}, nil)
			yield(bus.Outbound{Kind: bus.Final, Streamed: true, Text: "x", Turn: &bus.Turn{ID: in.ID}}, nil)
		})
		s.press("a\rb\r")
		s.wait(10 * time.Second)
		s.wantText("aone atwo athree\n", "bone btwo bthree\n")
		s.press("\x04")
		s.wantLeft()
	})
}

// A reply that claims to be shown already but was not must not get lost.
func TestChatStreamedWithoutDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, func(_ context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
			yield(bus.Outbound{Kind: bus.Final, Streamed: true, Text: "precious"}, nil)
		})
		s.press("a\r")
		s.wantText("precious")
		s.press("\x04")
		s.wantLeft()
	})
}

func TestChatEscapeKeyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, answerOK())
		s.press("one two")
		s.press("\x1b")
		s.wait(time.Second)
		s.press("b") // no longer Alt-b
		s.wantText("You: one twob▮")
		s.press("\x0c")
		if got := s.vt.text(t); got != "You: one twob▮\n" {
			t.Errorf("after Ctrl-L: %q", got)
		}
		s.press("\x03\x04")
		s.wantLeft()
	})
}

func TestChatErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Explain: func(err error) (string, string) {
			return "no key: " + err.Error(), "run nanobot onboard"
		}}, func(_ context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			if in.Text == "turn" {
				yield(bus.Outbound{Kind: bus.Final, Turn: &bus.Turn{Error: "model \x1b[31moverloaded\nat once"}}, nil)
				return
			}
			yield(bus.Outbound{}, errors.New("denied"))
		})
		s.press("x\r")
		s.wantText("error: no key: denied\n  → run nanobot onboard\n")
		s.press("turn\r")
		s.wantText("error: model \\x1b[31moverloaded\n")
		s.press("\x04")
		s.wantLeft()
	})
}

func TestChatLateMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan bus.Outbound, 1)
		s := start(t, Options{Late: late}, answerOK())
		s.press("half a li")
		late <- bus.Outbound{Kind: bus.Final, Text: "the job is done"}
		s.wait(time.Second)
		s.wantText("the job is done\n\nYou: half a li▮")
		close(late)
		s.press("ne\r")
		if got := s.texts(); got[0] != "half a line" {
			t.Errorf("asked %q", got)
		}
		s.press("\x04")
		s.wantLeft()
	})
}

func TestChatHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data", "history")
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{History: file}, answerOK())
		s.press("first\r")
		s.press("two\nlines\r")
		s.press("two\nlines\r")
		s.press("\x04")
		s.wantLeft()
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("history file: %v, %v; want mode 0600", info, err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{History: file}, answerOK())
		s.press("draft\x1b[A")
		s.wantText("You: two\n     lines▮")
		s.press("\x1b[A\x1b[A")
		s.wantText("You: first▮")
		s.press("\x1b[B\x1b[B")
		s.wantText("You: draft▮")
		s.press("\x15\x12ir")
		s.wantText("search ir: first▮")
		s.press("\r")
		if got := s.texts(); len(got) != 1 || got[0] != "first" {
			t.Errorf("asked %q, want first", got)
		}
		s.press("\x04")
		s.wantLeft()
	})
}

func TestChatMenu(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Commands: []Command{
			{Name: "/help", Help: "list commands"},
			{Name: "/history", Args: "[n]", Help: "old messages"},
			{Name: "/reset"},
			{Name: "/restart"},
		}}, answerOK())
		s.press("/")
		s.wantText("/help         list commands", "/history [n]  old messages", "/exit")
		s.press("h\t")
		s.wantText("You: /help▮")
		s.press("\t")
		s.wantText("You: /history▮")
		s.press("\x1b[Z")
		s.wantText("You: /help▮")
		s.press("\t ")
		s.wantText("You: /history ▮\n  /history [n]")
		s.press("5")
		s.wantNoText("old messages")
		s.press("\x03/r\t")
		s.wantText("You: /res▮")
		s.press("\x03\x04")
		s.wantLeft()
	})
}

// Text longer than the terminal scrolls; the redrawn part never exceeds it.
func TestChatLongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, func(ctx context.Context, in bus.Inbound, yield func(bus.Outbound, error) bool) {
			for i := range 60 {
				yield(bus.Outbound{Kind: bus.Delta, Text: strings.Repeat("word ", 8) + string(rune('A'+i%26)) + " "}, nil)
				pause(ctx, 50*time.Millisecond)
			}
			yield(bus.Outbound{Kind: bus.Delta, Text: "end\n"}, nil)
			yield(bus.Outbound{Kind: bus.Final, Streamed: true, Text: "x", Turn: &bus.Turn{ID: in.ID}}, nil)
		})
		s.press("\x1b[200~" + strings.Repeat("pasted\n", 10) + "\x1b[201~")
		s.press("\r")
		s.wait(time.Minute)
		got := s.vt.text(t)
		if n := strings.Count(got, "word"); n != 480 {
			t.Errorf("%d words on the terminal, want 480:\n%s", n, got)
		}
		if n := strings.Count(got, "pasted"); n != 10 {
			t.Errorf("%d pasted lines on the terminal, want 10:\n%s", n, got)
		}
		s.press("\x04")
		s.wantLeft()
	})
}

func TestChatResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, hang)
		s.press("hello\r")
		s.press("some words that are long enough")
		s.vt.resize(14)
		s.press("!")
		want := "nanobot · d\nemo\n\nYou: hello\n\n⠋ thinking\nYou: some wor\n     ds that\n     are long\n      enough!▮\n"
		if got := s.vt.text(t); !strings.HasSuffix(got, want) {
			t.Errorf("remains of the old area:\n%s\nwant\n%s", got, want)
		}
		s.press("\x03\x03\x03\x04")
		s.wantLeft()
	})
}

// NO_COLOR takes the colours and nothing else: lines are edited, completed and
// rendered as ever.
func TestChatWithoutColour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := func(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }
		s := start(t, Options{Getenv: env, Commands: []Command{{Name: "/help"}}}, func(_ context.Context, _ bus.Inbound, yield func(bus.Outbound, error) bool) {
			yield(bus.Outbound{Kind: bus.Final, Text: "a **bold** `word`"}, nil)
		})
		s.press("/h\t\r")
		if got := s.texts(); len(got) != 1 || got[0] != "/help" {
			t.Errorf("asked %q, want /help", got)
		}
		s.wantText("a bold word")
		if raw := s.vt.raw.String(); regexp.MustCompile(`\x1b\[[0-9;]*3[0-7]m`).MatchString(raw) || !strings.Contains(raw, "\x1b[0;1mbold") {
			t.Errorf("want attributes without colours: %q", raw)
		}
		s.press("\x04")
		s.wantLeft()
	})
}

// A new size is drawn at once, not at the next key.
func TestChatIdleResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan os.Signal, 1)
		s := start(t, Options{changed: changed}, answerOK())
		s.press("some words that are long enough")
		s.vt.resize(14)
		changed <- os.Interrupt // any signal but the end of a stop is a new size
		synctest.Wait()
		s.wantText("You: some wor\n     ds that\n     are long\n      enough▮\n")
		s.press("\x03\x04")
		s.wantLeft()
	})
}

// A long paste takes one row of the input, goes as a whole where the cursor
// goes, and is sent in full.
func TestChatLongPaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{}, answerOK())
		text := strings.Repeat("line\n", 41) + "last \U000F0000"
		s.press("see " + pasteStart + text + pasteEnd + " ok")
		s.wantText("You: see [42 pasted lines] ok▮")
		s.press("\x1b[D\x1b[D\x1b[D\x7f") // over " ok", and the paste is gone
		s.wantText("You: see ▮ok")
		s.press(pasteStart + text + pasteEnd + "\r")
		s.wantText("You: see [42 pasted lines] ok\n")
		want := "see " + strings.Repeat("line\n", 41) + "last  ok"
		if got := s.texts(); len(got) != 1 || got[0] != want {
			t.Errorf("sent %q, want %q", got, want)
		}
		s.press(pasteStart + text + pasteEnd + "\x03\x1b[A")
		s.wantText("last ▮") // a draft that was left comes back as it is
		s.press("\x03\x04")
		s.wantLeft()
	})
}

// The arrows choose from the menu, letters anywhere in a name find it, and
// /help names the keys as well.
func TestChatMenuArrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Commands: []Command{
			{Name: "/dream-restore"}, {Name: "/help"}, {Name: "/history"}, {Name: "/restart"},
		}}, answerOK())
		s.press("first\r")
		s.press("/h")
		s.press("\x1b[B")
		s.wantText("You: /help▮")
		s.press("\x1b[B")
		s.wantText("You: /history▮")
		s.press("\x1b[B\x1b[A")
		s.wantText("You: /history▮")
		s.press("\x15/h\x1b[A\x15") // from the other end
		s.press("/rsta")
		s.wantText("  /restart\n")
		s.press("\t\x15/store")
		s.wantText("  /dream-restore\n")
		s.press("\x1b[A")
		s.wantText("You: /dream-restore▮")
		s.press("\x15\x1b[A") // with nothing to choose from it is the history
		s.wantText("You: first▮")
		s.press("\x15/help\r")
		s.wantText("Keys:\n", "  Ctrl-R                search earlier")
		if got := s.texts(); len(got) != 2 || got[1] != "/help" {
			t.Errorf("asked %q", got)
		}
		s.press("\x1b[A\x1b[A") // an earlier command in the input is not a menu
		s.wantText("You: first▮")
		s.press("\x03\x04")
		s.wantLeft()
	})
}
