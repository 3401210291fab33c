package memory

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// Invariant 19: every history.jsonl of the Python versions is taken in.
func TestImportHistory(t *testing.T) { storetest.Each(t, testImportHistory) }

func testImportHistory(t *testing.T, open storetest.Open) {
	t.Parallel()
	cases := []struct {
		name, history, cursor, dream string
		want                         []Entry
		next, read                   int64
		rejected                     string
	}{
		{
			name:    "v0.1.5",
			history: `{"cursor": 1, "timestamp": "2026-04-01 10:00", "content": "a <b> & ü"}` + "\n" + `{"cursor": 2, "timestamp": "2026-04-02 10:00", "content": "b"}` + "\n",
			cursor:  "2", dream: "1",
			want: []Entry{{Cursor: 1, Time: "2026-04-01 10:00", Content: "a <b> & ü"}, {Cursor: 2, Time: "2026-04-02 10:00", Content: "b"}},
			next: 3, read: 1,
		},
		{
			name:    "head, with keys we do not know",
			history: `{"cursor":7,"timestamp":"t","content":"x","session_key":"telegram:1","mood":{"a": 1}}` + "\n",
			cursor:  "9", dream: "7\n",
			want: []Entry{{Cursor: 7, Time: "t", Content: "x", Session: "telegram:1", Extra: raw("mood", `{"a":1}`)}},
			next: 10, read: 7,
		},
		{
			name: "broken cursors keep their order",
			history: strings.Join([]string{
				`{"cursor":"5","timestamp":"t","content":"string"}`,
				`{"cursor":true,"timestamp":"t","content":"bool"}`,
				`{"cursor":-3,"timestamp":"t","content":"negative"}`,
				`{"timestamp":"t","content":"missing"}`,
				`{"cursor":2.5,"timestamp":"t","content":"fraction"}`,
				`{"cursor":null,"timestamp":"t","content":"null"}`,
				`{"cursor":6,"timestamp":"t","content":"again"}`,
				`{"cursor":20,"timestamp":"t","content":"good"}`,
				`{"cursor":99999999999999999999,"timestamp":"t","content":"huge"}`,
			}, "\n"),
			cursor: "nonsense", dream: "6",
			want: []Entry{
				{Cursor: 5, Time: "t", Content: "string"},
				{Cursor: 6, Time: "t", Content: "bool"},
				{Cursor: 7, Time: "t", Content: "negative"},
				{Cursor: 8, Time: "t", Content: "missing"},
				{Cursor: 9, Time: "t", Content: "fraction"},
				{Cursor: 10, Time: "t", Content: "null"},
				{Cursor: 11, Time: "t", Content: "again"},
				{Cursor: 20, Time: "t", Content: "good"},
				{Cursor: 21, Time: "t", Content: "huge"},
			},
			next: 22, read: 11,
		},
		{
			name: "what is no entry",
			history: `{"cursor":1,"timestamp":"t","content":"ok"}` + "\nnot json\n\n" + `{"cursor":2,"content":"no time"}` + "\n" +
				`{"cursor":3,"timestamp":4,"content":"odd time"}` + "\n" + `{"cursor":4,"timestamp":"t","content":["list"]}` + "\n" + `{"cursor":5,"timestamp":"t","conte`,
			dream: "-1",
			want:  []Entry{{Cursor: 1, Time: "t", Content: "ok"}},
			next:  2,
			rejected: "not json\n" + `{"cursor":2,"content":"no time"}` + "\n" + `{"cursor":3,"timestamp":4,"content":"odd time"}` + "\n" +
				`{"cursor":4,"timestamp":"t","content":["list"]}` + "\n" + `{"cursor":5,"timestamp":"t","conte` + "\n",
		},
		{name: "nothing", next: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, open)
			p.write(t, "history.jsonl", c.history)
			if c.cursor != "" {
				p.write(t, ".cursor", c.cursor)
			}
			if c.dream != "" {
				p.write(t, ".dream_cursor", c.dream)
			}
			h := p.takeOver(t)
			if diff := cmp.Diff(c.want, all(t, h)); diff != "" {
				t.Error(diff)
			}
			if got := dream(t, h); got != c.read {
				t.Errorf("dream cursor = %d, want %d", got, c.read)
			}
			if got := add(t, h, "new"); got != c.next {
				t.Errorf("next cursor = %d, want %d", got, c.next)
			}
			if c.history != "" && p.file(t, path.Join(dirImported, "history.jsonl")) != c.history {
				t.Error("the original was not kept byte for byte")
			}
			if b, _, err := p.store(t).Doc(t.Context(), fileRejected); err != nil || string(b) != c.rejected {
				t.Errorf("rejected = %q, want %q", b, c.rejected)
			}
			if diff := cmp.Diff(len(c.want)+1, len(all(t, p.open(t)))); diff != "" {
				t.Errorf("after another open: %s", diff)
			}
		})
	}
}

func TestImportHistoryText(t *testing.T) { storetest.Each(t, testImportHistoryText) }

