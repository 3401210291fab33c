package memory

import (
	"fmt"
	"strings"
	"testing"
)

// The nearest of many lines is the one that a comparison with each would find.
func TestLookalikes(t *testing.T) {
	t.Parallel()
	words := strings.Fields("the user likes tea and trains in Bergen on Fridays, pays invoices late, walks 东京 咖啡")
	line := func(n int) string {
		var b strings.Builder
		for i := range 5 + n%4 {
			b.WriteString(words[(n*7+i*i*(n%5+1))%len(words)] + " ")
		}
		return b.String()
	}
	var l lookalikes
	var known []string
	for n := range 200 {
		known = append(known, line(n))
		l.add(known[n])
	}
	found := 0
	for n := range 300 {
		wanted := line(n+50) + fmt.Sprint(n)
		if n%3 == 0 {
			wanted = fmt.Sprint("something else altogether ", n)
		}
		best, at := nearEnough, -1
		for i, k := range known {
			if a := alike(wanted, k); a >= best {
				best, at = a, i
			}
		}
		if at >= 0 {
			found++
		}
		if got := l.nearest(wanted); got != at {
			t.Fatalf("nearest(%q) = %d, want %d", wanted, got, at)
		}
	}
	if found < 50 || found == 300 {
		t.Errorf("%d of 300 lines were found", found)
	}
	if got := (&lookalikes{}).nearest("x y"); got != -1 {
		t.Errorf("nearest of none = %d", got)
	}
}

// BenchmarkLookalikes: a file of 1,000 lines that were all edited.
func BenchmarkLookalikes(b *testing.B) {
	var l lookalikes
	for i := range 2000 {
		l.add(fmt.Sprintf("- The user number %d likes to travel to %d places by train", i, i*7))
	}
	for b.Loop() {
		l.nearest("- Invoices of March go into one folder each.")
	}
}
