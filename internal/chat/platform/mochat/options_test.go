package mochat

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/chattest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mochat/mochattest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ section, want string }{
		"smallest":   {`{"clawToken":"claw_x"}`, ""},
		"no token":   {`{}`, "clawToken is missing"},
		"blanks":     {`{"clawToken":"SECRET x"}`, "without quotes and blanks"},
		"base":       {`{"clawToken":"SECRET","baseUrl":"mochat.io"}`, "baseUrl: an address"},
		"socket":     {`{"clawToken":"SECRET","socketUrl":"ws://x"}`, "socketUrl: an address"},
		"misspelled": {`{"clawtoken":"SECRET"}`, `"clawToken"`},
		"a list":     {`{"clawToken":"SECRET","sessions":"x"}`, "sessions: a list is needed"},
	} {
		_, err := decode(json.RawMessage(c.section))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!chat.IsFatal(err) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want it fatal and about %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "SECRET"):
			t.Errorf("%s: a secret is in %v", name, err)
		}
	}
	o, err := decode(json.RawMessage(`{"clawToken":"x","replyDelayMs":-5,"refreshIntervalMs":1,"watchTimeoutMs":99999999999,"watchLimit":0,"socketPath":" my/path/ ","baseUrl":"http://h:1/"}`))
	if err != nil || o.delay() != 0 || o.refresh() != time.Second || o.watch() != 5*time.Minute || o.limit() != 1 || o.SocketPath != "/my/path" || o.SocketURL != "http://h:1" {
		t.Errorf("limits: %+v, %v", o, err)
	}
}

// Sections of Python nanobot load as they are, with all their keys.
func TestPythonSections(t *testing.T) {
	t.Parallel()
	for name, section := range map[string]string{
		"0.1.5": `{"enabled":true,"baseUrl":"https://mochat.io","socketUrl":"https://mochat.io","socketPath":"/socket.io","socketDisableMsgpack":true,
			"socketReconnectDelayMs":1500,"socketMaxReconnectDelayMs":9000,"socketConnectTimeoutMs":8000,"refreshIntervalMs":20000,"watchTimeoutMs":15000,"watchLimit":50,
			"retryDelayMs":700,"maxRetryAttempts":3,"clawToken":"claw_x","agentUserId":"6982abcdef","sessions":["*"," session_a "],"panels":["*","p1","p1"],"allowFrom":["u1","u2"],
			"mention":{"requireInGroups":true},"groups":{"*":{"requireMention":true},"g1":{"requireMention":false},"p2":{"requireMention":false}},"replyDelayMode":"non-mention","replyDelayMs":60000}`,
		"head": `{"enabled":true,"baseUrl":"https://mochat.io","socketUrl":"","socketPath":"/socket.io","socketDisableMsgpack":true,
			"socketReconnectDelayMs":1500,"socketMaxReconnectDelayMs":9000,"socketConnectTimeoutMs":8000,"refreshIntervalMs":20000,"watchTimeoutMs":15000,"watchLimit":50,
			"retryDelayMs":700,"maxRetryAttempts":3,"clawToken":"claw_x","agentUserId":"6982abcdef","sessions":["*","session_a"],"panels":["*","p1"],"allowFrom":["u1","u2"],
			"mention":{"requireInGroups":true},"groups":{"*":{"requireMention":true},"g1":{"requireMention":false},"p2":{"requireMention":false}},"replyDelayMode":"non-mention","replyDelayMs":60000,
			"streaming":true,"sendProgress":true,"sendToolHints":false,"showReasoning":true}`,
	} {
		o, err := decode(json.RawMessage(section))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o.Common = chat.Common{Lists: access.Lists{AllowFrom: o.AllowFrom}}
		token := o.ClawToken.Reveal()
		o.ClawToken = defaults().ClawToken
		want := options{
			Common: chat.Common{Lists: access.Lists{AllowFrom: []string{"u1", "u2"}}}, BaseURL: "https://mochat.io", SocketURL: "https://mochat.io", SocketPath: "/socket.io", SocketDisableMsgpack: true,
			SocketReconnectDelayMS: 1500, SocketMaxReconnectDelayMS: 9000, SocketConnectTimeoutMS: 8000, RefreshIntervalMS: 20000, WatchTimeoutMS: 15000, WatchLimit: 50,
			RetryDelayMS: 700, MaxRetryAttempts: 3, AgentUserID: "6982abcdef", Sessions: []string{"*", "session_a"}, Panels: []string{"*", "p1"},
			Mention: mentionRule{true}, Groups: map[string]groupRule{"*": {true}, "g1": {}, "p2": {}}, ReplyDelayMode: "non-mention", ReplyDelayMS: 60000,
		}
		if token != "claw_x" || !reflect.DeepEqual(*o, want) {
			t.Errorf("%s: %+v, want %+v", name, o, want)
		}
		got := map[string]bool{"by group": o.required("g1", "p9"), "by panel": o.required("g9", "p2"), "by star": o.required("g9", "p9")}
		if d := cmp.Diff(map[string]bool{"by group": false, "by panel": false, "by star": true}, got); d != "" {
			t.Errorf("%s: mentions (-want +got):\n%s", name, d)
		}
	}
	if o := defaults(); o.required("g", "p") || o.delay() != 2*time.Minute {
		t.Error("the defaults are not those of Python nanobot")
	}
	for policy, want := range map[access.Policy][2]bool{access.Mention: {true, false}, access.Open: {false, false}, access.Allowlist: {false, true}} {
		o := defaults()
		o.GroupPolicy, o.GroupAllowFrom = policy, []string{"g2"}
		if got := [2]bool{o.required("g", "p"), o.barred("g", "p")}; got != want || o.barred("g2", "p") {
			t.Errorf("groupPolicy %s: required and barred are %v, want %v", policy, got, want)
		}
	}
}

