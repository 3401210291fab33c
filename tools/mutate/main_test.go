package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "p"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("go.mod", "module m\n\ngo 1.26\n")
	write("p/p.go", "package p\n\nfunc Adult(age int) bool { return age >= 18 }\n\nfunc unseen(a, b bool) bool { return a && b }\n")
	write("p/p_test.go", "package p\n\nimport \"testing\"\n\nfunc TestAdult(t *testing.T) {\n\tif Adult(17) || !Adult(18) {\n\t\tt.Error()\n\t}\n}\n")
	found, err := candidates(root, "p")
	if err != nil || len(found) != 2 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, m := range found {
		noticed, err := try(t.Context(), root, m)
		if err != nil || noticed != (m.old == ">=") {
			t.Errorf("%s: noticed %v, %v", m, noticed, err)
		}
	}
	list, err := named(root, "# comment\np/p.go\tage >= 18\tage >= 21\n")
	if err != nil || len(list) != 1 || list[0].line != 3 || !list[0].must {
		t.Fatalf("%v, %v", list, err)
	}
	if noticed, err := try(t.Context(), root, list[0]); err != nil || !noticed {
		t.Errorf("noticed %v, %v", noticed, err)
	}
	for name, in := range map[string]string{"p": "p", "p=q": "q"} { // whose tests run
		found, err := candidates(root, name)
		if err != nil || len(found) != 2 || found[0].file != "p/p.go" || found[0].pkg != in {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	list, err = named(root, "p/p.go=q\tage >= 18\tage >= 21\n")
	if err != nil || len(list) != 1 || list[0].file != "p/p.go" || list[0].pkg != "q" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := named(root, "p/p.go\tbool\tint\n"); err == nil {
		t.Error("a text that stands there often is accepted")
	}
}

// The list of the repository fits its files.
func TestBreakages(t *testing.T) {
	t.Parallel()
	list, err := named("../..", breakages)
	if err != nil || len(list) < 5 {
		t.Fatalf("%d breakages, %v", len(list), err)
	}
	for _, m := range list {
		if m.old == m.new || strings.TrimSpace(m.new) == "" {
			t.Errorf("%s changes nothing", m)
		}
	}
}
