package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// build makes a command of the first level alone.
func build(t *testing.T, c *program, name string) *cobra.Command {
	t.Helper()
	for _, n := range c.nouns() {
		if n.name == name {
			return n.build()
		}
	}
	t.Fatalf("there is no command %s", name)
	return nil
}

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
