package nanobot_test

import (
	"bytes"
	"encoding/json"
	"go/types"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// limited is a type that is larger than others may be.
type limited struct {
	Max int    `json:"max"`
	Why string `json:"why"`
}

// budget is budget.json: what the program and its code may need at most.
// Raising a figure is a decision for review.
type budget struct {
	Binary       int64 `json:"binary_bytes"`
	OneShotRSS   int64 `json:"oneshot_rss_bytes"`
	FirstRequest int64 `json:"first_request_bytes"`

	// Times, which only the benchmark measures.
	GatewayReady int `json:"gateway_ready_ms"`
	OneShotStart int `json:"oneshot_start_floors"`
	ExecOverhead int `json:"exec_overhead_ms"`
	WebFetch     int `json:"web_fetch_ms"`

	ProductLines      int                `json:"product_lines"`
	CoreLines         int                `json:"core_lines"`
	CorePackages      []string           `json:"core_packages"`
	PackageLines      map[string]int     `json:"package_lines"`
	Methods           map[string]limited `json:"methods"`
	Fields            map[string]limited `json:"fields"`
	ChannelInterfaces []string           `json:"channel_interfaces"`
}

func readBudget(t *testing.T) budget {
	t.Helper()
	raw, err := os.ReadFile("budget.json")
	if err != nil {
		t.Fatal(err)
	}
	var b budget
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatalf("budget.json: %v", err)
	}
	return b
}

// isProduct reports packages whose lines count: not tests, suites for tests,
// benchmarks and tools.
func isProduct(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.HasSuffix(pkg, "test") && !slices.Contains([]string{"bench", "tools", "test", "web"}, first)
}

// codeLines counts the lines of product code per package.
func codeLines(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	walkSources(t, func(file string) {
		pkg := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || !isProduct(pkg) {
			return
		}
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[pkg] += bytes.Count(body, []byte("\n"))
	})
	return out
}

// ceiling is what a package of n lines may grow to before budget.json has to
// follow: small changes do not touch it.
func ceiling(n int) int { return (n + 99) / 100 * 100 }

func TestLines(t *testing.T) {
	b, lines := readBudget(t), codeLines(t)
	total, core := 0, 0
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		n, most := lines[pkg], b.PackageLines[pkg]
		total += n
		if slices.ContainsFunc(b.CorePackages, func(pat string) bool { return glob(pat, pkg) }) {
			core += n
		}
		switch {
		case most == 0:
			t.Errorf("package %s has no ceiling: add \"%s\": %d to package_lines in budget.json", pkg, pkg, ceiling(n))
		case n > most:
			t.Errorf("package %s has %d lines, budget.json allows %d: delete or split; a new capability raises the ceiling in its own commit", pkg, n, most)
		}
	}
	for pkg := range b.PackageLines {
		if lines[pkg] == 0 {
			t.Errorf("package %s of package_lines in budget.json does not exist: run make budget", pkg)
		}
	}
	if total > b.ProductLines {
		t.Errorf("the product has %d lines, budget.json allows %d", total, b.ProductLines)
	}
	if core > b.CoreLines {
		t.Errorf("the core has %d lines, budget.json allows %d", core, b.CoreLines)
	}
	t.Logf("product: %d of %d lines, core: %d of %d", total, b.ProductLines, core, b.CoreLines)
}

// TestLowerBudget lowers the ceilings of the code to what it needs today, and
// raises none. It does nothing without -update.
func TestLowerBudget(t *testing.T) {
	if !*update {
		t.Skip("make budget runs it")
	}
	b, lines, list := readBudget(t), codeLines(t), loadProgram(t)
	all := ownTypes(list)
	maps.DeleteFunc(b.PackageLines, func(pkg string, _ int) bool { return lines[pkg] == 0 })
	for pkg, most := range b.PackageLines {
		b.PackageLines[pkg] = min(most, ceiling(lines[pkg]))
	}
	lower := func(list map[string]limited, limit int, count func(*types.Named) int) {
		maps.DeleteFunc(list, func(name string, _ limited) bool { return all[name] == nil || count(all[name]) <= limit })
		for name, row := range list {
			row.Max = min(row.Max, count(all[name]))
			list[name] = row
		}
	}
	lower(b.Methods, maxMethods, methodsOf)
	lower(b.Fields, maxFields, fieldsOf)
	out, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("budget.json", append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}

	unused, err := unusedExports(list)
	if err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(listedExports(t), func(name string) bool { return !slices.Contains(unused, name) })
	if err := os.WriteFile(unusedList, []byte(strings.Join(left, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
