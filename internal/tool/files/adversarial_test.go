package files_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

// everyTool is a call of each file tool with a path.
func everyTool() map[string]func(path string) args {
	return map[string]func(path string) args{
		"read_file":     func(p string) args { return args{"path": p} },
		"write_file":    func(p string) args { return args{"path": p, "content": "x"} },
		"edit_file":     func(p string) args { return args{"path": p, "old_text": "", "new_text": "x"} },
		"list_dir":      func(p string) args { return args{"path": p, "recursive": true} },
		"glob":          func(p string) args { return args{"pattern": "**", "path": p} },
		"grep":          func(p string) args { return args{"pattern": ".", "path": p, "output_mode": "content"} },
		"apply_patch":   func(p string) args { return patch(add("fine.txt", "y"), add(p, "x")) },
		"notebook_edit": func(p string) args { return args{"path": p, "cell_index": 0, "edit_mode": "insert"} },
	}
}

// trap is a workspace full of ways out, with canaries outside.
type trap struct {
	*bench
	home, outside string
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs links and special files")
	}
	tr := &trap{}
	tr.bench = newBench(t, func(_ *files.Options, jo *diskio.JailOptions) {
		tr.home = jo.Home
		jo.Protected = []string{filepath.Join(filepath.Dir(jo.Workspace), "config.json"), "~/.ssh"}
	})
	tr.outside = filepath.Join(filepath.Dir(tr.dir), "ws-evil")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(tr.outside, "secret.txt"), filepath.Join(filepath.Dir(tr.dir), "config.json"), filepath.Join(tr.home, ".ssh", "id_rsa")} {
		must(os.MkdirAll(filepath.Dir(f), 0o755))
		must(os.WriteFile(f, []byte(canary+"\n"), 0o600))
	}
	must(os.WriteFile(filepath.Join(tr.outside, "shared.txt"), []byte("shared\n"), 0o600))
	secret := filepath.Join(tr.outside, "secret.txt")
	tr.put("in.txt", "inside\n")
	tr.put("dir/x", "x\n")
	tr.put("a/b/c/x", "x\n")
	tr.put("locked", "x\n")
	must(os.Chmod(filepath.Join(tr.dir, "locked"), 0))
	for name, target := range map[string]string{
		"link": secret, "rellink": "../ws-evil/secret.txt", "dirlink": tr.outside, "abslink": filepath.Join(tr.dir, "in.txt"),
		"chain": "rellink", "dangling": "nowhere", "proclink": "/proc/self",
	} {
		must(os.Symlink(target, filepath.Join(tr.dir, name)))
	}
	must(os.Link(filepath.Join(tr.outside, "shared.txt"), filepath.Join(tr.dir, "hard")))
	makeFIFO(t, filepath.Join(tr.dir, "fifo"))
	if l, err := net.Listen("unix", shortSocket(t, tr.dir)); err == nil { //nolint:noctx // a socket file is all that is wanted
		t.Cleanup(func() { _ = l.Close() })
	}
	tr.put("evil.docx", evilZip(t, "word/document.xml", `<w:p><w:t>harmless</w:t></w:p>`))
	tr.put("evil.xlsx", evilZip(t, "xl/workbook.xml", `<workbook/>`))
	return tr
}

// shortSocket is the name of a socket in dir that fits into an address: the
// path from the working directory may be shorter.
func shortSocket(t *testing.T, dir string) string {
	t.Helper()
	short := filepath.Join(os.TempDir(), fmt.Sprintf("nb%d", os.Getpid()))
	if err := os.Symlink(dir, short); err != nil {
		return ""
	}
	t.Cleanup(func() { _ = os.Remove(short) })
	return filepath.Join(short, "socket")
}

// evilZip is an archive with names that lead out of wherever it would be unpacked.
func evilZip(t *testing.T, part, xml string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range map[string]string{part: xml, "../../x": "x", "/etc/x": "x", "link": "../ws-evil"} {
		h := &zip.FileHeader{Name: name}
		if name == "link" {
			h.SetMode(os.ModeSymlink | 0o777)
		}
		f, err := w.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(content))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// untouched checks that what lies outside is as it was.
func (tr *trap) untouched(t *testing.T, before map[string]string) {
	t.Helper()
	if d := cmp.Diff(before, tr.outsideNow(t)); d != "" {
		t.Errorf("something outside changed (-before +after):\n%s", d)
	}
}

func (tr *trap) outsideNow(t *testing.T) map[string]string {
	t.Helper()
	all := snapshot(t, tr.home)
	for name := range all {
		if strings.HasPrefix(name, tr.dir+string(filepath.Separator)) {
			delete(all, name)
		}
	}
	return all
}

func dataRows(t *testing.T, name string) (rows [][]string) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); line != "" && line[0] != '#' {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}

