package approve_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/approve"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

// bench is a policy over a temporary workspace and a person who answers.
type bench struct {
	t      *testing.T
	ws     string
	policy *approve.Policy
	call   tool.Call

	mu      sync.Mutex
	asked   []bus.Question
	answers []string // "" is silence; one left over is a failure of the test
	onAsk   func(q bus.Question)
}

func newBench(t *testing.T, o approve.Options) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, ws: filepath.Join(root, "ws")}
	if err := os.Mkdir(b.ws, 0o700); err != nil {
		t.Fatal(err)
	}
	jail, err := diskio.OpenJail(diskio.JailOptions{Workspace: b.ws})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jail.Close() })
	o.Jail = jail
	if o.CommandPrefix == nil {
		o.CommandPrefix = shell.Prefix
	}
	o.CommandMatch = func(command, rule string) approve.Match { return approve.Match(shell.Matches(command, rule)) }
	if b.policy, err = approve.New(o); err != nil {
		t.Fatal(err)
	}
	b.call = tool.Call{
		ID: "1", SessionKey: "cli:direct", SenderID: "owner", TurnID: "t1", Route: bus.Route{Channel: "cli", ChatID: "direct"},
		Ask: b.ask, State: &tool.State{},
	}
	return b
}

func (b *bench) ask(_ context.Context, q bus.Question) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, q)
	if b.onAsk != nil {
		b.onAsk(q)
	}
	if len(b.answers) == 0 {
		b.t.Errorf("asked without an answer prepared: %s", q.Text)
		return "", tool.ErrNoAnswer
	}
	a := b.answers[0]
	b.answers = b.answers[1:]
	if a == "" {
		return "", tool.ErrNoAnswer
	}
	return a, nil
}

// check gives a call to the policy and says what came out: "allowed", or the
// code of the refusal, with " asked" when a person was involved.
func (b *bench) check(t tool.Tool, args map[string]any, answers ...string) string {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	c := b.call
	c.Name, c.Input = t.Name, raw
	b.answers = answers
	before := len(b.asked)
	res := b.policy.Check(b.t.Context(), t, c)
	out := "allowed"
	if res != nil {
		out = string(res.Code)
		if !res.IsError || res.Content.Blank() {
			b.t.Errorf("a refusal without words: %+v", res)
		}
	}
	if n := len(b.asked) - before; n > 0 {
		out += strings.Repeat(" asked", n)
	}
	if len(b.answers) > 0 {
		b.t.Errorf("%d answers were not needed", len(b.answers))
	}
	return out
}

func (b *bench) lastQuestion() string { return b.asked[len(b.asked)-1].Text }

