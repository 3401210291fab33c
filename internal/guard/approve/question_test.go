package approve_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/guard/approve"
)

// A question shows the end of a command however it is pushed away, and a long one
// says that it must be opened.
func TestQuestionShowsTheEnd(t *testing.T) {
	t.Parallel()
	const end = "touch harm"
	for name, row := range map[string]struct {
		command string
		folded  bool // apps may
	}{
		"short":                        {"date; " + end, false},
		"spaces":                       {"date;" + strings.Repeat(" ", 5000) + end, false},
		"empty lines":                  {"date" + strings.Repeat("\n", 900) + end, false},
		"lines of spaces":              {"date\n" + strings.Repeat(strings.Repeat(" ", 30)+"\n", 300) + end, false},
		"returns":                      {"date" + strings.Repeat("\r", 200) + "\n" + end, true},
		"line separators":              {"date" + strings.Repeat("\u2028", 200) + end, true},
		"wide spaces":                  {"date" + strings.Repeat("\u3000", 200) + end, true},
		"zero width":                   {"date" + strings.Repeat("\u200b", 200) + "\n" + end, true},
		"the other direction":          {"date \u202e" + end + "\u202c", false},
		"escape sequences":             {"date \x1b[8m\x1b[2K; " + end, false},
		"comments":                     {strings.Repeat("# nothing to see\n", 60) + end, true},
		"one long word":                {"echo " + strings.Repeat("x", 3000) + "; " + end, true},
		"tabs":                         {"date;" + strings.Repeat("\t", 200) + end, true},
		"spaces and empty lines mixed": {"date" + strings.Repeat("\n"+strings.Repeat(" ", 99)+"\n", 200) + end, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, approve.Options{Mode: approve.Ask})
			if got := b.check(execTool, args{"command": row.command}, "no"); got != "denied_approval asked" {
				t.Fatal(got)
			}
			asked := b.lastQuestion()
			if !strings.Contains(asked, end) {
				t.Errorf("the end is not shown:\n%s", asked)
			}
			if strings.Contains(asked, "open all of it before you answer") != row.folded {
				t.Errorf("whether it says that it must be opened is %v:\n%s", !row.folded, asked)
			}
			for _, hides := range []string{strings.Repeat(" ", 30), strings.Repeat("  | \n", 4), "\u202e", "\u200b", "\u2028", "\u3000", "\x1b", "\r", "\t"} {
				if strings.Contains(asked, hides) {
					t.Errorf("%q is in the question", hides)
				}
			}
		})
	}
}