// Every path of 10.C goes through every file tool.
func TestAdversarialPaths(t *testing.T) {
	t.Parallel()
	tr := newTrap(t)
	before := tr.outsideNow(t)
	fill := strings.NewReplacer("{OUT}", tr.outside, "{WS}", tr.dir, "{HOME}", tr.home)
	rows := dataRows(t, "paths.txt")
	rows = append(rows, []string{"91", "safe", strconv.Quote(strings.Repeat("n", 255))}, []string{"91", "deny", strconv.Quote(strings.Repeat("n", 256))},
		[]string{"91", "deny", strconv.Quote(strings.Repeat("d/", 2100))})
	if len(rows) < 60 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		path, err := strconv.Unquote(row[2])
		if err != nil {
			t.Fatalf("%s: %v", row[2], err)
		}
		path = fill.Replace(path)
		for name, call := range everyTool() {
			p := path
			if name == "notebook_edit" {
				p += ".ipynb"
			}
			res := tr.call(name, call(p))
			if row[1] == "deny" && p == path && !res.IsError {
				t.Errorf("row %s: %s(%q) was allowed: %.100s", row[0], name, p, res.Content.String())
			}
			if strings.Contains(res.Content.String(), canary) {
				t.Errorf("row %s: %s(%q) shows the canary", row[0], name, p)
			}
		}
	}
	tr.untouched(t, before)
}

// Row 84 and 90: walks neither follow links nor stop at what they cannot read.
func TestAdversarialWalks(t *testing.T) {
	t.Parallel()
	tr := newTrap(t)
	for name, in := range map[string]args{
		"grep": {"pattern": "inside|CANARY", "output_mode": "content"}, "glob": {"pattern": "**", "entry_type": "both"}, "list_dir": {"path": ".", "recursive": true},
	} {
		got := tr.text(name, in)
		contains(t, got, "in.txt")
		lacks(t, got, canary, "shared.txt")
	}
	tr.fails("read_file", args{"path": "abslink"}, tool.DeniedPolicy, "in.txt instead") // row 86
	before := tr.outsideNow(t)
	tr.text("write_file", args{"path": "hard", "content": "mine\n"}) // row 87
	tr.untouched(t, before)
}

// Row 96: notebooks that are huge or crowded; TestNotebookHostile has deep ones.
func TestAdversarialNotebooks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("huge.ipynb", "")
	if err := os.Truncate(filepath.Join(b.dir, "huge.ipynb"), 1<<30); err != nil {
		t.Skip(err)
	}
	cells := 1_000_000
	if underRace {
		cells = 20_000
	}
	b.put("crowded.ipynb", `{"cells":[`+strings.TrimSuffix(strings.Repeat(`{},`, cells), ",")+`]}`)
	in := func(name string) args { return args{"path": name, "cell_index": 0, "new_source": "x"} }
	b.fails("notebook_edit", in("huge.ipynb"), tool.TooLarge, "bytes")
	if res := b.call("notebook_edit", in("crowded.ipynb")); res.IsError && res.Code != tool.TooLarge {
		t.Errorf("a million cells: %s", res.Content.Text)
	}
}

// Every row of 10.D goes through the same door as the model's calls.
func TestAdversarialArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.put("x.txt", "line\n")
	fill := strings.NewReplacer("{EMPTY}", "", "{DEEP}", strings.Repeat("[", 10_000)+strings.Repeat("]", 10_000), "{LONG}", strings.Repeat("x", 5<<20),
		"{SURROGATE}", `\ud800`, "{LONGNAME}", strings.Repeat("n", 300))
	for _, row := range dataRows(t, "arguments.txt") {
		name, arguments, want := strings.ReplaceAll(fill.Replace(row[1]), `\n`, "\n"), fill.Replace(row[2]), row[3]
		tl, input, bad := b.set.Prepare(name, arguments)
		var res tool.Result
		if bad != nil {
			res = *bad
		} else {
			var err error
			if res, err = tool.Execute(t.Context(), tl, tool.Call{Name: name, Input: input}, slog.New(slog.DiscardHandler)); err != nil {
				t.Errorf("row %s: %s %.80s: %v", row[0], name, arguments, err)
			}
		}
		got := "ok"
		if res.IsError {
			got = string(res.Code)
		}
		if got != want {
			t.Errorf("row %s: %s %.80s = %s, want %s (%.150s)", row[0], name, arguments, got, want, res.Content.Text)
		}
	}
	if got := b.get("x.txt"); got != "line\n" {
		t.Errorf("x.txt = %q", got)
	}
}

// Row 109: edits of one file at the same time all arrive.
func TestAdversarialParallelEdits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 24
	var content, want strings.Builder
	for i := range n {
		fmt.Fprintf(&content, "old%d.\n", i)
		fmt.Fprintf(&want, "new%d.\n", i)
	}
	b.put("f", content.String())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			old, repl := fmt.Sprintf("old%d.", i), fmt.Sprintf("new%d.", i)
			if i%2 == 0 {
				b.text("edit_file", args{"path": "f", "old_text": old, "new_text": repl})
				return
			}
			for { // a patch does not wait between planning and writing; it says so
				if res := b.call("apply_patch", patch(replace("f", old, repl))); res.Code != tool.Conflict {
					return
				}
			}
		})
	}
	wg.Wait()
	if d := cmp.Diff(want.String(), b.get("f")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
