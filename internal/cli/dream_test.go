package cli

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a call with -m leaves for memory is taken in before it ends, and Dream
// makes long-term memory of it without a gateway.
func TestMemoryWithoutGateway(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(&fakeModel{text: "[MEMORY] The user likes tea."})
	defer srv.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, fmt.Appendf(nil,
		`{"agents": {"defaults": {"model": "m", "provider": "custom", "workspace": %q}}, "providers": {"custom": {"apiBase": %q, "apiKey": "k-secret"}}}`,
		filepath.Join(dir, "work"), srv.URL+"/v1"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) (out, errs string) {
		t.Helper()
		var files [3]*os.File
		for i := range files {
			f, err := os.CreateTemp(dir, "stdio")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			files[i] = f
		}
		read := func(f *os.File) string {
			b, err := os.ReadFile(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		c := newProgram(Stdio{Now: time.Now, In: files[0], Out: files[1], Err: files[2], Env: []string{"NANOBOT_HOME=" + dir}}, file, "")
		cmd := build(t, c, name)
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, read(files[2]))
		}
		return read(files[1]), read(files[2])
	}
	if _, errs := run("agent", "-m", "I like tea."); strings.Contains(errs, "memory") {
		t.Errorf("nothing waits for memory: %s", errs)
	}
	if _, errs := run("agent", "-m", "/new"); !strings.Contains(errs, "Saving 1 conversation to memory") {
		t.Errorf("no note: %s", errs)
	}
	if out, _ := run("dream"); !strings.Contains(out, "1 entry read") {
		t.Errorf("dream says %q", out)
	}
	if out, _ := run("dream"); !strings.Contains(out, "Nothing to take in") {
		t.Errorf("a second dream says %q", out)
	}
}
