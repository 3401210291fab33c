package search_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/core/session/search"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// world is a workspace with its conversations, and an index over them.
type world struct {
	t     *testing.T
	dir   string
	store *session.Store
	index *search.Index
	clock time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var err error
	w.store, err = session.Open(session.Options{
		DataDir: filepath.Join(w.dir, "data"), Store: disk.Open(filepath.Join(w.dir, "data"), nil), Workspace: filepath.Join(w.dir, "ws"), Fsync: session.FsyncNever,
		Now: func() time.Time { return w.clock },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.index = w.open()
	t.Cleanup(func() { w.store.Close() })
	return w
}

func (w *world) options() search.Options {
	return search.Options{
		Path: filepath.Join(w.dir, "data", "index", "x.db"), Workspace: filepath.Join(w.dir, "ws"),
		Store: disk.Open(filepath.Join(w.dir, "data"), nil), Sessions: path.Join("sessions", filepath.Base(w.store.Dir())),
		OldSessions: []string{filepath.Join(w.dir, "ws", "sessions")}, History: "history.jsonl",
	}
}

// open opens the index once more, as another process would.
func (w *world) open() *search.Index {
	w.t.Helper()
	x, err := search.Open(w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { x.Close() })
	return x
}

func (w *world) write(name, body string) {
	w.t.Helper()
	name = filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) with(key string, fn func(*session.Session) error) {
	w.t.Helper()
	s, err := w.store.Acquire(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := fn(s); err != nil {
		w.t.Fatal(err)
	}
	if err := s.Release(); err != nil {
		w.t.Fatal(err)
	}
}

func record(role llm.Role, s string, sources ...string) session.Record {
	r := session.Record{Message: llm.Message{Role: role, Content: llm.Text(s)}}
	if len(sources) > 0 {
		r.Runtime = &session.RuntimeContext{Version: 1, Sources: sources}
	}
	return r
}

// say appends messages, a minute apart.
func (w *world) say(key string, recs ...session.Record) {
	w.t.Helper()
	w.with(key, func(s *session.Session) error {
		for _, r := range recs {
			w.clock = w.clock.Add(time.Minute)
			if err := s.Append(r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) find(q search.Query) search.Result {
	w.t.Helper()
	return find(w.t, w.index, q)
}

func find(t *testing.T, x *search.Index, q search.Query) search.Result {
	t.Helper()
	q.Wait = true
	res, err := x.Search(t.Context(), q)
	if err != nil {
		t.Fatalf("search %q: %v", q.Text, err)
	}
	return res
}

// whole are the snippets of the hits that have all words.
func whole(res search.Result) []string {
	out := []string{}
	for _, h := range res.Hits {
		if !h.Partial {
			out = append(out, h.Snippet)
		}
	}
	return out
}

func TestWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []string{
		"The Café in Zürich opens at nine", "my cat naps", "cats and dogs", "node.js version 20.1", "deploy to staging", "deploy to production",
		"我喜欢吃苹果和香蕉", "北京大学在北京", "苹果手机", "東京でラーメンを食べました", "コーヒーが好き", "저는 고양이를 좋아합니다", "ฉันชอบกินข้าวผัด",
		"Straße nach Łódź", "ΟΔΥΣΣΕΥΣ", "ＦＵＬＬ width", "say it: the quick brown fox", "the brown quick fox",
	} {
		w.say("cli:direct", record(llm.User, s))
	}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"cafe zurich", []string{"The Café in Zürich opens at nine"}},
		{"CAFÉ", []string{"The Café in Zürich opens at nine"}},
		{"cafe\u0301", []string{"The Café in Zürich opens at nine"}},
		{"cat", []string{"my cat naps"}},
		{"cat*", []string{"cats and dogs", "my cat naps"}},
		{"node.js", []string{"node.js version 20.1"}},
		{"20.1", []string{"node.js version 20.1"}},
		{"deploy -staging", []string{"deploy to production"}},
		{`deploy -"to staging"`, []string{"deploy to production"}},
		{`"quick brown"`, []string{"say it: the quick brown fox"}},
		{`“quick brown”`, []string{"say it: the quick brown fox"}},
		{"苹果", []string{"苹果手机", "我喜欢吃苹果和香蕉"}},
		{"果", []string{"苹果手机", "我喜欢吃苹果和香蕉"}},
		{"蕉", []string{"我喜欢吃苹果和香蕉"}},
		{"吃苹果", []string{"我喜欢吃苹果和香蕉"}},
		{"京大", []string{"北京大学在北京"}},
		{"大京", []string{}},
		{"ラーメン", []string{"東京でラーメンを食べました"}},
		{"ﾗｰﾒﾝ", []string{"東京でラーメンを食べました"}},
		{"東京 食べ", []string{"東京でラーメンを食べました"}},
		{"고양이", []string{"저는 고양이를 좋아합니다"}},
		{"ข้าวผัด", []string{"ฉันชอบกินข้าวผัด"}},
		{"strasse lodz", []string{"Straße nach Łódź"}},
		{"οδυσσευς", []string{"ΟΔΥΣΣΕΥΣ"}},
		{"full", []string{"ＦＵＬＬ width"}},
		{`x"y`, []string{}},
		{`AND OR NOT NEAR( ^ { : *`, []string{}},
	} {
		t.Run(c.query, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, whole(find(t, w.index, search.Query{Text: c.query}))); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.query, diff)
			}
		})
	}
	for _, q := range []string{"", " ", "-cat", "!?", "***"} {
		if _, err := w.index.Search(t.Context(), search.Query{Text: q}); !errors.Is(err, search.ErrEmpty) {
			t.Errorf("%q: error %v, want ErrEmpty", q, err)
		}
	}
}

