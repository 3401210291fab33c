package files_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/tool"
	"github.com/nanobot-go/nanobot/internal/tool/files"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Every request carries the definitions, so they have a budget.
const maxDefinitionBytes = 3400

func TestDefinitions(t *testing.T) {
	t.Parallel()
	set, err := tool.NewSet(files.Tools(files.Options{})...)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	var golden strings.Builder
	for _, d := range set.Defs() {
		raw, err := json.Marshal(map[string]any{"name": d.Name, "description": d.Description, "parameters": d.Schema})
		if err != nil {
			t.Fatal(err)
		}
		total += len(raw)
		golden.WriteString(d.Name + "\n" + d.Description + "\n" + string(d.Schema) + "\n\n")
	}
	t.Logf("definitions: %d bytes", total)
	if total > maxDefinitionBytes {
		t.Errorf("definitions are %d bytes, want at most %d", total, maxDefinitionBytes)
	}
	path := filepath.Join("testdata", "definitions.golden")
	if *update {
		if err := os.WriteFile(path, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), golden.String()); d != "" {
		t.Errorf("definitions changed (-want +got), run with -update if meant:\n%s", d)
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	want := map[string]bool{"read_file": true, "list_dir": true, "glob": true, "grep": true, "write_file": false, "edit_file": false, "apply_patch": false, "notebook_edit": false}
	got := map[string]bool{}
	for _, tl := range files.Tools(files.Options{}) {
		got[tl.Name] = tl.Concurrent()
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Concurrent (-want +got):\n%s", d)
	}
}
