package files_test

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

// bench is a workspace with the tools on it.
type bench struct {
	t     testing.TB
	dir   string
	set   *tool.Set
	state *tool.State
}

type args map[string]any

func newBench(tb testing.TB, change ...func(*files.Options, *diskio.JailOptions)) *bench {
	tb.Helper()
	base, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	// The workspace lies below a name that is ignored inside it.
	b := &bench{t: tb, dir: filepath.Join(base, "build", "ws")}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	jo := diskio.JailOptions{Workspace: b.dir, Restrict: true, Home: base}
	o := files.Options{Virtual: fstest.MapFS{
		"skills/weather/SKILL.md": {Data: []byte("# Weather\nask wttr\n")},
		"skills/tmux/SKILL.md":    {Data: []byte("# Tmux\n")},
	}}
	for _, c := range change {
		c(&o, &jo)
	}
	if o.Jail, err = diskio.OpenJail(jo); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = o.Jail.Close() })
	if b.set, err = tool.NewSet(files.Tools(o)...); err != nil {
		tb.Fatal(err)
	}
	return b
}

func (b *bench) put(name, content string) {
	b.t.Helper()
	p := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) get(name string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// call runs a tool the way the agent does.
func (b *bench) call(name string, in args) tool.Result {
	b.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	tl, input, bad := b.set.Prepare(name, string(raw))
	if bad != nil {
		return *bad
	}
	res, err := tool.Execute(b.t.Context(), tl, tool.Call{Name: name, Input: input, State: b.state}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	return res
}

// text runs a tool that must succeed.
func (b *bench) text(name string, in args) string {
	b.t.Helper()
	res := b.call(name, in)
	if res.IsError {
		b.t.Errorf("%s %v: %s", name, in, res.Content.Text)
	}
	return res.Content.String()
}

// fails runs a tool that must fail with a code and a text.
func (b *bench) fails(name string, in args, code tool.Code, part string) {
	b.t.Helper()
	res := b.call(name, in)
	if !res.IsError || res.Code != code || !strings.Contains(res.Content.Text, part) {
		b.t.Errorf("%s %v: error %v, code %q, text %q; want code %q and %q", name, in, res.IsError, res.Code, res.Content.Text, code, part)
	}
}

func contains(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("got:\n%s\nwant it to contain %q", got, p)
		}
	}
}

func lacks(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(got, p) {
			t.Errorf("got:\n%s\nwant it not to contain %q", got, p)
		}
	}
}

const canary = "CANARY-19c2"

