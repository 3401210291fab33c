package reach_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/reach"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// person answers questions and remembers them.
type person struct {
	mu      sync.Mutex
	answers []string
	asked   []bus.Question
}

func (p *person) ask(_ context.Context, q bus.Question) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q)
	if len(p.answers) == 0 {
		return "", tool.ErrNoAnswer
	}
	a := p.answers[0]
	p.answers = p.answers[1:]
	return a, nil
}

func (p *person) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

func call(p *person, session, turn string) tool.Call {
	in, _ := json.Marshal(map[string]string{"command": "curl https://example.com/x"})
	c := tool.Call{Name: "exec", SessionKey: session, TurnID: turn, SenderID: "me", Input: in}
	if p != nil {
		c.Ask = p.ask
	}
	return c
}

// command is Policy.Command for calls that stay as they are.
func command(t *testing.T, p *reach.Policy, c tool.Call) *httpsafe.Access {
	t.Helper()
	a, _ := p.Command(t.Context(), c)
	return a
}

func host(name string) httpsafe.HostRequest { return httpsafe.HostRequest{Host: name, Port: 443} }

func rules(t *testing.T, list ...string) []httpsafe.HostRule {
	t.Helper()
	var out []httpsafe.HostRule
	for _, s := range list {
		r, err := httpsafe.ParseHostRule(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	type step struct {
		session, turn, host string
		want                httpsafe.Reach
		asked               int // questions so far
	}
	for name, tt := range map[string]struct {
		answers []string
		steps   []step
		kept    string
	}{
		"turn": {[]string{"turn", "no"}, []step{
			{"s", "1", "example.com", httpsafe.ReachFull, 1},
			{"s", "1", "example.com", httpsafe.ReachFull, 1},
			{"s", "1", "www.example.com", httpsafe.ReachNone, 2},
			{"s", "2", "example.com", httpsafe.ReachNone, 3},
		}, ""},
		"a plain yes is for the turn": {[]string{"Yes."}, []step{
			{"s", "1", "example.com", httpsafe.ReachFull, 1}, {"s", "2", "example.com", httpsafe.ReachNone, 2},
		}, ""},
		"session": {[]string{"session"}, []step{
			{"s", "1", "example.com", httpsafe.ReachFull, 1},
			{"s", "2", "example.com", httpsafe.ReachFull, 1},
			{"other", "3", "example.com", httpsafe.ReachNone, 2},
		}, ""},
		"always": {[]string{"always"}, []step{
			{"s", "1", "example.com", httpsafe.ReachFull, 1}, {"other", "2", "example.com", httpsafe.ReachFull, 1},
		}, "example.com"},
		"no is remembered for the turn": {[]string{"no", "turn"}, []step{
			{"s", "1", "example.com", httpsafe.ReachNone, 1},
			{"s", "1", "example.com", httpsafe.ReachNone, 1},
			{"s", "2", "example.com", httpsafe.ReachFull, 2},
		}, ""},
		"a sentence is a no": {[]string{"yes but only if it is safe"}, []step{{"s", "1", "example.com", httpsafe.ReachNone, 1}}, ""},
		"silence is a no":    {nil, []step{{"s", "1", "example.com", httpsafe.ReachNone, 1}, {"s", "1", "example.com", httpsafe.ReachNone, 1}}, ""},
		"lists are not asked about": {nil, []step{
			{"s", "1", "pypi.org", httpsafe.ReachRead, 0},
			{"s", "1", "mine.example.org", httpsafe.ReachFull, 0},
			{"s", "1", "a.wild.example.org", httpsafe.ReachFull, 0},
			{"s", "1", "wild.example.org", httpsafe.ReachNone, 1},
			{"s", "1", "pypi.org.evil.example", httpsafe.ReachNone, 2},
			{"s", "1", "evilpypi.org", httpsafe.ReachNone, 3},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kept []string
			p := reach.New(reach.Options{Allowed: rules(t, "mine.example.org", "*.wild.example.org"), Keep: func(_ context.Context, e string) error {
				kept = append(kept, e)
				return nil
			}})
			who := &person{answers: tt.answers}
			for i, s := range tt.steps {
				a, _ := p.Command(t.Context(), call(who, s.session, s.turn))
				got, err := a.Decide(t.Context(), host(s.host))
				if got != s.want || (err == nil) != (s.want != httpsafe.ReachNone) {
					t.Errorf("step %d: %v, %v, want %v", i, got, err, s.want)
				}
				if n := who.count(); n != s.asked {
					t.Errorf("step %d: %d questions, want %d", i, n, s.asked)
				}
			}
			if got := strings.Join(kept, " "); got != tt.kept {
				t.Errorf("kept %q, want %q", got, tt.kept)
			}
		})
	}
}

// Grants are for a port, for a person, and end with the conversation; a list
// that cannot be written still means yes for now.
func TestGrantsAreNarrow(t *testing.T) {
	t.Parallel()
	p := reach.New(reach.Options{Keep: func(context.Context, string) error { return errors.New("read-only disk") }})
	who := &person{answers: []string{"session", "no", "no", "always", "no"}}
	decide := func(c tool.Call, r httpsafe.HostRequest) httpsafe.Reach {
		a, _ := p.Command(t.Context(), c)
		got, _ := a.Decide(t.Context(), r)
		return got
	}
	mine := call(who, "s", "1")
	if decide(mine, host("example.com")) != httpsafe.ReachFull || decide(mine, httpsafe.HostRequest{Host: "example.com", Port: 22}) != httpsafe.ReachNone {
		t.Error("a yes to a web site is not one to its port 22")
	}
	theirs := call(who, "s", "1")
	theirs.SenderID = "another"
	if decide(theirs, host("example.com")) != httpsafe.ReachNone {
		t.Error("the yes of one person counted for another")
	}
	if decide(call(who, "s", "2"), host("kept.example.com")) != httpsafe.ReachFull || decide(call(who, "s", "3"), host("kept.example.com")) != httpsafe.ReachFull {
		t.Error("what cannot be kept for good does not hold for the conversation")
	}
	p.Forget("s")
	if decide(call(who, "s", "4"), host("kept.example.com")) != httpsafe.ReachNone {
		t.Error("a new conversation knows the answers of the old one")
	}
	if who.count() != 5 {
		t.Errorf("%d questions", who.count())
	}

	who.answers = []string{"turn", "no", "turn", "no", "turn", "no"}
	if decide(call(who, "s", "5"), host("once.example.com")) != httpsafe.ReachFull || decide(call(who, "other", "5"), host("once.example.com")) != httpsafe.ReachNone {
		t.Error("a yes for a turn counted in another conversation, whose turn has the same id")
	}
	if decide(call(who, "s", ""), host("once.example.com")) != httpsafe.ReachFull || decide(call(who, "s", ""), host("once.example.com")) != httpsafe.ReachNone {
		t.Error("a yes for a call without a turn counted for the next one")
	}
	if decide(call(who, "over", "6"), host("once.example.com")) != httpsafe.ReachFull {
		t.Error("a yes for a turn did not count")
	}
	p.Forget("over")
	if decide(call(who, "over", "6"), host("once.example.com")) != httpsafe.ReachNone {
		t.Error("a yes for a turn outlived the conversation")
	}
}

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	p := reach.New(reach.Options{Allowed: rules(t, "a.example.com")})
	_, err := command(t, p, call(nil, "s", "1")).Decide(t.Context(), host("example.com"))
	if err == nil || !strings.Contains(err.Error(), "nanobot config set tools.exec.allowedHosts.1 example.com") {
		t.Errorf("got %v, want what the owner can do", err)
	}
	who := &person{answers: []string{"always"}}
	guest := call(who, "s", "2")
	guest.Scope = "guest"
	if _, err := command(t, p, guest).Decide(t.Context(), host("example.com")); err == nil || who.count() != 0 {
		t.Errorf("a guest allowed a host: %v", err)
	}
	server := p.Server("tools.mcpServers.x.allowedHosts", rules(t, "b.example.com"))
	for name, want := range map[string]httpsafe.Reach{"b.example.com": httpsafe.ReachFull, "a.example.com": httpsafe.ReachNone, "pypi.org": httpsafe.ReachRead} {
		if got, err := server.Decide(t.Context(), host(name)); got != want {
			t.Errorf("%s for a server: %v, %v", name, got, err)
		}
	}
}

// Connections that want the same host at once wait for one question.
func TestOneQuestion(t *testing.T) {
	t.Parallel()
	p := reach.New(reach.Options{})
	asked, answer := make(chan bus.Question, 10), make(chan string)
	c := call(nil, "s", "1")
	c.Ask = func(_ context.Context, q bus.Question) (string, error) {
		asked <- q
		return <-answer, nil
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if got, err := command(t, p, c).Decide(t.Context(), host("example.com")); got != httpsafe.ReachFull {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	q := <-asked
	answer <- "turn"
	wait.Wait()
	if len(asked) != 0 {
		t.Errorf("%d more questions", len(asked))
	}
	for _, want := range []string{"example.com", "443", "  | curl https://example.com/x", "did not name this host"} {
		if !strings.Contains(q.Text, want) {
			t.Errorf("the question does not say %q:\n%s", want, q.Text)
		}
	}
}

// The end of the command that asks does not decide for another one.
func TestAskerEnds(t *testing.T) {
	t.Parallel()
	p := reach.New(reach.Options{})
	begun := make(chan struct{}, 2)
	c := call(nil, "s", "1")
	c.Ask = func(ctx context.Context, _ bus.Question) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	life, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		a, _ := p.Command(life, c)
		_, err := a.Decide(life, host("example.com"))
		done <- err
	}()
	<-begun
	end()
	if err := <-done; err == nil {
		t.Error("allowed without an answer")
	}
	who := &person{answers: []string{"turn"}}
	if got, err := command(t, p, call(who, "s", "1")).Decide(t.Context(), host("example.com")); got != httpsafe.ReachFull {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	use := func(h string, n int) httpsafe.Use { return httpsafe.Use{Host: h, Requests: 1, Bytes: n} }
	for name, tt := range map[string]struct {
		use     func(i int) httpsafe.Use
		tainted bool
		atLeast int // that pass without a question
		atMost  int
	}{
		"clean turns are not counted": {func(int) httpsafe.Use { return use("x.example.com", 1000) }, false, 500, 500},
		"many short requests":         {func(int) httpsafe.Use { return use("x.example.com", 1) }, true, 10, 64},
		"few long ones":               {func(int) httpsafe.Use { return use("x.example.com", 8<<10) }, true, 1, 4},
		"names of hosts":              {func(i int) httpsafe.Use { return httpsafe.Use{Host: fmt.Sprintf("data%d.example.com", i)} }, true, 4, 16},
		"a host of the owner":         {func(int) httpsafe.Use { return use("mine.example.org", 100) }, true, 200, 512},
		"a host in the user's words":  {func(int) httpsafe.Use { return use("said.example.org", 100) }, true, 200, 512},
		"package hosts": {func(int) httpsafe.Use {
			return httpsafe.Use{Host: "pypi.org", Class: httpsafe.ClassPackages, Requests: 1, Bytes: 40}
		}, true, 200, 512},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := reach.New(reach.Options{Any: true, Allowed: rules(t, "mine.example.org")})
			who := &person{answers: []string{"no"}}
			c := call(who, "s", "1")
			c.Tainted, c.UserText = tt.tainted, "look at https://said.example.org/page, please"
			passed := 0
			for i := range 1000 {
				// Each command of the turn draws on the same budget.
				if command(t, p, c).Spend(t.Context(), tt.use(i)) != nil {
					break
				}
				if passed++; passed == 500 && !tt.tainted {
					break
				}
			}
			if passed < tt.atLeast || passed > tt.atMost {
				t.Errorf("%d passed, want %d to %d", passed, tt.atLeast, tt.atMost)
			}
			if want := min(1, len(who.asked)); tt.tainted && (want != 1 || !strings.Contains(who.asked[0].Text, "requests")) {
				t.Errorf("asked %v", who.asked)
			}
			// The web tools share it, and a no holds for the turn.
			if err := p.Fetch(t.Context(), c, tt.use(0).Host, 64<<20); tt.tainted && (err == nil || who.count() != 1) {
				t.Errorf("after a no: %v, %d questions", err, who.count())
			}
		})
	}
	p := reach.New(reach.Options{Any: true})
	who := &person{answers: []string{"yes", "no"}}
	c := call(who, "s", "1")
	c.Tainted = true
	const most = 4 * 64 // with one yes
	passed := 0
	for passed <= most && p.Fetch(t.Context(), c, "x.example.com", 1) == nil {
		passed++
	}
	if passed > most {
		t.Fatalf("a tainted turn with one yes sends without a limit: more than %d requests passed, %d questions", most, who.count())
	}
	if passed <= 64 || who.count() != 2 {
		t.Errorf("%d requests passed with one yes, want 65 to %d; %d questions, want 2", passed, most, who.count())
	}
	c.TurnID, c.Tainted = "late", false
	a, taint := p.Command(t.Context(), c)
	big := httpsafe.Use{Host: "x.example.com", Bytes: 1 << 30}
	if err := a.Spend(t.Context(), big); err != nil {
		t.Errorf("a clean command: %v", err)
	}
	if taint(); a.Spend(t.Context(), big) == nil {
		t.Error("what a command sends is not counted after it was tainted")
	}
	who = &person{answers: []string{"yes"}}
	guest := call(who, "g", "1")
	guest.Tainted, guest.Scope = true, "test:group/7"
	if err := p.Fetch(t.Context(), guest, "x.example.com", 64<<20); err == nil || who.count() != 0 {
		t.Errorf("a guest's turn sends more: %v, %d questions", err, who.count())
	}
	c.Ask, c.Tainted = nil, true
	c.TurnID = "2"
	for range 100 {
		if err := p.Fetch(t.Context(), c, "x.example.com", 1); err != nil {
			if !strings.Contains(err.Error(), "no question can be asked") {
				t.Errorf("got %v", err)
			}
			return
		}
	}
	t.Error("a turn without a person sends without a limit")
}

func TestNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"get https://example.com/x": true, "Example.COM": true, "see example.com.": true, "(example.com)": true, "example.com:443": true,
		"data.example.com": false, "example.com.evil.net": false, "notexample.com": false, "me@example.com": false, "example.community": false, "": false,
	} {
		if got := reach.Named(text, "example.com"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
