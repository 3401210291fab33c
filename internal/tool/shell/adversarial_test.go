//go:build unix

package shell_test

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/shell"
)

//go:embed testdata/adversarial/*.txt
var adversarialFiles embed.FS

// hostile is one line of the data: see testdata/adversarial/README.md.
type hostile struct {
	row, kind, list, command string
}

func (h hostile) name() string { return h.row + " " + h.kind + " " + h.command }

// hostiles reads the data, all kinds or the given ones.
func hostiles(tb testing.TB, kinds string) []hostile {
	tb.Helper()
	files, err := adversarialFiles.ReadDir("testdata/adversarial")
	if err != nil {
		tb.Fatal(err)
	}
	var all []hostile
	for _, f := range files {
		data, err := adversarialFiles.ReadFile("testdata/adversarial/" + f.Name())
		if err != nil {
			tb.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			var h hostile
			var rest string
			h.row, rest, _ = strings.Cut(line, " ")
			if i := strings.Index(rest, "} "); strings.HasPrefix(rest, "G{") && i > 0 {
				h.kind, h.list, h.command = "G", rest[2:i], rest[i+2:]
			} else {
				h.kind, h.command, _ = strings.Cut(rest, " ")
			}
			h.command = strings.ReplaceAll(h.command, "⏎", "\n")
			if len(h.kind) != 1 || !strings.Contains("SGNLABHPCID", h.kind) {
				tb.Fatalf("%s: %q: no such kind", f.Name(), line)
			}
			if kinds == "" || strings.Contains(kinds, h.kind) {
				all = append(all, h)
			}
		}
	}
	return all
}

// Every row of the table has at least one case.
func TestAdversarialRowsAreComplete(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, h := range hostiles(t, "") {
		n, err := strconv.Atoi(strings.TrimRight(h.row, "abcdefghijklmnopqrstuvwxyz"))
		if err != nil {
			t.Fatalf("%q: no row", h.row)
		}
		seen[n] = true
	}
	for row := 1; row <= 45; row++ {
		if !seen[row] {
			t.Errorf("row %d has no case", row)
		}
	}
}

// furnish makes a workspace that the commands of the data expect.
func furnish(ws string) error {
	if err := os.MkdirAll(ws, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{"sub", "memory", "notes"} {
		if err := os.MkdirAll(filepath.Join(ws, dir), 0o700); err != nil {
			return err
		}
	}
	syscall.ForkLock.RLock() // or a process that is born now holds a script open, which then cannot be started
	defer syscall.ForkLock.RUnlock()
	for name, text := range map[string]string{
		"a.txt": "a\n", "notes/dd-if.md": "start\nwhat dd if=/dev/zero does; shutdown\nend\n", "memory/history.jsonl": "{}\n",
		"Makefile":     "ok:\n\t@echo fine\nrun:\n\tcat ../config.json\n",
		"package.json": `{"name":"x","version":"1.0.0","scripts":{"x":"cat ../config.json"}}`,
		"outside.sh":   "#!/bin/sh\ncat ../config.json\ncat /etc/passwd\n",
		"bomb.sh":      "bomb() { bomb | bomb & }\nbomb\nwait\n",
	} {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o700); err != nil {
			return err
		}
	}
	if err := os.Symlink("/", filepath.Join(ws, "link")); err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}

// The rows that hold without any sandbox, by guard and argument checks alone.
func TestAdversarialWithoutSandbox(t *testing.T) {
	t.Parallel()
	for i, h := range hostiles(t, "GAPCID") {
		t.Run(fmt.Sprint(i, " ", h.name()), func(t *testing.T) {
			t.Parallel()
			ws := filepath.Join(t.TempDir(), "ws")
			if err := furnish(ws); err != nil {
				t.Fatal(err)
			}
			o := shell.Options{Workspace: ws, Restrict: true, Environ: []string{"HOME=" + filepath.Dir(ws), "PATH=" + os.Getenv("PATH")}}
			if h.list != "" {
				o.Allow = []string{h.list}
			}
			switch h.kind {
			case "P":
				if words, ok := shell.Prefix(h.command); ok {
					t.Errorf("an approval can be remembered for %q", words)
				}
			case "C":
				o.AllowedEnv = []string{h.command}
				if sh, err := shell.New(o); err == nil {
					t.Errorf("accepted")
					_ = sh.Close()
				}
			default:
				withoutSandbox(t, newDesk(t, o), h)
			}
			if _, err := os.Stat(filepath.Join(ws, "pwn")); err == nil {
				t.Error("a refused command ran")
			}
		})
	}
}

func withoutSandbox(t *testing.T, d *desk, h hostile) {
	t.Helper()
	switch h.kind {
	case "G":
		d.expect(d.call("a", "exec", args{"command": h.command}), tool.DeniedPolicy, "not run")
		d.expect(d.call("a", "exec", args{"command": h.command, "yield_time_ms": 0}), tool.DeniedPolicy, "not run")
	case "A":
		if r := d.call("a", "exec", args{"command": h.command, "timeout": 60}); r.IsError {
			t.Errorf("got %s (%s)", r.Content.Text, r.Code)
		}
	case "I":
		command := strings.Repeat("a", 2<<20)
		if h.command != "LONG" {
			var err error
			if command, err = strconv.Unquote(h.command); err != nil {
				t.Fatal(err)
			}
		}
		d.expect(d.call("a", "exec", args{"command": command}), tool.InvalidArgs)
	case "D":
		r := d.call("a", "exec", args{"command": "ls", "working_dir": h.command})
		if !slices.Contains([]tool.Code{tool.DeniedPolicy, tool.NotFound}, r.Code) {
			t.Errorf("got %s (%s)", r.Content.Text, r.Code)
		}
	}
}
