package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// printed is a file that a command prints to, because a console is made of files.
type printed struct {
	*os.File
	t *testing.T
}

func newPrinted(t *testing.T) *printed {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &printed{f, t}
}

// String returns what was printed so far.
func (p *printed) String() string {
	p.t.Helper()
	text, err := os.ReadFile(p.Name())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}
