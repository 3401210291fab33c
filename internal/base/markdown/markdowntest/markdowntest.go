// Package markdowntest judges what writes Markdown in the markup of a platform. It
// has a sample of every kind of block and word, alone and in each other, and compares
// what becomes of them with a golden file of the package that is tested. Go test with
// -update writes the file again; the difference is for a person to read.
package markdowntest

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files") //nolint:gochecknoglobals // a flag of tests

// Sample is a text and what it is an example of.
type Sample struct{ Name, Source string }

// Golden checks what render makes of the samples against testdata/name.golden of the
// package that is tested.
func Golden(t *testing.T, name string, render func(source string) string) {
	t.Helper()
	var b strings.Builder
	for _, s := range Samples() {
		b.WriteString("== " + s.Name + "\n")
		writeLines(&b, "   ", s.Source)
		writeLines(&b, "-> ", render(s.Source))
	}

	got := b.String()

	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		return
	}

	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the samples are written differently (-want +got):\n%s", diff)
	}
}

// writeLines writes each line of a text quoted, so that spaces at its end and
// characters without width are seen.
func writeLines(b *strings.Builder, mark, s string) {
	for line := range strings.SplitSeq(s, "\n") {
		b.WriteString(mark + strconv.Quote(line) + "\n")
	}
}
