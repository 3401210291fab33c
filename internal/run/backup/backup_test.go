package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/run/config"
)

const plantedKey = "sk-ant-api03-Pl4ntedKeyPl4ntedKeyPl4nted-99"

// plant fills a folder with files.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// harvest reads a folder back.
func harvest(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(file)
		rel, _ := filepath.Rel(dir, file)
		out[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func oldHome(t *testing.T) (dir string, l *config.Loaded) {
	t.Helper()
	dir = t.TempDir()
	plant(t, dir, map[string]string{
		"config.json": `{
			// spare key: ` + plantedKey + `
			"providers": {"anthropic": {"apiKey": "` + plantedKey + `"}, "openai": {"apiKey": "${OPENAI_API_KEY:-}"}},
			"channels": {"telegram": {"enabled": false, "token": "123456:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"}},
			"tools": {"mcpServers": {"x": {"command": "x", "args": ["--key=` + plantedKey + `", "plain"], "env": {"API_TOKEN": "abc"}}}},
			"agents": {"defaults": {"model": "claude-x"}},
		}`,
		"bus/journal.jsonl":            "{\"journal\":1}\n{\"in\":\"a\"}\n{\"torn",
		"bus/.lock":                    "1",
		"sessions/ab12/s.jsonl":        "{}\n",
		"sessions/ab12/.workspace":     "/somewhere\n",
		"memory/ab12/history.jsonl":    "{}\n",
		"pairing.json":                 "{}",
		"run/owner-chat.json":          "{}",
		"run/gateway.json":             `{"pid":1}`,
		"auth/x.json":                  plantedKey,
		"logs/gateway.log":             "noise",
		"index/ab12.db":                "SQLite",
		"foreign.txt":                  "not ours",
		"workspace/SOUL.md":            "soul",
		"workspace/cron/jobs.json":     `{"jobs":[]}`,
		"workspace/cron.lock":          "1",
		"workspace/cron/.owner.lock":   "1",
		"workspace/.git/index.lock":    "1",
		"workspace/app/Cargo.lock":     "version = 4",
		"workspace/app/.locks":         "of somebody else",
		"workspace/app/rows.jsonl":     "{}\n{\"last\":1}",
		"sessions/ab12/.locks":         "\x00\x00",
		"workspace/.nanobot/tool.py":   "x",
		"workspace/.git/refs/heads/.k": "",
	})
	if err := os.Remove(filepath.Join(dir, "workspace/.git/refs/heads/.k")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "workspace/.nanobot/tool.py"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := config.Load(config.Options{Path: filepath.Join(dir, "config.json"), Home: dir})
	if err != nil {
		t.Fatal(err)
	}
	return dir, l
}

func writeBackup(t *testing.T, l *config.Loaded, secrets bool) (string, Manifest) {
	t.Helper()
	var buf bytes.Buffer
	m, err := write(t.Context(), &buf, Options{
		Config: l, Workspace: filepath.Join(l.DataDir, "workspace"), Secrets: secrets, Version: "1", Now: time.Unix(1e9, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, m
}

func openBackup(t *testing.T, file string) *Backup {
	t.Helper()
	b, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Of a workspace around the data, only the data is taken by name: what lies
// beside it comes along, and credentials do not.
func TestBackupOfAWorkspaceAroundTheData(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	plant(t, ws, map[string]string{
		"lab/notes.md": "mine", "lab/bot/config.json": "{}", "lab/bot/auth/x.json": plantedKey, "lab/bot/pairing.json": "{}",
	})
	l, err := config.Load(config.Options{Path: filepath.Join(ws, "lab/bot/config.json"), Home: ws})
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	m, err := write(t.Context(), &buf, Options{Config: l, Workspace: ws, Version: "1", Now: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range m.Files {
		got = append(got, f.Name)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"config.json", "data/pairing.json", "workspace/lab/notes.md"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Whatever the workspace has to do with the data folder, keys, logins and
// codes are in the archive only when they are asked for.
func TestBackupOfATangledWorkspaceHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		workspace string // from the data folder
		secrets   bool
		want      string // a file that is in it all the same
	}{
		"same":             {".", false, "workspace/AGENTS.md"},
		"around":           {"..", false, "workspace/beside.md"},
		"inside":           {"projects/ws", false, "workspace/plan.md"},
		"in the logins":    {"auth", false, "config.json"},
		"below the logins": {"auth/deep", false, "config.json"},
		"through a link":   {"../link", false, "workspace/AGENTS.md"},
		"with secrets":     {".", true, "data/auth/x.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			data := filepath.Join(top, "bot")
			plant(t, data, tangled())
			plant(t, top, map[string]string{"beside.md": "beside"})
			if err := os.Symlink(data, filepath.Join(top, "link")); err != nil && tt.workspace == "../link" {
				t.Skip("no links here: ", err)
			}
			l, err := config.Load(config.Options{Path: filepath.Join(data, "config.json"), Home: top})
			if err != nil {
				t.Fatal(err)
			}
			var buf bytes.Buffer
			_, err = write(t.Context(), &buf, Options{
				Config: l, Workspace: filepath.Join(data, filepath.FromSlash(tt.workspace)), Secrets: tt.secrets, Version: "1", Now: time.Unix(1e9, 0),
			})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "b.tar.gz")
			if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), file); err != nil {
				t.Fatal(err)
			}
			holds, names := grepBackup(t, file, plantedKey, "AAbbCCddEE", "WXYZ-1234")
			if tt.secrets != (len(holds) > 0) {
				t.Errorf("with secrets %v, secrets in %q", tt.secrets, holds)
			}
			if !slices.Contains(names, tt.want) {
				t.Errorf("%s is not in it: %q", tt.want, names)
			}
		})
	}
}

// tangled is a data folder that is a workspace, too, with secrets in every
// place where they are kept.
func tangled() map[string]string {
	return map[string]string{
		"config.json":                    `{"providers": {"anthropic": {"apiKey": "` + plantedKey + `"}}, "channels": {"telegram": {"token": "123456:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr"}}}`,
		"config.json.bak-20260101":       plantedKey,
		"config.json~":                   plantedKey,
		"Config.copy.json":               plantedKey,
		".config.json.swp":               plantedKey,
		string(datadir.LastGood):         plantedKey,
		"secrets.json":                   plantedKey,
		"auth/x.json":                    plantedKey,
		"auth/deep/y.json":               plantedKey,
		"whatsapp-auth/creds":            plantedKey,
		"weixin/account.json":            plantedKey,
		"matrix-store/keys":              plantedKey,
		"run/gateway.json":               plantedKey,
		"logs/gateway.log":               plantedKey,
		"undo/ab12/blob":                 plantedKey,
		"pairing.json":                   `{"approved": {"telegram": ["7"]}, "pending": {"WXYZ-1234": {"channel": "telegram"}}}`,
		"pairing.json.old":               `{"pending": {"WXYZ-1234": {}}}`,
		"before-restore-2/config.json":   plantedKey,
		"nanobot-backup-20260101.tar.gz": plantedKey,
		"AGENTS.md":                      "agents",
		"memory/MEMORY.md":               "remembered",
		"projects/ws/plan.md":            "plan",
	}
}

// grepBackup lists the entries of a backup that hold one of the texts, and all
// names.
func grepBackup(t *testing.T, file string, texts ...string) (holds, names []string) {
	t.Helper()
	err := (&Backup{path: file}).each(t.Context(), func(h *tar.Header, r io.Reader) error {
		data, err := io.ReadAll(r)
		names = append(names, h.Name)
		if slices.ContainsFunc(texts, func(s string) bool { return bytes.Contains(data, []byte(s)) }) {
			holds = append(holds, h.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return holds, names
}

// Who was let in is kept, who waits is not.
func TestBackupKeepsApprovals(t *testing.T) {
	t.Parallel()
	dir, l := oldHome(t)
	plant(t, dir, map[string]string{"pairing.json": tangled()["pairing.json"]})
	file, _ := writeBackup(t, l, false)
	if holds, _ := grepBackup(t, file, `"approved":{"telegram":["7"]}`); !slices.Equal(holds, []string{"data/pairing.json"}) {
		t.Errorf("approvals are in %q", holds)
	}
	file, _ = writeBackup(t, l, true)
	if holds, _ := grepBackup(t, file, "WXYZ-1234"); !slices.Equal(holds, []string{"data/pairing.json"}) {
		t.Errorf("with secrets, codes are in %q", holds)
	}
}

// A workspace cannot replace the data that lies in it.
func TestRestoreRefusesAWorkspaceAroundTheData(t *testing.T) {
	t.Parallel()
	_, l := oldHome(t)
	file, _ := writeBackup(t, l, false)
	b := openBackup(t, file)
	to := t.TempDir()
	for _, ws := range []string{to, filepath.Join(to, "bot")} {
		o := RestoreOptions{Config: filepath.Join(to, "bot", "config.json"), Workspace: ws, Force: true, Now: time.Unix(1e9, 0)}
		if _, err := b.Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--to DIR") {
			t.Errorf("workspace %s: %v", ws, err)
		}
	}
	if got := harvest(t, to); len(got) > 0 {
		t.Errorf("something was done: %v", got)
	}
}

func TestBackupRoundTrip(t *testing.T) {
	t.Parallel()
	old, l := oldHome(t)
	file, m := writeBackup(t, l, true)
	b := openBackup(t, file)
	to := t.TempDir()
	r, err := b.Restore(t.Context(), RestoreOptions{Config: filepath.Join(to, "config.json"), Now: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	want := harvest(t, old)
	for _, name := range []string{
		"bus/.lock", "sessions/ab12/.workspace", "run/gateway.json", "logs/gateway.log", "index/ab12.db", "foreign.txt", "workspace/cron.lock",
		"workspace/cron/.owner.lock", "workspace/.git/index.lock", "sessions/ab12/.locks",
	} {
		delete(want, name)
	}
	want["bus/journal.jsonl"] = "{\"journal\":1}\n{\"in\":\"a\"}\n" // up to the last whole line
	if diff := cmp.Diff(want, harvest(t, to)); diff != "" {
		t.Errorf("restored: %s", diff)
	}
	if len(m.Files) != len(want) || r.Files != len(want) {
		t.Errorf("%d files in the manifest, %d restored, want %d", len(m.Files), r.Files, len(want))
	}
	if _, err := os.Stat(filepath.Join(to, "workspace/.git/refs/heads")); err != nil {
		t.Error("an empty folder is gone: ", err)
	}
	if info, err := os.Stat(filepath.Join(to, "workspace/.nanobot/tool.py")); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o755 {
		t.Errorf("permissions: %v, %v", info, err)
	}
}

// A workspace on another disk is part of the backup, links inside are not.
func TestBackupFollowsTheTopOnly(t *testing.T) {
	t.Parallel()
	dir, l := oldHome(t)
	other := filepath.Join(t.TempDir(), "ws")
	ws := filepath.Join(dir, "workspace")
	if err := errors.Join(os.Rename(ws, other), os.Symlink(other, ws), os.Symlink("/etc/hostname", filepath.Join(other, "leak"))); err != nil {
		t.Skip("no links here: ", err)
	}
	_, m := writeBackup(t, l, false)
	if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == "workspace/SOUL.md" }) {
		t.Errorf("the workspace is not in it: %+v", m.Files)
	}
	if !slices.ContainsFunc(m.Skipped, func(s string) bool { return strings.HasPrefix(s, "workspace/leak: ") }) {
		t.Errorf("skipped: %v", m.Skipped)
	}
}

// Whatever is written meanwhile, a backup holds whole lines.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	dir, l := oldHome(t)
	file := filepath.Join(dir, "sessions", "ab12", "busy.jsonl")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 2000 {
			for _, piece := range []string{`{"a":`, `"b`, "\"}\n"} {
				if _, err := f.WriteString(piece); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 5 {
		name, _ := writeBackup(t, l, false)
		if _, err := Open(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		err := (&Backup{path: name}).each(t.Context(), func(h *tar.Header, r io.Reader) error {
			data, err := io.ReadAll(r)
			if strings.HasSuffix(h.Name, "busy.jsonl") && len(data) > 0 && !bytes.HasSuffix(data, []byte("\"}\n")) {
				t.Errorf("ends with %q", data[max(0, len(data)-20):])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBackupHidesSecrets(t *testing.T) {
	t.Parallel()
	_, l := oldHome(t)
	file, m := writeBackup(t, l, false)
	want := []string{
		"providers.anthropic.apiKey", "channels.telegram.token", "tools.mcpServers.x.args.0", "tools.mcpServers.x.env.API_TOKEN",
	}
	if diff := cmp.Diff(want, m.Blank); diff != "" {
		t.Errorf("blank: %s", diff)
	}
	to := t.TempDir()
	b := openBackup(t, file)
	if _, err := b.Restore(t.Context(), RestoreOptions{Config: filepath.Join(to, "config.json"), Now: time.Unix(1e9, 0)}); err != nil {
		t.Fatal(err)
	}
	for name, text := range harvest(t, to) {
		if strings.Contains(text, plantedKey) || strings.Contains(text, "AAbbCC") {
			t.Errorf("%s holds a key", name)
		}
	}
	text, err := os.ReadFile(filepath.Join(to, "config.json"))
	if err != nil || !bytes.Contains(text, []byte("${OPENAI_API_KEY:-}")) || !bytes.Contains(text, []byte(`"plain"`)) {
		t.Errorf("more than keys is gone: %s, %v", text, err)
	}
	if _, err := config.Load(config.Options{Path: filepath.Join(to, "config.json"), Home: to}); err != nil {
		t.Error("the configuration cannot be used: ", err)
	}
}

func TestRestoreInTheWay(t *testing.T) {
	t.Parallel()
	_, l := oldHome(t)
	file, _ := writeBackup(t, l, false)
	b := openBackup(t, file)
	to := t.TempDir()
	before := map[string]string{"config.json": "{}", "sessions/s": "old", "index/x.db": "stale", "mine.txt": "mine", "auth/a": "login"}
	plant(t, to, before)
	o := RestoreOptions{Config: filepath.Join(to, "config.json"), Now: time.Unix(1e9, 0)}
	if _, err := b.Restore(t.Context(), o); !errors.Is(err, ErrInTheWay) {
		t.Errorf("without force: %v", err)
	}
	o.Force, o.DryRun = true, true
	if r, err := b.Restore(t.Context(), o); err != nil || len(r.Replaced) != 3 {
		t.Errorf("dry run: %+v, %v", r, err)
	}
	if diff := cmp.Diff(before, harvest(t, to)); diff != "" {
		t.Errorf("something was done: %s", diff)
	}
	o.DryRun = false
	r, err := b.Restore(t.Context(), o)
	if err != nil || len(r.Aside) != 1 {
		t.Fatalf("got %+v, %v", r, err)
	}
	got := harvest(t, to)
	for name, want := range map[string]string{
		"before-restore-20010909-014640/config.json": "{}", "before-restore-20010909-014640/sessions/s": "old",
		"before-restore-20010909-014640/index/x.db": "stale", "mine.txt": "mine", "auth/a": "login", "workspace/SOUL.md": "soul",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, ".restore-") || name == "sessions/s" {
			t.Errorf("%s is left over", name)
		}
	}
}

// A restore that fails half-way leaves everything as it was.
func TestRestoreRollsBack(t *testing.T) {
	t.Parallel()
	to := t.TempDir()
	before := map[string]string{"a": "1", "b": "2"}
	plant(t, to, before)
	stamp := "x"
	moves := []move{{"a", filepath.Join(to, "a")}, {"b", filepath.Join(to, "b")}}
	plant(t, to, map[string]string{".restore-x/a": "new", "before-restore-x/b/full": ""})
	if _, err := swap(moves, stamp); err == nil {
		t.Fatal("no error")
	}
	got := harvest(t, to)
	for name, want := range before {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
}

// repack changes the entries of a backup.
func repack(t *testing.T, file string, change func(h *tar.Header, data []byte) (*tar.Header, []byte)) string {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	err := (&Backup{path: file}).each(t.Context(), func(h *tar.Header, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if h, data = change(h, data); h == nil {
			return nil
		}
		h.Size = int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "x.tar.gz")
	if err := os.WriteFile(out, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOpenBackupRefuses(t *testing.T) {
	t.Parallel()
	_, l := oldHome(t)
	good, _ := writeBackup(t, l, false)
	rename := func(to string, kind byte) func(h *tar.Header, data []byte) (*tar.Header, []byte) {
		return func(h *tar.Header, data []byte) (*tar.Header, []byte) {
			if h.Name == "data/pairing.json" {
				h = &tar.Header{Name: to, Typeflag: kind, Mode: 0o600, Linkname: "/etc/passwd"}
				if kind != tar.TypeReg {
					data = nil
				}
			}
			return h, data
		}
	}
	tests := map[string]struct {
		change func(h *tar.Header, data []byte) (*tar.Header, []byte)
		want   string
	}{
		"changed file": {func(h *tar.Header, data []byte) (*tar.Header, []byte) {
			if h.Name == "data/pairing.json" {
				data = []byte("[]")
			}
			return h, data
		}, "is damaged"},
		"no manifest": {func(h *tar.Header, data []byte) (*tar.Header, []byte) {
			if h.Name == manifestName {
				return nil, nil
			}
			return h, data
		}, "no list of contents"},
		"newer": {func(h *tar.Header, data []byte) (*tar.Header, []byte) {
			if h.Name == manifestName {
				data = bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1)
			}
			return h, data
		}, "format 2"},
		"above":    {rename("data/sessions/../../../x", tar.TypeReg), "not a valid name"},
		"absolute": {rename("/etc/x", tar.TypeReg), "not a valid name"},
		"foreign":  {rename("data/foreign", tar.TypeReg), "not a valid name"},
		"link":     {rename("data/pairing.json", tar.TypeSymlink), "is a link"},
		"hard":     {rename("data/pairing.json", tar.TypeLink), "is a link"},
		"unlisted": {func(h *tar.Header, data []byte) (*tar.Header, []byte) {
			if h.Name == manifestName {
				data = bytes.Replace(data, []byte(`"workspace/SOUL.md"`), []byte(`"workspace/cron/jobs.json"`), 1)
			}
			return h, data
		}, "does not match the list of contents"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Open(t.Context(), repack(t, good, tt.change)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	text := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text); err == nil {
		t.Error("a text file passes for a backup")
	}
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, slices.Clone(data[:len(data)/2]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text); err == nil {
		t.Error("half a backup passes for one")
	}
}

func TestPadded(t *testing.T) {
	t.Parallel()
	p := &padded{r: strings.NewReader("abc"), n: 5}
	got, err := io.ReadAll(p)
	if string(got) != "abc\x00\x00" || err != nil || !p.short {
		t.Errorf("got %q, short %v, %v", got, p.short, err)
	}
	p = &padded{r: strings.NewReader("abcdef"), n: 5}
	if got, err := io.ReadAll(p); string(got) != "abcde" || err != nil || p.short {
		t.Errorf("got %q, short %v, %v", got, p.short, err)
	}
}
