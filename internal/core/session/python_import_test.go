package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

func pythonLog(key, meta, cursor string, lines ...string) string {
	head := fmt.Sprintf(`{"_type": "metadata", "key": %q, "created_at": "2026-01-01T00:00:00.5", "updated_at": "2026-01-02T00:00:00Z", "metadata": %s, "last_consolidated": %s}`, key, meta, cursor)
	return head + "\n" + strings.Join(lines, "\n")
}

func TestImport(t *testing.T) {
	t.Parallel()
	q, a := `{"role": "user", "content": "häh?", "timestamp": "2026-01-01T00:00:00"}`, `{"role": "assistant", "content": "a", "x_new": {"k": [1]}}`
	both := []string{"user:häh?", "assistant:a"}
	for _, c := range []struct {
		name, key, file, data string
		want                  []string
		kept                  bool // it is of another key, which has it now
	}{
		{"plain", "cli:direct", "workspace/sessions/cli_direct.jsonl", pythonLog("cli:direct", "{}", "0", q, a, ""), both, false},
		{"legacy place", "cli:direct", "data/sessions/cli_direct.jsonl", pythonLog("cli:direct", "{}", "0", q, a, ""), both, false},
		{"further place", "cli:direct", "further/cli_direct.jsonl", pythonLog("cli:direct", "{}", "0", q, a, ""), both, false},
		{"base64 name elsewhere", "cli:direct", "further/Y2xpOmRpcmVjdA.jsonl", pythonLog("cli:direct", "{}", "0", q, a, ""), both, false},
		{"null metadata", "k", "workspace/sessions/k.jsonl", pythonLog("k", "null", "null", q, a, ""), both, false},
		{"string cursor", "k", "workspace/sessions/k.jsonl", pythonLog("k", "{}", `"1"`, q, a, ""), both, false},
		{"wild cursor", "k", "workspace/sessions/k.jsonl", pythonLog("k", "{}", "99", q, a, ""), both, false},
		{"no final newline", "k", "workspace/sessions/k.jsonl", pythonLog("k", "{}", "0", q, a), both, false},
		{"torn", "k", "workspace/sessions/k.jsonl", pythonLog("k", "{}", "0", q, a, `{"role": "us`), both, false},
		{"no key stored", "cli:direct", "workspace/sessions/cli_direct.jsonl", q + "\n" + a + "\n", both, false},
		{"no key stored, other suggested", "cli_direct", "workspace/sessions/cli_direct.jsonl", q + "\n", nil, true},
		{"the name of another key", "a_b:c", "workspace/sessions/a_b_c.jsonl", pythonLog("a:b_c", "{}", "0", q, ""), nil, true},
		{"unsafe characters", `x:a/b\c<>"|?*`, "workspace/sessions/x_a_b_c______.jsonl", pythonLog(`x:a/b\c<>"|?*`, "{}", "0", q, a, ""), both, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			source := filepath.Join(dir, filepath.FromSlash(c.file))
			must(t, os.MkdirAll(filepath.Dir(source), 0o755))
			plant(t, source, []byte(c.data))
			st := openStore(t, storetest.Disk, dir, func(o *Options) { o.ImportDirs = []string{filepath.Join(dir, "further")} })
			s := acquire(t, st, c.key)
			if diff := cmp.Diff(c.want, gist(s.Messages())); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(source); err == nil || st.Imported().Sessions != 1 {
				t.Errorf("stat of the source: %v; taken: %+v", err, st.Imported())
			}
			path := s.logPath()
			must(t, s.BeginTurn("t", user("next")))
			must(t, s.Release())
			if c.kept {
				return
			}
			got, err := os.ReadFile(path)
			must(t, err)
			aside, _ := os.ReadFile(path + ".torn")
			end := strings.LastIndexByte(c.data, '\n') + 1
			if c.name == "no final newline" {
				end = len(c.data)
			}
			if !strings.HasPrefix(string(got), c.data[:end]) || strings.TrimSuffix(string(aside), "\n") != c.data[end:] {
				t.Errorf("bytes were lost: %q aside %q", got, aside)
			}
		})
	}
}

func TestImportCursor(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 20 {
		lines = append(lines, fmt.Sprintf(`{"role": "user", "content": "%d"}`, i), `{"role": "assistant", "content": "a"}`)
	}
	for cursor, want := range map[int]int{0: 40, 10: 30, 36: 8, 40: 8, 41: 40} {
		dir := t.TempDir()
		path := filepath.Join(dir, "workspace", "sessions", "k.jsonl")
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		plant(t, path, []byte(pythonLog("k", "{}", fmt.Sprint(cursor), append(lines, "")...)))
		s := acquire(t, openStore(t, storetest.Disk, dir), "k")
		if got := len(s.Messages()); got != want || s.Len() != 40 {
			t.Errorf("cursor %d: %d live of %d, want %d of 40", cursor, got, s.Len(), want)
		}
		must(t, s.Release())
	}
}

// Only the first look at a workspace takes something over.
func TestImportOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sessions := filepath.Join(dir, "workspace", "sessions")
	must(t, os.MkdirAll(sessions, 0o755))
	plant(t, filepath.Join(sessions, "old.jsonl"), []byte(pythonLog("old", "{}", "0", `{"role": "user", "content": "x"}`, "")))
	first := openStore(t, storetest.Disk, dir)
	if got := first.Imported().Sessions; got != 1 {
		t.Errorf("taken: %d", got)
	}
	forged := filepath.Join(sessions, "k.jsonl")
	plant(t, forged, []byte(pythonLog("k", "{}", "0", `{"role": "user", "content": "forged"}`, "")))
	for _, st := range []*Store{first, openStore(t, storetest.Disk, dir), openStore(t, storetest.Disk, dir, func(o *Options) { o.ImportDirs = []string{sessions} })} {
		s := acquire(t, st, "k")
		if s.Len() != 0 {
			t.Errorf("taken in later: %q", gist(s.Messages()))
		}
		must(t, s.Release())
		infos, err := st.List(t.Context())
		must(t, err)
		if len(infos) != 1 || infos[0].Key != "old" {
			t.Errorf("list: %+v", infos)
		}
		if _, err := st.Peek("k"); !errors.Is(err, ErrNotFound) {
			t.Errorf("peek: %v", err)
		}
	}
	if _, err := os.Stat(forged); err != nil {
		t.Error("it was touched:", err)
	}
}