// Every setting has a sentence and stands in both manuals.
func TestOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"mochat.md", "mochat.zh-CN.md"} {
		manual, err := os.ReadFile("../../../../docs/how-to/channels/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for f := range reflect.TypeFor[options]().Fields() {
			if key := f.Tag.Get("json"); !f.Anonymous && (f.Tag.Get("doc") == "" || !strings.Contains(string(manual), "`"+key+"`")) {
				t.Errorf("%s has no sentence, or is not in docs/how-to/channels/%s", key, file)
			}
		}
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		r := newRig(t, nil)
		r.fake.Plain(plain)
		report, err := probe(t.Context(), r.deps, section(t, r.fake, nil))
		if err != nil || report.Identity != mochattest.Self || len(report.Checks) != 2 || !report.Checks[0].OK || !report.Checks[1].OK {
			t.Errorf("probe: %+v, %v", report, err)
		}
	}
	r := newRig(t, nil)
	r.fake.Offline(true)
	report, err := probe(t.Context(), r.deps, section(t, r.fake, fields{"agentUserId": ""}))
	if err != nil || len(report.Checks) != 3 || report.Checks[1].OK || report.Checks[2].OK || !strings.Contains(report.Checks[2].Detail, "polled") {
		t.Errorf("without a socket: %+v, %v", report, err)
	}
	if _, err := probe(t.Context(), r.deps, section(t, r.fake, fields{"clawToken": "claw_wrong"})); !chat.IsFatal(err) || strings.Contains(err.Error(), "claw_wrong") {
		t.Errorf("with a wrong token: %v", err)
	}
}

// person answers the questions of a login.
type person struct {
	answers []string
	notes   []string
}

func (p *person) Tell(s chat.Step) { p.notes = append(p.notes, s.Note) }

func (p *person) Ask(context.Context, chat.Question) (string, error) {
	a := p.answers[0]
	p.answers = p.answers[1:]
	return a, nil
}

// A login registers an agent. An email address alone does not make its user the owner.
func TestLogin(t *testing.T) {
	t.Parallel()
	fake := mochattest.New()
	t.Cleanup(fake.Close)
	rig := chattest.NewRig(t)
	d := rig.Deps("mochat")
	r := newRig(t, nil)
	d.Client = r.deps.Client
	empty := json.RawMessage(`{"baseUrl":"` + fake.URL() + `"}`)
	for email, notes := range map[string]int{"ann@mochat.example": 0, "none@mochat.example": 1} {
		p := &person{answers: []string{"Nano", email}}
		result, err := login(t.Context(), d, empty, p, false)
		want := chat.Result{Identity: mochattest.Self, Patch: map[string]any{
			"clawToken": mochattest.Token, "agentUserId": mochattest.Self, "sessions": []string{"*"}, "panels": []string{"*"},
		}}
		if err != nil || !reflect.DeepEqual(result, want) || len(p.notes) != notes {
			t.Errorf("%s: %+v, %v, notes %q", email, result, err, p.notes)
		}
	}
	if calls := fake.Calls("bind"); calls[0].Body["greeting_msg"] == greeting || calls[0].Body["greeting_msg"] == "" {
		t.Errorf("the greeting is %v, want Chinese", calls[0].Body["greeting_msg"])
	}
	if _, err := login(t.Context(), d, section(t, fake, nil), &person{}, false); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("with a token: %v", err)
	}
}

// Where nothing was asked, the channel does not say that it is connected.
func TestNothingAskedIsNoConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t, fields{"sessions": []string{"s1"}, "panels": []string{"p1"}, "baseUrl": "http://127.0.0.1:1"})
	l := newLine(r.bot, nil, nil, nil)
	if err := l.list(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := r.States(); len(got) > 0 {
		t.Errorf("states %q", got)
	}
}
