package cli

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestKeyFilter(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ typed, want string }{
		"plain text":                       {"model\r", "model\r"},
		"Esc alone is nothing":             {"\x1b", ""},
		"Ctrl-C after Esc":                 {"\x1b\x03", "\x03"},
		"a letter after Esc":               {"\x1b2\r", "2\r"},
		"Esc twice":                        {"\x1b\x1bq", "q"},
		"an arrow":                         {"a\x1b[Db", "a\x1b[Db"},
		"a key of the application mode":    {"\x1bOH", "\x1bOH"},
		"a paste":                          {"\x1b[200~sk-1\n\x1b[201~\r", "\x1b[200~sk-1\n\x1b[201~\r"},
		"Ctrl-C within a sequence":         {"\x1b[1;\x03", "\x03"},
		"a sequence that does not end":     {"\x1b[" + strings.Repeat("1", 100) + "\x03", strings.Repeat("1", 100-31) + "\x03"},
		"letters of other languages":       {"\x1b模型\r", "模型\r"},
		"a sequence is followed by Ctrl-C": {"\x1b[A\x03", "\x1b[A\x03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(row.typed), iotest.OneByteReader(strings.NewReader(row.typed))} {
				got, err := io.ReadAll(&keyFilter{in: in})
				if err != nil || string(got) != row.want {
					t.Errorf("%q arrives as %q (%v), want %q", row.typed, got, err, row.want)
				}
			}
		})
	}
}