func testImportHistoryText(t *testing.T, open storetest.Open) {
	t.Parallel()
	const old = "[2026-02-01 09:00] likes tea\r\nand biscuits\r\n[2026-02-02 10:00] works at X\n\nundated paragraph\n\n" +
		"[2026-02-03 11:00] [RAW] 2 messages\n[2026-02-03 10:58] USER: hi\n[2026-02-03 10:59] ASSISTANT [tools: a, b]: hello\n[2026-02-04 08:00] after the dump\n" +
		"[2026-02-05 08:00]\n[2026-02-06] no time of day \xff\n"
	p := newPlace(t, open)
	p.write(t, "HISTORY.md", old)
	p.write(t, "HISTORY.md.bak", "older")
	mod := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	must(t, os.Chtimes(filepath.Join(p.ws, "memory", "HISTORY.md"), mod, mod))
	h := p.takeOver(t)
	want := []Entry{
		{Cursor: 1, Time: "2026-02-01 09:00", Content: "likes tea\nand biscuits"},
		{Cursor: 2, Time: "2026-02-02 10:00", Content: "works at X"},
		{Cursor: 3, Time: "2026-03-01 12:00", Content: "undated paragraph"},
		{Cursor: 4, Time: "2026-02-03 11:00", Content: "[RAW] 2 messages\n[2026-02-03 10:58] USER: hi\n[2026-02-03 10:59] ASSISTANT [tools: a, b]: hello"},
		{Cursor: 5, Time: "2026-02-04 08:00", Content: "after the dump"},
		{Cursor: 6, Time: "2026-02-05 08:00", Content: "[2026-02-05 08:00]"},
		{Cursor: 7, Time: "2026-03-01 12:00", Content: "[2026-02-06] no time of day \uFFFD"},
	}
	if diff := cmp.Diff(want, all(t, h)); diff != "" {
		t.Error(diff)
	}
	if got := dream(t, h); got != 7 {
		t.Errorf("dream cursor = %d: old history must not be dreamt again", got)
	}
	if p.read(t, "HISTORY.md.bak") != "older" || p.read(t, "HISTORY.md.bak.2") != old {
		t.Error("the old file was not set aside")
	}
	if p.file(t, path.Join(dirImported, "HISTORY.md")) != old {
		t.Error("the original was not kept")
	}
	if got := add(t, h, "new"); got != 8 {
		t.Errorf("next cursor = %d", got)
	}
}

// A HISTORY.md beside a history.jsonl was taken in by Python already.
func TestImportPrefersLines(t *testing.T) { storetest.Each(t, testImportPrefersLines) }

func testImportPrefersLines(t *testing.T, open storetest.Open) {
	t.Parallel()
	p := newPlace(t, open)
	p.write(t, "HISTORY.md", "[2026-02-01 09:00] old\n")
	p.write(t, "history.jsonl", `{"cursor":3,"timestamp":"t","content":"new"}`)
	if es := all(t, p.takeOver(t)); len(es) != 1 || es[0].Content != "new" {
		t.Errorf("entries = %+v", es)
	}
	if p.read(t, "HISTORY.md") == "" {
		t.Error("HISTORY.md is gone")
	}
}

func TestImportLeavesLinksAlone(t *testing.T) {
	t.Parallel()
	p := newPlace(t, storetest.Disk)
	outside := filepath.Join(t.TempDir(), "other.jsonl")
	must(t, os.WriteFile(outside, []byte(`{"cursor":1,"timestamp":"t","content":"not ours"}`+"\n"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(p.ws, "memory", "history.jsonl")))
	h := p.takeOver(t)
	add(t, h, "ours")
	if es := all(t, h); len(es) != 1 || es[0].Content != "ours" {
		t.Errorf("entries = %+v", es)
	}
	if !strings.Contains(file(t, outside), "not ours") || strings.Contains(file(t, outside), `"ours"`) {
		t.Error("wrote through a link")
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(`{"cursor":"5","timestamp":"t","content":"c"}`+"\n{"), []byte("[2026-02-01 09:00] [RAW] x\n\ny"), int64(3))
	f.Fuzz(func(t *testing.T, lines, old []byte, dream int64) {
		entries, _, read := importLines(lines, dream)
		for i, e := range entries {
			if e.Content == "" || e.Cursor <= 0 || (i > 0 && e.Cursor <= entries[i-1].Cursor) {
				t.Fatalf("entry %d of %+v", i, entries)
			}
			if back, ok := parseEntry(e.line()); !ok || back.Cursor != e.Cursor || back.Content != e.Content {
				t.Fatalf("%s does not come back", e.line())
			}
		}
		if len(entries) > 0 && read > entries[len(entries)-1].Cursor {
			t.Fatalf("read %d", read)
		}
		importText(old)
	})
}

func raw(key, value string) map[string]json.RawMessage {
	return map[string]json.RawMessage{key: json.RawMessage(value)}
}
