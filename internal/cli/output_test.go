package cli

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := newTable(&b, "NAME", "N", "ABOUT")
	w.row("a", 12, "x")
	w.row("longer", 3, "")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "NAME    N   ABOUT\na       12  x\nlonger  3   \n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestTableWide: a Chinese letter takes two columns.
func TestTableWide(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := newTable(&b, "名称", "N", "ABOUT")
	w.row("a", 12, "x")
	w.row("对话一", 3, "")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "名称    N   ABOUT\na       12  x\n对话一  3   \n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