func (b *bench) write(name, text string) {
	b.t.Helper()
	full := filepath.Join(b.ws, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

type args = map[string]any

var (
	execTool   = tool.Tool{Name: "exec", Sink: tool.SinkCommand, Exclusive: true}
	stdinTool  = tool.Tool{Name: "write_stdin", Sink: tool.SinkCommand}
	writeTool  = tool.Tool{Name: "write_file", Sink: tool.SinkWrite, Paths: tool.PathArg("path")}
	sendTool   = tool.Tool{Name: "message", Sink: tool.SinkMessage}
	cronTool   = tool.Tool{Name: "cron", Sink: tool.SinkSchedule}
	memoTool   = tool.Tool{Name: "my", Sink: tool.SinkMemory}
	spawnTool  = tool.Tool{Name: "spawn", Sink: tool.SinkSpawn}
	remoteTool = tool.Tool{Name: "mcp_x_do", Sink: tool.SinkRemote}
	strange    = tool.Tool{Name: "custom"}
	askUser    = tool.Tool{Name: "ask_user", Exclusive: true}
	readTool   = tool.Tool{Name: "read_file", ReadOnly: true}
	fetchTool  = tool.Tool{Name: "web_fetch", ReadOnly: true}
)

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	b.call.Ask = nil
	raw := json.RawMessage(`{"command":"git push"}`)
	c := b.call
	c.Input = raw
	res := b.policy.Check(t.Context(), execTool, c)
	if res == nil || res.Code != tool.DeniedApproval {
		t.Fatalf("got %+v", res)
	}
	for _, want := range []string{"Do not retry", "interactive chat", `{"tool":"exec","match":"git push","action":"allow"}`} {
		if !strings.Contains(res.Content.String(), want) {
			t.Errorf("%q is not in %s", want, res.Content.String())
		}
	}
	open := newBench(t, approve.Options{Mode: approve.Ask, FallbackAllow: true, Rules: []approve.Rule{{Tool: "exec", Match: "rm", Action: approve.ActionDeny}}})
	if got := open.check(execTool, args{"command": "touch x"}, ""); got != "allowed asked" {
		t.Errorf("fallback allow after silence: %s", got)
	}
	open.call.Ask = nil
	for command, want := range map[string]string{"touch x": "allowed", "rm x": "denied_policy"} {
		if got := open.check(execTool, args{"command": command}); got != want {
			t.Errorf("fallback allow, %s: %s", command, got)
		}
	}
	broken := newBench(t, approve.Options{Mode: approve.Ask, FallbackAllow: true})
	broken.call.Ask = func(context.Context, bus.Question) (string, error) { return "yes", errors.New("lost") }
	if got := broken.check(execTool, args{"command": "touch x"}); got != "denied_approval" {
		t.Errorf("a failed question: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	broken.call.Ask = func(ctx context.Context, _ bus.Question) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	}
	c = broken.call
	c.Input = raw
	if res := broken.policy.Check(ctx, execTool, c); res == nil || res.Code != tool.Cancelled {
		t.Errorf("a stopped turn: %+v", res)
	}
}

func TestRemarkReachesTheModel(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask})
	b.answers = []string{"no, use rsync instead"}
	c := b.call
	c.Input = json.RawMessage(`{"command":"scp a b"}`)
	res := b.policy.Check(t.Context(), execTool, c)
	if res == nil || !strings.Contains(res.Content.String(), "no, use rsync instead") {
		t.Fatalf("got %+v", res)
	}
	res = b.policy.Check(t.Context(), execTool, c)
	if res == nil || len(b.asked) != 1 || !strings.Contains(res.Content.String(), "already said no") {
		t.Errorf("the same call again: %+v, %d questions", res, len(b.asked))
	}
}

func TestQuestionShowsEverything(t *testing.T) {
	t.Parallel()
	b := newBench(t, approve.Options{Mode: approve.Ask, Timeout: time.Minute, Now: func() time.Time { return time.Unix(1000, 0) }})
	command := "echo " + strings.Repeat("word ", 2000) + "&& rm important"
	if got := b.check(execTool, args{"command": command, "working_dir": "sub"}, "no"); got != "denied_approval asked" {
		t.Fatal(got)
	}
	q := b.asked[0]
	if !strings.Contains(q.Text, command) || !strings.Contains(q.Text, "working_dir: sub\n") {
		t.Errorf("not all is shown: %s", q.Text)
	}
	if !q.Expires.Equal(time.Unix(1060, 0)) {
		t.Errorf("expires %v", q.Expires)
	}
	if got := b.check(execTool, args{"command": strings.Repeat("true;", 4000)}); got != "denied_approval" {
		t.Errorf("too long to read: %s", got)
	}
	if got := b.check(writeTool, args{"path": "a.txt", "content": strings.Repeat("x", 30_000)}, "yes"); got != "allowed asked" {
		t.Errorf("a long ordinary file: %s", got)
	}
	if !strings.Contains(b.lastQuestion(), "[26000 more characters are not shown]") {
		t.Errorf("question: %s", b.lastQuestion())
	}
	if got := b.check(writeTool, args{"path": "AGENTS.md", "content": strings.Repeat("x", 30_000)}); got != "denied_approval" {
		t.Errorf("long instructions: %s", got)
	}
	if got := b.check(remoteTool, args{"z": []any{1, "two"}, "a\x07b": "tab\there", "‹U+0041›": "\xff\u200b"}, "no"); got != "denied_approval asked" {
		t.Fatal(got)
	}
	for _, want := range []string{"z: [1,\"two\"]\n", "a‹U+0007›b: tab‹U+0009›here\n", "‹U+2039›U+0041‹U+203A›: \ufffd‹U+200B›\n"} {
		if !strings.Contains(b.lastQuestion(), want) {
			t.Errorf("%q is not in %s", want, b.lastQuestion())
		}
	}
}

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for want, texts := range map[approve.Answer][]string{
		approve.Yes:        {"y", "YES", " yes. ", "Ok!", "1", "1.", "(1)", "是", "好的。", "同意", "可以", "Ja", "Oui", "sí", "はい", "👍", "👍🏽", "✅", "yes, please", "go ahead", "`yes`"},
		approve.No:         {"n", "No.", "2", "否", "不", "不行！", "nein", "non", "👎", "❌", "stop", "", "  "},
		approve.ForTurn:    {"turn", "3", "this turn", "本轮"},
		approve.ForSession: {"session", "4", "always", "Always!", "总是", "immer", "yes, always"},
	} {
		for _, text := range texts {
			if got, remark := approve.ParseAnswer(text); got != want || remark != "" {
				t.Errorf("%q is %s %q, want %s", text, got, remark, want)
			}
		}
	}
	for _, text := range []string{"yes but", "maybe", "5", "what does it do?", "y e s", "yesno", "not yes", "ok?! no", "好不好", "no, use b"} {
		if got, remark := approve.ParseAnswer(text); got != approve.No || remark != text {
			t.Errorf("%q is %s %q, want a no with a remark", text, got, remark)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]approve.Options{
		"mode": {Mode: "sometimes"}, "no jail": {Mode: approve.Auto}, "action": {Rules: []approve.Rule{{Tool: "x"}}},
		"no tool": {Rules: []approve.Rule{{Action: approve.ActionAllow}}}, "pattern": {Rules: []approve.Rule{{Tool: "[", Action: approve.ActionAllow}}},
	} {
		if _, err := approve.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
