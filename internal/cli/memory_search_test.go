package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestMemorySearchCommand(t *testing.T) {
	t.Parallel()
	fresh := func(t *testing.T) *remembering {
		t.Helper()
		r := newRemembering(t)
		r.put("ws/sessions/telegram_9.jsonl", `{"_type":"metadata","metadata":{}}
{"role":"user","content":"Die Straße ist \u001b[31m glatt","timestamp":"2026-01-05T10:00:00"}
{"role":"assistant","content":"京都への旅行を予約しました","timestamp":"2026-02-05T10:00:00"}
`)
		r.put("ws/memory/scopes/ann/MEMORY.md", "the road of ann\n")
		return r
	}
	for _, c := range []struct {
		name string
		args []string
		want string
		code int
	}{
		{"folded", []string{"strasse"}, "telegram:9, user\n    Die Straße ist [31m glatt\n", 0},
		{"japanese", []string{"京都", "旅行"}, "京都への旅行を予約しました", 0},
		{"file", []string{"phone"}, "USER.md\n    - phone 555-0100", 0},
		{"after", []string{"strasse", "--after", "2026-02-01"}, "Nothing found.", 1},
		{"another person", []string{"road"}, "Nothing found.", 1},
		{"everyone", []string{"road", "--everyone"}, "memory/scopes/ann/MEMORY.md, scope ann\n    the road of ann\n", 0},
		{"bad day", []string{"x", "--before", "soon"}, "", 2},
		{"no word", []string{"?"}, "", 2},
		{"nothing", nil, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := fresh(t).run(append([]string{"search"}, c.args...)...)
			code := 0
			if f, ok := errors.AsType[failure](err); ok {
				code = f.code
			} else if _, ok := errors.AsType[usageError](err); ok {
				code = 2
			} else if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, c.want) || code != c.code || strings.Contains(out, "\x1b") {
				t.Errorf("got code %d and %q, want %d and %q", code, out, c.code, c.want)
			}
		})
	}
	r := fresh(t)
	r.dir() // imports the conversations, which the first command would report
	out, err := r.run("search", "blue", "--json")
	var hits []memoryHitJSON
	if err != nil || json.Unmarshal([]byte(out), &hits) != nil || len(hits) != 1 || hits[0].Source != "USER.md" || hits[0].Score <= 0 {
		t.Errorf("JSON %s, error %v", out, err)
	}
}

func TestForgetCleansTheIndex(t *testing.T) {
	t.Parallel()
	r := newRemembering(t)
	r.put("ws/sessions/telegram_9.jsonl", `{"role":"user","content":"call me on 555-0100","timestamp":"2026-01-05T10:00:00"}`+"\n")
	if out, err := r.run("search", "555-0100"); err != nil || strings.Count(out, "555-0100") != 2 {
		t.Fatalf("before: %q, %v", out, err)
	}
	if out, err := r.run("forget", "555-0100", "--yes"); err != nil || !strings.Contains(out, "from the search index") {
		t.Fatalf("forget: %q, %v", out, err)
	}
	if out, err := r.run("search", "555-0100"); err == nil || strings.Contains(out, "call me") {
		t.Errorf("after: %q, %v", out, err)
	}
}