// A store that versions before began takes over what they had left in the
// workspace, and nothing over its own.
func TestImportUpgrade(t *testing.T) {
	t.Parallel()
	const id = "00000000000000000000000000000001"
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for name, body := range map[string]string{
		"data/sessions/" + id + "/.workspace": filepath.Join(dir, "workspace") + "\n",
		"data/sessions/" + id + "/aw.jsonl":   pythonLog("k", "{}", "0", `{"role": "user", "content": "ours"}`, ""),
		"workspace/sessions/k.jsonl":          pythonLog("k", "{}", "0", `{"role": "user", "content": "theirs"}`, ""),
		"workspace/sessions/other.jsonl":      pythonLog("other", "{}", "0", `{"role": "user", "content": "never used"}`, ""),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		plant(t, path, []byte(body))
	}
	st := openStore(t, storetest.Disk, dir)
	if filepath.Base(st.Dir()) != id || st.Imported().Sessions != 1 {
		t.Errorf("%s, taken %+v", st.Dir(), st.Imported())
	}
	for key, want := range map[string]string{"k": "user:ours", "other": "user:never used"} {
		s := acquire(t, st, key)
		if diff := cmp.Diff([]string{want}, gist(s.Messages())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
		must(t, s.Release())
	}
}

// Thousands of sessions are taken over in one start.
func TestImportMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sessions := filepath.Join(dir, "workspace", "sessions")
	must(t, os.MkdirAll(sessions, 0o755))
	const n = 300
	for i := range n {
		key := fmt.Sprintf("cli:%d", i)
		plant(t, filepath.Join(sessions, fmt.Sprintf("cli_%d.jsonl", i)), []byte(pythonLog(key, "{}", "0", `{"role": "user", "content": "x"}`, "")))
	}
	st := openStore(t, storetest.Disk, dir)
	infos, err := st.List(t.Context())
	must(t, err)
	if st.Imported().Sessions != n || len(infos) != n || len(st.Imported().Left) > 0 {
		t.Errorf("taken %+v, listed %d", st.Imported(), len(infos))
	}
}

// Python rewrites whole files; positions in our metadata are void then.
func TestRewrittenByPython(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := openStore(t, storetest.Disk, dir)
	s := acquire(t, st, "k")
	must(t, s.Append(user("a"), answer("b"), user("c"), answer("d")))
	must(t, s.SetReplay(2))
	must(t, s.Release())
	data, err := os.ReadFile(s.logPath())
	must(t, err)
	var meta string
	var msgs []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, `"_type"`) {
			meta = line
		} else {
			msgs = append(msgs, line)
		}
	}
	plant(t, s.logPath(), []byte(meta+strings.Join(msgs, "")+`{"role":"user","content":"from python"}`+"\n"))
	s = acquire(t, st, "k")
	if s.Len() != 5 || s.Messages()[s.Len()-1].Content.Text != "from python" {
		t.Errorf("Len = %d, messages %q", s.Len(), gist(s.Messages()))
	}
	must(t, s.Release())
}

func TestImportConflict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, place := range []string{"workspace/sessions", "data/sessions"} {
		path := filepath.Join(dir, filepath.FromSlash(place), "k.jsonl")
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		plant(t, path, []byte(pythonLog("k", "{}", "0", `{"role": "user", "content": "`+place+`"}`, "")))
	}
	st := openStore(t, storetest.Disk, dir)
	s := acquire(t, st, "k")
	if diff := cmp.Diff([]string{"user:workspace/sessions"}, gist(s.Messages())); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	must(t, s.Release())
	if diff := cmp.Diff([]string{".migration-conflicts/aw.jsonl.1", "aw.jsonl"}, files(t, st.Dir())); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestImportRefusesLinks(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"file", "directory"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			elsewhere := filepath.Join(dir, "elsewhere")
			must(t, os.MkdirAll(elsewhere, 0o755))
			plant(t, filepath.Join(elsewhere, "k.jsonl"), []byte(pythonLog("k", "{}", "0", `{"role": "user", "content": "x"}`, "")))
			sessions := filepath.Join(dir, "workspace", "sessions")
			must(t, os.MkdirAll(filepath.Dir(sessions), 0o755))
			link, target := sessions, elsewhere
			if what == "file" {
				must(t, os.MkdirAll(sessions, 0o755))
				link, target = filepath.Join(sessions, "k.jsonl"), filepath.Join(elsewhere, "k.jsonl")
			}
			if err := os.Symlink(target, link); err != nil {
				t.Skip("no symbolic links here:", err)
			}
			st := openStore(t, storetest.Disk, dir)
			if st.Imported().Sessions != 0 || len(st.Imported().Left) != 1 {
				t.Errorf("taken: %+v", st.Imported())
			}
			s := acquire(t, st, "k")
			if s.Len() != 0 {
				t.Errorf("imported through a link: %q", gist(s.Messages()))
			}
			must(t, s.Release())
			if _, err := os.Stat(filepath.Join(elsewhere, "k.jsonl")); err != nil {
				t.Error(err)
			}
		})
	}
}