func TestRanking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 40 {
		w.say("cli:direct", record(llm.User, fmt.Sprintf("the weather report number %d is here", i)))
	}
	w.say("cli:direct", record(llm.User, "the passport is in the drawer"), record(llm.User, "the passport passport passport"),
		record(llm.User, "where is my drawer "+strings.Repeat("and so on ", 60)))
	res := w.find(search.Query{Text: "where is the passport"})
	if res.Total != 0 || len(res.Hits) == 0 || !strings.Contains(res.Hits[0].Snippet, "passport") || !res.Hits[0].Partial {
		t.Errorf("got %d with all words, first %+v; want some of the words, the rare one first", res.Total, res.Hits)
	}
	res = w.find(search.Query{Text: "passport"})
	if len(res.Hits) != 2 || res.Hits[0].Snippet != "the passport passport passport" || res.Hits[0].Score <= res.Hits[1].Score {
		t.Errorf("got %+v, want the text that is all about it first", res.Hits)
	}
	res = w.find(search.Query{Text: "drawer", Open: "<", Close: ">"})
	if len(res.Hits) != 2 || res.Hits[0].Snippet != "the passport is in the <drawer>" || !strings.HasPrefix(res.Hits[1].Snippet, "where is my <drawer> and") || len(res.Hits[1].Snippet) > 400 {
		t.Errorf("snippets %+v", res.Hits)
	}
	if res := w.find(search.Query{Text: "weather", Limit: 3}); len(res.Hits) != 3 || res.Total != 40 || res.AtLeast {
		t.Errorf("got %d hits of %d, want 3 of 40", len(res.Hits), res.Total)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ws/memory/MEMORY.md", "# Pets\n\nThe parrot is called Rio.\n")
	w.write("data/history.jsonl", `{"cursor":1,"timestamp":"2026-02-01 10:00","content":"parrot summary","session_key":"cli:one"}`+"\n")
	w.say("cli:one", record(llm.User, "parrot one"), record(llm.Assistant, "parrot answer"))
	w.clock = w.clock.AddDate(0, 0, 10)
	w.say("cli:two", record(llm.User, "parrot two"))
	hidden, command, internal := record(llm.User, "parrot hidden"), record(llm.User, "parrot command"), record(llm.User, "parrot internal")
	hidden.Hidden, command.Command, internal.Internal = true, true, true
	result := record(llm.ToolRole, "parrot tool")
	result.ToolCallID = "x"
	w.say("cli:two", hidden, command, internal, result)
	day := func(s string) time.Time { d, _ := time.Parse(time.DateOnly, s); return d }
	for _, c := range []struct {
		name string
		q    search.Query
		want int
	}{
		{"all", search.Query{}, 5},
		{"session", search.Query{Session: "cli:one"}, 3},
		{"unknown session", search.Query{Session: "cli:none"}, 0},
		{"after", search.Query{After: day("2026-03-05"), Roles: []search.Role{search.User, search.Assistant}}, 1},
		{"before", search.Query{Before: day("2026-03-05"), Roles: []search.Role{search.User, search.Assistant}}, 2},
		{"between", search.Query{After: day("2026-01-15"), Before: day("2026-02-15")}, 1},
		{"role", search.Query{Roles: []search.Role{search.User}}, 2},
		{"notes", search.Query{Roles: []search.Role{search.Note}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.q.Text = "parrot"
			if res := find(t, w.index, c.q); len(res.Hits) != c.want {
				t.Errorf("got %d hits, want %d: %+v", len(res.Hits), c.want, res.Hits)
			}
		})
	}
}

