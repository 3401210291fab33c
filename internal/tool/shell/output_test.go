package shell

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// cutReference is the definition of what a capture shows: all, or the first
// and last half of limit characters around a count of the rest.
func cutReference(data []byte, limit int) string {
	all := []rune(string(data))
	if len(all) <= limit {
		return string(all)
	}
	return string(all[:limit-limit/2]) + fmt.Sprintf("\n[... %d characters cut ...]\n", len(all)-limit) + string(all[len(all)-limit/2:])
}

func TestCaptureMatchesItsDefinition(t *testing.T) {
	t.Parallel()
	alphabets := [][]string{
		{"a", "b", "\n"},
		{"é", "你", "👍", "x"},
		{"\xff", "\xe4", "\xe4\xbd", "\xf0\x9f", "你", "a", "\x80"}, // broken characters
	}
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := 2 + rng.IntN(40)
		var data []byte
		for range rng.IntN(4 * limit) {
			a := alphabets[seed%3]
			data = append(data, a[rng.IntN(len(a))]...)
		}
		c := newCapture(limit)
		for rest := data; len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 7))
			if got, err := c.Write(rest[:n]); got != n || err != nil {
				t.Fatalf("Write = %d, %v, want %d, nil", got, err, n)
			}
			rest = rest[n:]
			if held := len(c.head) + len(c.tail) + len(c.pending); held > limit*3*utf8.UTFMax {
				t.Fatalf("seed %d: holds %d bytes for a limit of %d characters", seed, held, limit)
			}
		}
		c.close()
		for shown := range limit + 1 {
			if got, want := c.text(shown), cutReference(data, shown); got != want {
				t.Fatalf("seed %d, limit %d, shown %d, data %q:\ngot  %q\nwant %q", seed, limit, shown, data, got, want)
			}
		}
	}
}

func TestCaptureHoldsLittle(t *testing.T) {
	t.Parallel()
	c := newCapture(maxOutputChars)
	chunk := []byte(strings.Repeat("0123456789abcde\n", 2<<10)) // as much as one read brings
	for range 2000 {
		_, _ = c.Write(chunk)
	}
	if held := cap(c.head) + cap(c.tail) + cap(c.pending); held > 20*maxOutputChars {
		t.Errorf("holds %d bytes after %d were written", held, 2000*len(chunk))
	}
	if c.total != 2000*len(chunk) {
		t.Errorf("counted %d characters, want %d", c.total, 2000*len(chunk))
	}
}

func TestRenderSharesTheLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		stdout, stderr   int
		outKept, errKept int
	}{
		{"both short", 10, 10, 10, 10},
		{"long stdout", 50_000, 10, maxOutputChars - 10, 10},
		{"long stderr", 10, 50_000, 10, maxOutputChars - 10},
		{"both long", 50_000, 50_000, maxOutputChars / 2, maxOutputChars / 2},
		{"just full", maxOutputChars, 0, maxOutputChars, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := &outcome{stdout: newCapture(maxOutputChars), stderr: newCapture(maxOutputChars)}
			_, _ = o.stdout.Write([]byte(strings.Repeat("o", c.stdout)))
			_, _ = o.stderr.Write([]byte(strings.Repeat("e", c.stderr)))
			text := o.render(maxOutputChars)
			// What is left of the marker and the heading has neither letter.
			text = strings.ReplaceAll(text, "characters", "")
			if got := strings.Count(text, "o"); got != c.outKept {
				t.Errorf("kept %d of stdout, want %d", got, c.outKept)
			}
			if got := strings.Count(text, "e"); got != c.errKept {
				t.Errorf("kept %d of stderr, want %d", got, c.errKept)
			}
		})
	}
}

func TestBlankStderrIsLeftOut(t *testing.T) {
	t.Parallel()
	o := &outcome{stdout: newCapture(10), stderr: newCapture(10)}
	_, _ = o.stdout.Write([]byte("a\n"))
	_, _ = o.stderr.Write([]byte(" \n\n"))
	if got, want := o.render(maxOutputChars), "a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
