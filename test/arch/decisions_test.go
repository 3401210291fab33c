package arch_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const decisionIndex = "docs/decisions/README.md"

var (
	recordTitle = regexp.MustCompile(`^# (\d+)[.:] `)
	bracketed   = regexp.MustCompile(`\([^)]*\)`)
	superseding = regexp.MustCompile(`[Ss]upersedes([^.:]*)`)
	decisionRef = regexp.MustCompile(`[Dd]ecisions? ((?:\d+(?:, | and )?)+)`)
	number      = regexp.MustCompile(`\d+`)
	indexEntry  = regexp.MustCompile(`^- \[(\d+)\]\(([^)]+)\) ([^*]*)(?:\*(Changed|Superseded) by (.*)\.\*)?$`)
)

// record is a decision, by its file below docs/decisions.
type record struct {
	file       string
	old        bool // in the folder superseded
	supersedes []int
}

// decisionRecords are all records by their numbers.
func decisionRecords(t *testing.T) map[int]record {
	t.Helper()
	records := map[int]record{}
	for _, pattern := range []string{"docs/decisions/[0-9]*.md", "docs/decisions/superseded/[0-9]*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text := string(readFile(t, file))
			m := recordTitle.FindStringSubmatch(text)
			if m == nil {
				t.Errorf("%s: the first line is not \"# NUMBER. TITLE\"", file)
				continue
			}
			n, _ := strconv.Atoi(m[1])
			if !strings.HasPrefix(filepath.Base(file), fmt.Sprintf("%04d-", n)) {
				t.Errorf("%s has the number %d in its title", file, n)
			}
			if records[n].file != "" {
				t.Errorf("%s and %s have the same number", records[n].file, file)
			}
			records[n] = record{file: filepath.ToSlash(file), old: strings.Contains(pattern, "superseded"), supersedes: superseded(text)}
		}
	}
	if len(records) < 110 {
		t.Fatalf("only %d records were found", len(records))
	}
	return records
}

// superseded are the numbers that a record supersedes, in whole or in part.
func superseded(text string) []int {
	text = bracketed.ReplaceAllString(strings.Join(strings.Fields(text), " "), "")
	found := map[int]bool{}
	for _, m := range superseding.FindAllStringSubmatch(text, -1) {
		for _, n := range decisionsIn(strings.NewReplacer("[", "", "]", "").Replace(m[1])) {
			found[n] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// decisionsIn are the numbers in "decision 7" and "decisions 7, 8 and 9".
func decisionsIn(text string) (list []int) {
	for _, m := range decisionRef.FindAllStringSubmatch(text, -1) {
		for _, digits := range number.FindAllString(m[1], -1) {
			n, _ := strconv.Atoi(digits)
			list = append(list, n)
		}
	}
	return list
}

// The index has each record once, says of each which ones changed it, and lists
// the numbers that were never used.
func TestDecisionIndex(t *testing.T) {
	records := decisionRecords(t)
	changed := map[int][]int{}
	for n, r := range records {
		for _, older := range r.supersedes {
			changed[older] = append(changed[older], n)
		}
	}

	index := string(readFile(t, decisionIndex))
	listed := map[int]bool{}
	for line := range strings.Lines(index) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "- [") {
			continue
		}
		m := indexEntry.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not an entry of the index: %s", line)
			continue
		}
		n, _ := strconv.Atoi(m[1])
		r, ok := records[n]
		switch {
		case !ok:
			t.Errorf("the index lists %d, and there is no such record", n)
			continue
		case listed[n]:
			t.Errorf("the index lists %d twice", n)
		case "docs/decisions/"+m[2] != r.file:
			t.Errorf("the index leads from %d to %s instead of %s", n, m[2], r.file)
		case r.old != (m[4] == "Superseded"):
			t.Errorf("%s: a record is in superseded/ if the index says \"Superseded by\", and only then", r.file)
		}
		listed[n] = true
		var by []int
		for _, digits := range regexp.MustCompile(`\[(\d+)\]`).FindAllStringSubmatch(m[5], -1) {
			other, _ := strconv.Atoi(digits[1])
			by = append(by, other)
		}
		slices.Sort(by)
		slices.Sort(changed[n])
		if !slices.Equal(by, changed[n]) {
			t.Errorf("the index says that %d was changed by %v, the records say %v", n, by, changed[n])
		}
	}

	var gaps []string
	for n := range slices.Max(slices.Collect(maps.Keys(records))) {
		switch _, ok := records[n]; {
		case ok && !listed[n]:
			t.Errorf("%s is not in the index", records[n].file)
		case !ok && n > 0:
			gaps = append(gaps, strconv.Itoa(n))
		}
	}
	_, rest, _ := strings.Cut(index, "\n## Numbers without a record\n")
	if want := strings.Join(gaps, ", ") + "."; strings.TrimSpace(rest) != want {
		t.Errorf("numbers without a record: the index has %q, want %q", strings.TrimSpace(rest), want)
	}
}

// A decision that a page or the code names exists.
func TestDecisionsThatAreNamed(t *testing.T) {
	records := decisionRecords(t)
	named := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name()[0] == '.' || d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "vendor"):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".md", ".ts", ".tsx"}, filepath.Ext(file)) && d.Name() != "Makefile":
			return nil
		}
		for _, n := range decisionsIn(string(readFile(t, file))) {
			named++
			if _, ok := records[n]; !ok {
				t.Errorf("%s names decision %d, which does not exist", file, n)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 100 {
		t.Errorf("only %d names of decisions were found", named)
	}
}

// The reader of records must be able to fail.
func TestSuperseded(t *testing.T) {
	for text, want := range map[string][]int{
		"Supersedes decision 18.": {18},
		"Supersedes decision 24 in part (running marked files) and\ndecision 23 in part (which). See decision 7.": {23, 24},
		"Supersedes the part of [decision 19](0019-x.md) that let\nprograms chat.":                                {19},
		"This supersedes decisions 7 and 61 in these four settings.":                                              {7, 61},
		"Supersedes decision 10 in part: packs are read by a library (decision 36).":                              {10},
		"Extends decision 59.": nil,
	} {
		if got := superseded(text); !slices.Equal(got, want) {
			t.Errorf("superseded(%q) = %v, want %v", text, got, want)
		}
	}
}