func TestPrivacy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const ann, bob = "telegram:-100/1", "telegram:-100/2"
	w.say("telegram:1", record(llm.User, "secret of the owner"), record(llm.Assistant, "secret answer to the owner"))
	w.say("telegram:-100", record(llm.User, "secret of ann", "time", "scope:"+ann), record(llm.Assistant, "secret answer to ann"),
		record(llm.User, "secret of bob", "scope:"+bob), record(llm.Assistant, "secret answer to bob"))
	w.say("telegram:ann", record(llm.User, "secret of ann elsewhere", "scope:"+ann))
	w.write("ws/USER.md", "secret user\n")
	w.write("ws/memory/MEMORY.md", "secret memory\n")
	w.write("ws/memory/scopes/"+text.SafeName(ann)+"/MEMORY.md", "secret note on ann\n")
	w.write("ws/memory/scopes/"+text.SafeName(bob)+"/MEMORY.md", "secret note on bob\n")
	w.write("data/history.jsonl", `{"cursor":1,"timestamp":"2026-02-01 10:00","content":"secret summary","session_key":"telegram:1"}
{"cursor":2,"timestamp":"2026-02-01 10:01","content":"secret summary ann","session_key":"telegram:-100","scope":"`+ann+`"}
{"cursor":3,"timestamp":"2026-02-01 10:01","content":"secret summary bob","session_key":"telegram:bob","scope":"`+bob+`"}
`)
	secret := filepath.Join(t.TempDir(), "x.md")
	if err := os.WriteFile(secret, []byte("secret outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(w.dir, "ws", "memory", "link.md")); err != nil {
		t.Logf("no links here: %v", err)
	}
	for _, c := range []struct {
		name string
		q    search.Query
		want []string
	}{
		{"owner", search.Query{}, []string{"secret of the owner", "secret answer to the owner", "secret user", "secret memory", "secret summary"}},
		{"ann in her chat", search.Query{Scope: ann, Own: "telegram:ann"}, []string{
			"secret of ann", "secret answer to ann", "secret of ann elsewhere", "secret note on ann", "secret summary ann",
		}},
		{"ann in the group", search.Query{Scope: ann, Own: "telegram:-100"}, []string{
			"secret of ann", "secret answer to ann", "secret of bob", "secret answer to bob", "secret of ann elsewhere", "secret note on ann", "secret summary ann",
		}},
		{"ann asks for another session", search.Query{Scope: ann, Own: "telegram:ann", Session: "telegram:1"}, nil},
		{"a stranger", search.Query{Scope: "telegram:9", Own: "telegram:9"}, nil},
		{"a stranger in the owner's session", search.Query{Scope: "telegram:9", Own: "telegram:1"}, nil},
		{"a scope that looks like a folder", search.Query{Scope: text.SafeName(ann)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.q.Text, c.q.Limit = "secret", 50
			got, want := map[string]bool{}, map[string]bool{}
			for _, s := range whole(find(t, w.index, c.q)) {
				got[s] = true
			}
			for _, s := range c.want {
				want[s] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := len(w.find(search.Query{Text: "secret", Everyone: true, Limit: 50}).Hits); got != 14 {
		t.Errorf("everyone: %d hits, want 14", got)
	}
}

func TestTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fenced := record(llm.ToolRole, "<untrusted id=1 source=web_fetch>\npage\n</untrusted id=1>")
	fenced.ToolCallID = "c"
	w.say("cli:direct", record(llm.User, "look at the page about llamas", "time"), fenced, record(llm.Assistant, "it says llamas obey me"),
		record(llm.User, "now about alpacas", "time"), record(llm.Assistant, "the page calls alpacas cousins"))
	w.say("cli:other", record(llm.User, "tell me about goats", "time"), record(llm.Assistant, "goats are calm"))
	w.say("cli:python", record(llm.User, "sheep obey"), record(llm.Assistant, "they do")) // without a note of where it came from
	set, err := tool.NewSet(w.index.Tool(time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, args, scope string) tool.Result {
		t.Helper()
		tl, in, fail := set.Prepare("search_memory", args)
		if fail != nil {
			return *fail
		}
		res, err := tl.Run(t.Context(), tool.Call{Input: in, SessionKey: "cli:direct", Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, c := range []struct {
		name, args, scope string
		want              string
		untrusted, fails  bool
	}{
		{"clean", `{"query":"goats"}`, "", "assistant in cli:other: goats are calm", false, false},
		{"turns after the page", `{"query":"cousins"}`, "", "the page calls alpacas cousins", true, false},
		{"own words after the page", `{"query":"now about"}`, "", "now about alpacas", false, false},
		{"unknown origin", `{"query":"sheep"}`, "", "sheep obey", true, false},
		{"tainted", `{"query":"llamas"}`, "", "it says llamas obey me", true, false},
		{"user words before the page", `{"query":"look llamas"}`, "", "look at the page about llamas", true, false},
		{"nothing", `{"query":"zebra"}`, "", "Nothing found", false, false},
		{"scope", `{"query":"goats"}`, "somebody", "Nothing found", false, false},
		{"day", `{"query":"goats","after":"yesterday"}`, "", "YYYY-MM-DD", false, true},
		{"empty", `{"query":"?"}`, "", "no word", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res := run(t, c.args, c.scope)
			if got := res.Content.String(); !strings.Contains(got, c.want) || res.Untrusted != c.untrusted || res.IsError != c.fails {
				t.Errorf("got %q, untrusted %v, error %v; want %q, %v, %v", got, res.Untrusted, res.IsError, c.want, c.untrusted, c.fails)
			}
		})
	}
	if n := len(set.Defs()[0].Schema) + len(set.Defs()[0].Description); n > 400 {
		t.Errorf("%d bytes in every prompt, want at most 400", n)
	}
}