// Paths that must never be given out, by every tool that takes one.
func TestPathsOutside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	outside := filepath.Join(filepath.Dir(b.dir), "ws-evil")
	if err := os.MkdirAll(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(outside, "secret.txt")
	if err := os.WriteFile(secret, []byte(canary+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.put("in.txt", "inside\n")
	for target, name := range map[string]string{secret: "link", "../ws-evil/secret.txt": "rellink", outside: "dirlink", filepath.Join(b.dir, "in.txt"): "abslink"} {
		if err := os.Symlink(target, filepath.Join(b.dir, name)); err != nil {
			t.Skip(err)
		}
	}
	calls := map[string]func(path string) args{
		"read_file":     func(p string) args { return args{"path": p} },
		"write_file":    func(p string) args { return args{"path": p, "content": "x"} },
		"edit_file":     func(p string) args { return args{"path": p, "old_text": canary, "new_text": "x"} },
		"list_dir":      func(p string) args { return args{"path": p} },
		"glob":          func(p string) args { return args{"pattern": "*", "path": p} },
		"grep":          func(p string) args { return args{"pattern": "CANARY", "path": p} },
		"notebook_edit": func(p string) args { return args{"path": p + ".ipynb", "cell_index": 0, "edit_mode": "insert"} },
	}
	for _, p := range []string{
		"../ws-evil/secret.txt", "a/../../ws-evil/secret.txt", secret, "link", "rellink", "dirlink/secret.txt", "dirlink",
		outside, "..", "/etc", "/etc/passwd", "~/x", "~root/x", "/proc/self/root" + secret, "/proc/self/environ", "/dev/fd/3",
	} {
		for name, in := range calls {
			if name == "notebook_edit" && (p == "link" || p == "rellink" || p == "dirlink" || p == "..") {
				continue // p.ipynb is an ordinary new file
			}
			res := b.call(name, in(p))
			if !res.IsError || res.Code != tool.DeniedPolicy && res.Code != tool.InvalidArgs {
				t.Errorf("%s(%q) = code %q, %s", name, p, res.Code, res.Content.Text)
			}
			lacks(t, res.Content.String(), canary)
		}
	}
	b.fails("read_file", args{"path": "abslink"}, tool.DeniedPolicy, "in.txt instead")
	lacks(t, b.text("grep", args{"pattern": ".", "output_mode": "content"}), canary)
	lacks(t, b.text("grep", args{"pattern": "CANARY"}), "link\n", "secret.txt")
	contains(t, b.text("list_dir", args{"path": "."}), "🔗 link -> "+secret)
	if got, _ := os.ReadFile(secret); string(got) != canary+"\n" {
		t.Errorf("the file outside is now %q", got)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("something was created outside: %v", entries)
	}
}

func TestPathNames(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	names := []string{"new\nline.txt", "esc\x1b[2J.txt", "rtl\u202etxt.exe", "e\u0301.txt", "\u00e9.txt", strings.Repeat("n", 255)}
	for _, n := range names {
		b.text("write_file", args{"path": n, "content": "content of " + n + "\n"})
	}
	for _, n := range names {
		if n == "\u00e9.txt" && len(names) > len(mustReadDir(t, b.dir)) {
			continue // this disk folds the two spellings
		}
		contains(t, b.text("read_file", args{"path": n}), "1| content of ")
	}
	for _, out := range []string{b.text("list_dir", args{"path": "."}), b.text("glob", args{"pattern": "*"}), b.text("grep", args{"pattern": "content"})} {
		lacks(t, out, "\x1b", "\u202e", "new\nline")
		contains(t, out, "new<U+000A>line.txt", "rtl<U+202E>txt.exe")
	}
	b.fails("read_file", args{"path": "a\x00b"}, tool.InvalidArgs, "NUL")
	b.fails("read_file", args{"path": strings.Repeat("x/", 4000)}, tool.InvalidArgs, "longer than")
	b.fails("read_file", args{"path": ""}, tool.InvalidArgs, "path is needed")
}

func mustReadDir(t *testing.T, dir string) []fs.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestProtectedEvenWhenUnrestricted(t *testing.T) {
	t.Parallel()
	var config string
	b := newBench(t, func(_ *files.Options, jo *diskio.JailOptions) {
		config = filepath.Join(jo.Home, "config.json")
		jo.Restrict = false
		jo.Protected = []string{config, "~/.ssh"}
	})
	if err := os.WriteFile(config, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(config)
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".ssh", "id"), []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(config, filepath.Join(b.dir, "hard")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{config, "~/config.json", "~/.ssh/id", "hard"} {
		b.fails("read_file", args{"path": p}, tool.DeniedPolicy, "protected")
		b.fails("grep", args{"path": p, "pattern": "CANARY"}, tool.DeniedPolicy, "protected")
	}
	contains(t, b.text("grep", args{"path": home, "pattern": "CANARY"}), "No match")
	lacks(t, b.text("list_dir", args{"path": home, "recursive": true}), "id", "config.json")
	lacks(t, b.text("glob", args{"path": home, "pattern": "**"}), ".ssh", "config.json")
}

func TestBuiltin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	contains(t, b.text("read_file", args{"path": "builtin://skills/weather/SKILL.md"}), "1| # Weather", "End of file: 2 lines")
	contains(t, b.text("read_file", args{"path": "skills/weather/SKILL.md"}), "1| # Weather")
	contains(t, b.text("list_dir", args{"path": "builtin://skills"}), "📁 tmux", "📁 weather")
	contains(t, b.text("list_dir", args{"path": "skills/weather"}), "SKILL.md")
	b.fails("write_file", args{"path": "builtin://skills/x", "content": ""}, tool.DeniedPolicy, "built in")
	b.fails("edit_file", args{"path": "builtin://skills/weather/SKILL.md", "old_text": "a", "new_text": "b"}, tool.DeniedPolicy, "built in")
	b.fails("read_file", args{"path": "builtin://../../etc/passwd"}, tool.NotFound, "does not exist")
	b.fails("read_file", args{"path": "builtin://skills"}, tool.InvalidArgs, "list_dir")
	b.fails("grep", args{"path": "builtin://skills", "pattern": "x"}, tool.Unsupported, "read_file")
	b.put("skills/weather/SKILL.md", "mine\n")
	contains(t, b.text("read_file", args{"path": "skills/weather/SKILL.md"}), "1| mine")
}
