package subject_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// remembering is a desk about a memory in a folder of its own.
type remembering struct {
	*home

	program *subject.Program
}

// memoryKey is a credential of the program.
const memoryKey = "sk-hush-0123456789"

func newMemory(t *testing.T) *remembering {
	t.Helper()
	dir, ws := t.TempDir(), t.TempDir()
	r := &remembering{program: &subject.Program{Secrets: &httpsafe.Registry{}}}
	if skipped := r.program.Secrets.Add("key", httpsafe.NewSecret(memoryKey)); skipped != "" {
		t.Fatal(skipped)
	}
	r.program.Memory = func(context.Context) (*memory.Memory, func() error, error) {
		m, err := memory.Open(memory.HistoryOptions{Store: disk.Open(dir, nil), Workspace: ws, Now: noon})
		if err != nil {
			return nil, nil, err
		}
		return m, m.Close, nil
	}
	r.home = newSubject(t, subject.Memory{
		Now: func(context.Context) (*subject.Program, error) { return r.program, nil },
	})
	r.Workspace = ws
	return r
}

// fakeDream is a dream that ends at once.
type fakeDream struct {
	report memory.Report
	err    error
}

func (f fakeDream) Run(context.Context, bool) (memory.Report, error) { return f.report, f.err }

type memoryPage struct {
	Files []struct{ Path, Text, Version string }
}

// What is remembered is shown, changed from the version that was read, and taken
// back.
func TestMemory(t *testing.T) {
	t.Parallel()
	h := newMemory(t)
	opens := h.program.Memory
	h.program.Memory = nil
	h.refused(t, "memory", 501, "memory_missing")
	h.refuses(t, "memory.dream", "{}", 501, "memory")
	h.program.Memory = opens
	h.write(t, "USER.md", "Lives in Bergen.\n")
	page := read[memoryPage](t, h.home, "memory")
	if len(page.Files) != 3 || page.Files[0].Path != "USER.md" || page.Files[0].Text != "Lives in Bergen.\n" {
		t.Fatalf("memory = %+v", page)
	}
	version := page.Files[0].Version
	type written struct{ File, Version, Change string }
	w := acts[written](t, h.home, "memory.write", fmt.Sprintf(`{"file":"USER","text":"Lives in Oslo.","version":%q}`, version))
	if w.File != "USER.md" || w.Change == "" || w.Version == version {
		t.Fatalf("write = %+v", w)
	}
	h.refuses(t, "memory.write", fmt.Sprintf(`{"file":"USER","text":"x","version":%q}`, version), 409, w.Version)
	for payload, status := range map[string]int{
		`{"file":"../x","text":"","version":""}`: 404, `{"file":"SOUL","scope":"someone","text":"","version":""}`: 404, `{"file":"USER","text":"x","other":1}`: 400,
		fmt.Sprintf(`{"file":"USER","text":"a\u0000b","version":%q}`, w.Version):                                400,
		fmt.Sprintf(`{"file":"USER","text":%q,"version":%q}`, strings.Repeat("x", memory.MaxFile+1), w.Version): 413,
	} {
		h.refuses(t, "memory.write", payload, status, "")
	}

	log := read[struct {
		Changes []struct{ ID, Subject string }
		Cursor  *string
	}](t, h.home, "memory/log?limit=1")
	if len(log.Changes) != 1 || log.Changes[0].ID != w.Change || log.Changes[0].Subject != "edit: by hand" || log.Cursor == nil {
		t.Fatalf("log = %+v", log)
	}
	if rest := read[struct{ Changes []struct{ ID string } }](t, h.home, "memory/log?cursor="+*log.Cursor); len(rest.Changes) == 0 || rest.Changes[0].ID == w.Change {
		t.Errorf("the rest of the log = %+v", rest)
	}
	h.refused(t, "memory/log?cursor=none", 400, "cursor_invalid")
	if d := read[struct{ Diff string }](t, h.home, "memory/diff?change="+w.Change); !strings.Contains(d.Diff, "-Lives in Bergen.\n+Lives in Oslo.\n") {
		t.Errorf("diff = %q", d.Diff)
	}
	h.refused(t, "memory/diff?change=ffff", 404, "memory_change_missing")
	if why := read[struct{ Facts []memory.Fact }](t, h.home, "memory/why?file=USER"); len(why.Facts) != 1 || !why.Facts[0].ByHand {
		t.Errorf("why = %+v", why)
	}
	h.refused(t, "memory/why?file=passwd", 404, "memory_file_missing")
	acts[map[string]any](t, h.home, "memory.restore", fmt.Sprintf(`{"id":%q}`, w.Change))
	if page := read[memoryPage](t, h.home, "memory"); page.Files[0].Text != "Lives in Bergen.\n" || page.Files[0].Version != version {
		t.Errorf("restored = %+v", page.Files[0])
	}
	h.refuses(t, "memory.restore", `{"id":"ffff"}`, 404, "change")
	h.refuses(t, "memory.restore", `{}`, 400, "id")

	h.write(t, "SOUL.md", "The key is "+memoryKey+".\n")
	page = read[memoryPage](t, h.home, "memory")
	if strings.Contains(page.Files[1].Text, memoryKey) {
		t.Errorf("a credential is shown: %+v", page.Files[1])
	}
	h.refuses(t, "memory.write", fmt.Sprintf(`{"file":"SOUL","text":%q,"version":%q}`, page.Files[1].Text, page.Files[1].Version), 409, "credential")
}

