package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// methodsOf is the text of a file with a type that has n methods.
func methodsOf(pkg, name string, n int) string {
	text := "package " + pkg + "\n\ntype " + name + " struct{}\n"
	for i := range n {
		text += fmt.Sprintf("\nfunc (%s) f%d() {}\n", name, i)
	}
	return text
}

func TestReport(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.write("internal/agent/turn.go", methodsOf("agent", "turn", 30))
	h.write("internal/agent/ask.go", methodsOf("agent", "ask", 40))
	h.write("internal/agent/small.go", methodsOf("agent", "small", 24))
	h.write("internal/old/old.go", methodsOf("old", "old", 26))
	h.write("internal/doubled/a.go", "package doubled\n\nfunc a() {\n"+six+"}\n")
	h.write("internal/doubled/b.go", "package doubled\n\nfunc b() {\n"+six+"}\n")
	h.write("web/src/a.ts", "a();\n")
	h.commit("2026-01-01", mainFile, "package main\n")
	h.write("internal/core/agent/turn.go", methodsOf("agent", "turn", 36))
	h.git("", "rm", "-r", "--quiet", "internal/agent", "internal/old")
	h.write("internal/core/agent/ask.go", methodsOf("agent", "ask", 41))
	h.write("internal/core/agent/small.go", methodsOf("agent", "small", 25))
	h.write("internal/new/new.go", methodsOf("new", "new", 26))
	h.write("internal/new/b.go", "package new\n\nfunc b() { c() }\n")
	h.write("internal/new/c.go", "package new\n\nfunc c() { d(); d() }\n")
	h.write("internal/new/d.go", "package new\n\nfunc d() { b() }\n")
	h.write("internal/new/d_test.go", "package new\n\n"+strings.Repeat("// test\n", 500))
	h.write("internal/doubled/b.go", "package doubled\n\nvar b = []string{\""+wide+"\", \"b\"}\n"+strings.Repeat("// b\n", 398))
	h.write("web/src/a.ts", "a();\n\nb("+wide+", 123456);\n")
	h.commit("2026-03-01", "tools/x/main.go", "package main\n")

	var out strings.Builder
	if err := run(t.Context(), []string{"-root", h.root}, &out); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"of 2026-01-01, the newest one that is older than a month.",
		"| | now | before | change |",
		"| lines of Go: product | 689 | 273 | **+152.4 %** |",
		"| lines of Go: tests, suites, fakes, benchmarks | 502 | 0 | **from 0** |",
		"| lines of Go: tools | 1 | 0 | **from 0** |",
		"| lines of TypeScript: product | 3 | 1 | **+200.0 %** |",
		"| packages of Go | 4 | 4 | |",
		"| files over 400 lines | 1 | 0 | **from 0** |",
		"| lines of statements over 110 columns: Go | 1 | 0 | **from 0** |",
		"| lines of statements over 110 columns: TypeScript | 1 | 0 | **from 0** |",
		"| share of blank lines: Go | 19.9 % | 46.2 % | -26.3 points |",
		"| pairs of places with 6 or more equal lines | 0 | 1 | -100.0 % |",
		"| lines that are in such a pair | 0 | 14 | -100.0 % |",
		"| internal/doubled/b.go | 401 | 10 | **+3910.0 %** |",
		"| types with more than 25 methods | 3 | 3 | |",
		"| share of blank lines: TypeScript | 33.3 % | 0.0 % | **from 0** |",
		"| share of references between files that run back up | 25.0 % | 0.0 % | **from 0** |",
		"| internal/core/agent | 213 | 197 | +8.1 % |",
		"| internal/new | 64 | - | new |",
		"| internal/old | - | 55 | gone |",
		"| internal/core/agent.ask | 41 | 40 | +2.5 % |",
		"| internal/core/agent.turn | 36 | 30 | **+20.0 %** |",
		"| internal/new.new | 26 | - | new |",
		"| internal/old.old | - | 26 | gone |",
		"| internal/new | 25.0 % of 4 | - | new |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if n := strings.Count(got, "gone"); n != 2 {
		t.Errorf("%d rows are gone, want a package and its type", n)
	}
	for _, unwanted := range []string{"agent.small", "Package initialisation", "more, with -all"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("the report has %q", unwanted)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestReportWithoutHistory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range 60 {
		name := fmt.Sprintf("p%d", i)
		folder := filepath.Join(root, "internal", name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{
			"a.go": methodsOf(name, "big", 130) + "func a() { b() }\n" + strings.Replace(six, "one()", "func one() {", 1) + "}\n",
			"b.go": "package " + name + "\n\nfunc b() { a() }\n", "c.go": "package " + name + "\n", "d.go": "package " + name + "\n",
		}
		for base, text := range texts {
			if err := os.WriteFile(filepath.Join(folder, base), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	trace := filepath.Join(root, "trace")
	if err := os.WriteFile(trace, []byte("init a @1 ms, 0 ms clock, 8 bytes, 1234 allocs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	report := func(args ...string) string {
		t.Helper()
		var out strings.Builder
		if err := run(t.Context(), append([]string{"-root", root}, args...), &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}

	short := report("-inittrace", trace)
	for _, want := range []string{
		"Figures of today alone: there is no history of git here.",
		"Package initialisation: 1,234 allocations.",
		"and 50 more, with -all",
	} {
		if !strings.Contains(short, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(short, "before") {
		t.Error("the report has a column without figures")
	}
	if n := strings.Count(short, "\n"); n > 100 {
		t.Errorf("the report has %d lines, two screens have 100", n)
	}
	if strings.Count(short, "internal/p59") > strings.Count(report("-all"), "internal/p59")-5 {
		t.Error("-all does not show more")
	}
}

func TestChange(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]row{
		"":                {now: 5, before: 5},
		"+9.9 %":          {now: 1099, before: 1000},
		"**+10.0 %**":     {now: 11, before: 10},
		"-50.0 %":         {now: 5, before: 10},
		"**from 0**":      {now: 5},
		"new":             {now: 5, isNew: true},
		"gone":            {before: 5, gone: true},
		"+1.0 points":     {now: 0.21, before: 0.2, isShare: true},
		"**+2.5 points**": {now: 0.225, before: 0.2, isShare: true},
		"-10.0 points":    {now: 0.1, before: 0.2, isShare: true},
		"**+100.0 %**":    {now: 2, before: 1},
		"**+0.5 points**": {now: 0.015, before: 0.01, isShare: true},
	} {
		if got := r.change(); got != want {
			t.Errorf("from %v to %v: %q, want %q", r.before, r.now, got, want)
		}
	}
	if got := (row{now: 100001, before: 100000}).change(); got != "" {
		t.Errorf("a hundred-thousandth more is %q", got)
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %q, want %q", n, got, want)
		}
	}
}
