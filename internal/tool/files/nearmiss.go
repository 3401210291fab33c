package files

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Bounds of the search for similar text: it is a courtesy and must stay cheap.
const (
	maxNearLines  = 20_000
	maxNearTime   = 200 * time.Millisecond
	maxNearWindow = 200 // lines compared and shown
	maxNearBytes  = 240 // of each line
)

// nearMiss explains why a passage was not found: the most similar lines as a
// diff, and the likely causes.
func nearMiss(shown, content, old string) string {
	head := "old_text was not found in " + shown + "."
	why := causes(content, old)
	want := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	lines := strings.Split(content, "\n")
	if len(lines) > maxNearLines {
		return head + why + " The file is too long to look for similar text; read the lines to change first."
	}

	at, ratio := closest(lines, want, time.Now().Add(maxNearTime))
	if ratio <= 0.5 {
		if why == "" {
			return head + " Nothing similar is in it; read the file first."
		}
		return head + why
	}

	window := lines[at:min(len(lines), at+min(len(want), maxNearWindow))]
	return fmt.Sprintf("%s%s Most similar (%d%%) is line %d on:\n--- old_text\n+++ file\n%s",
		head, why, int(ratio*100), at+1, diffLines(want[:min(len(want), maxNearWindow)], window))
}

// causes guesses what kept an otherwise equal passage from matching.
func causes(content, old string) string {
	var found []string
	add := func(same bool, cause string) {
		if same {
			found = append(found, cause)
		}
	}

	squeeze := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	flat, flatOld := squeeze(content), squeeze(old)
	if flatOld == "" {
		return ""
	}

	add(strings.Contains(content, strings.TrimRight(old, "\n")), "a trailing newline")
	add(strings.Contains(flat, flatOld), "white space")
	add(!strings.Contains(flat, flatOld) && strings.Contains(strings.ToLower(flat), strings.ToLower(flatOld)), "letter case")
	sc, _ := straighten(flat)
	so, _ := straighten(flatOld)
	add((sc != flat || so != flatOld) && strings.Contains(sc, so), "quote style")
	if len(found) == 0 {
		return ""
	}
	return " Only this differs: " + strings.Join(found, ", ") + "."
}

// closest finds the window of lines most similar to want, until the deadline.
func closest(lines, want []string, deadline time.Time) (at int, ratio float64) {
	want = want[:min(len(want), maxNearWindow)]
	wanted := make([][]uint16, len(want))
	for i, l := range want {
		wanted[i] = bigrams(l)
	}

	grams := make([][]uint16, len(lines))
	best := 0.0
	for w := range max(1, len(lines)-len(want)+1) {
		if w%32 == 0 && time.Now().After(deadline) {
			break
		}

		sum := 0.0
		for i := range want {
			if sum+float64(len(want)-i) <= best { // cannot win any more
				break
			}
			if w+i >= len(lines) {
				break
			}

			if grams[w+i] == nil {
				grams[w+i] = bigrams(lines[w+i])
			}
			sum += likeness(lines[w+i], want[i], grams[w+i], wanted[i])
		}

		if sum > best {
			best, at = sum, w
		}
	}

	return at, best / float64(len(want))
}

// bigrams returns the sorted pairs of neighbouring bytes of a trimmed line.
func bigrams(line string) []uint16 {
	line = strings.TrimSpace(line)
	line = line[:min(len(line), maxNearBytes)]
	out := make([]uint16, 0, len(line)+1)
	for i := 1; i < len(line); i++ {
		out = append(out, uint16(line[i-1])<<8|uint16(line[i]))
	}
	slices.Sort(out)
	return out
}

// likeness is 1 for equal lines and less the fewer pairs they share.
func likeness(a, b string, ga, gb []uint16) float64 {
	if a == b {
		return 1
	}

	if len(ga) == 0 || len(gb) == 0 {
		if strings.TrimSpace(a) == strings.TrimSpace(b) {
			return 0.9
		}
		return 0
	}

	i, j, shared := 0, 0, 0
	for i < len(ga) && j < len(gb) {
		switch {
		case ga[i] == gb[j]:
			shared++
			i++
			j++
		case ga[i] < gb[j]:
			i++
		default:
			j++
		}
	}

	return min(0.99, 2*float64(shared)/float64(len(ga)+len(gb)))
}

// diffLines renders the difference of two short texts, common lines unmarked.
func diffLines(a, b []string) string {
	var out strings.Builder
	put := func(mark string, lines []string) {
		for _, line := range lines {
			shown, _ := visible(line)
			out.WriteString(mark + text.Cut(shown, 2*maxNearBytes) + "\n")
		}
	}

	at := 0
	for _, s := range text.DiffLines(a, b) {
		put(" ", a[at:s.A0])
		put("-", a[s.A0:s.A1])
		put("+", b[s.B0:s.B1])
		at = s.A1
	}

	put(" ", a[at:])
	return strings.TrimSuffix(out.String(), "\n")
}