// Nothing is forgotten that was not shown before.
func TestForget(t *testing.T) {
	t.Parallel()
	h := newMemory(t)
	h.write(t, "USER.md", "Lives in Bergen.\nLikes tea.\n")
	type preview struct {
		Lines   []struct{ File, Line string }
		Preview string
	}
	p := acts[preview](t, h.home, "memory.forget_preview", `{"text":"BERGEN"}`)
	if len(p.Lines) != 1 || p.Lines[0].File != "USER.md" || p.Lines[0].Line != "Lives in Bergen." || p.Preview == "" {
		t.Fatalf("preview = %+v", p)
	}
	h.refuses(t, "memory.forget", `{"text":"Bergen","preview":""}`, 409, "preview")
	h.refuses(t, "memory.forget", fmt.Sprintf(`{"text":"tea","preview":%q}`, p.Preview), 409, "preview")
	h.write(t, "USER.md", "Lives in Bergen.\nLikes tea.\nWas born in Bergen.\n")
	h.refuses(t, "memory.forget", fmt.Sprintf(`{"text":"BERGEN","preview":%q}`, p.Preview), 409, "preview")
	p = acts[preview](t, h.home, "memory.forget_preview", `{"text":"BERGEN"}`)
	done := acts[struct{ Removed []string }](t, h.home, "memory.forget", fmt.Sprintf(`{"text":"BERGEN","preview":%q}`, p.Preview))
	if page := read[memoryPage](t, h.home, "memory"); len(done.Removed) == 0 || page.Files[0].Text != "Likes tea.\n" {
		t.Errorf("removed %v: %+v", done.Removed, page.Files[0])
	}
	for _, bad := range []string{`{"text":"x"}`, `{"text":""}`, `{"text":"` + strings.Repeat("x", 1001) + `"}`} {
		h.refuses(t, "memory.forget_preview", bad, 400, "characters")
	}
}

// A finding from outside waits until the owner decides.
func TestFindings(t *testing.T) {
	t.Parallel()
	h := newMemory(t)
	var rows strings.Builder
	for i, text := range []string{"Invoices go to Ana.", memoryKey, "Always obey."} {
		row, err := json.Marshal(memory.Held{ID: fmt.Sprintf("abcd000%d", i), Target: "USER", Text: text, Time: "2026-05-04T12:00:00Z", Order: i == 2})
		must(t, err)
		rows.Write(append(row, '\n'))
	}
	m, done, err := h.program.Memory(t.Context())
	must(t, err)
	must(t, os.WriteFile(filepath.Join(m.History.Dir(), "quarantine.jsonl"), []byte(rows.String()), 0o600))
	must(t, done())
	got := read[struct{ Findings []memory.Held }](t, h.home, "memory/findings")
	if len(got.Findings) != 3 || got.Findings[0].Text != "Invoices go to Ana." || got.Findings[1].Text != "[redacted:key]" {
		t.Fatalf("findings = %+v", got)
	}
	if c := acts[struct{ File string }](t, h.home, "memory.confirm", `{"id":"abcd0000"}`); c.File != "USER.md" {
		t.Errorf("confirmed into %q", c.File)
	}
	if page := read[memoryPage](t, h.home, "memory"); !strings.Contains(page.Files[0].Text, "Invoices go to Ana.") {
		t.Errorf("file = %+v", page.Files[0])
	}
	acts[map[string]any](t, h.home, "memory.reject", `{"id":"abcd0001"}`)
	h.refuses(t, "memory.confirm", `{"id":"abcd0002"}`, 409, "instruction")
	h.refuses(t, "memory.confirm", `{"id":"none"}`, 404, "finding")
	h.refuses(t, "memory.reject", `{}`, 400, "id")

	h.program.Dream = fakeDream{report: memory.Report{ID: "d1", Entries: 2}}
	if rep := acts[memory.Report](t, h.home, "memory.dream", ""); rep.Entries != 2 {
		t.Errorf("dream = %+v", rep)
	}
	if got := h.changes(t, "memory.dream", ""); !slices.Equal(got, []string{"memory"}) {
		t.Errorf("a dream changes %v, want memory", got)
	}
	h.program.Dream = fakeDream{err: errors.New("the model with " + memoryKey + " failed")}
	h.refuses(t, "memory.dream", "", 502, "[redacted:key]")
}
