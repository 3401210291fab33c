package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/claims.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		label, reply, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if !ok {
			continue
		}
		n++
		reply = strings.ReplaceAll(reply, `\n`, "\n")
		if got, want := claims(reply), label == "yes"; got != want {
			t.Errorf("claims(%q) = %v, want %v", reply, got, want)
		}
		if got, want := claims(reply) || claimsDone(reply), label != "no"; label != "no" && got != want {
			t.Errorf("claimsDone(%q) = %v, want %v", reply, got, want)
		}
	}
	if n < 100 {
		t.Errorf("only %d replies were tried", n)
	}
}

func TestReceiptNotice(t *testing.T) {
	t.Parallel()
	good, bad, no := bus.Receipt{Name: "exec", Status: "ok"}, bus.Receipt{Name: "write_file", Status: "error"}, bus.Receipt{Name: "exec", Status: "denied"}
	for _, c := range []struct {
		name, reply string
		rs          []bus.Receipt
		want        string
	}{
		{"chat", "Hello!", nil, ""},
		{"empty", "", nil, ""},
		{"claim without a call", "I've created the file a.txt.", nil, "No tool ran"},
		{"vague claim without a call", "Done.", nil, ""},
		{"claim with a call that worked", "I've created the file a.txt.", []bus.Receipt{bad, good}, ""},
		{"claim with a failed call", "I've created the file a.txt.", []bus.Receipt{bad}, "The only tool call of this turn (write_file)"},
		{"claim with a denied call", "I've created the file a.txt.", []bus.Receipt{no, bad}, "All 2 tool calls"},
		{"vague claim with a failed call", "Done!", []bus.Receipt{bad}, "The only tool call"},
		{"honest about failure", "I could not create the file: permission denied.", []bus.Receipt{bad}, ""},
		{"advice after failure", "You could try another folder.", []bus.Receipt{bad}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := receiptNotice(c.reply, c.rs)
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("receiptNotice(%q) = %q, want %q...", c.reply, got, c.want)
			}
		})
	}
}

// A long reply must not be slow to judge.
func BenchmarkClaims(b *testing.B) {
	reply := strings.Repeat("The quick brown fox has been jumping over the lazy dog, and I have seen it. ", 200)
	for b.Loop() {
		claims(reply)
	}
}
