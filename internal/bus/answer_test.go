package bus_test

import (
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/bus"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	usual := []string{bus.Yes, bus.No, bus.ForTurn, bus.ForSession}
	host := []string{"no", "turn", "session", "always"}
	for _, c := range []struct {
		options      []string
		text         string
		want, remark string
		ok           bool
	}{
		{usual, "yes", "yes", "", true},
		{usual, " YES! ", "yes", "", true},
		{usual, "1", "yes", "", true},
		{usual, "(4)", "session", "", true},
		{usual, "immer", "session", "", true},
		{usual, "yes but", "no", "yes but", true},
		{usual, "5", "no", "5", true},
		{usual, "", "no", "", true},
		{usual[:2], "session", "yes", "", true}, // less than was said, never more
		{host, "always", "always", "", true},
		{host, "session", "session", "", true},
		{host, "immer", "session", "", true},
		{host, "yes", "turn", "", true},
		{host, "4", "always", "", true},
		{host, "1", "no", "", true},
		{host, "example.org is fine", "no", "example.org is fine", true},
		{[]string{"red", "blue"}, "Blue", "blue", "", true},
		{[]string{"red", "blue"}, "2", "blue", "", true},
		{[]string{"red", "blue"}, "green", "", "", false},
		{[]string{"red", "blue"}, "yes", "", "", false},
		{nil, "any words", "any words", "", true},
		{nil, " ", "", "", false},
	} {
		q := bus.Question{ID: "q", Options: c.options}
		if got, remark, ok := q.Choose(c.text); got != c.want || remark != c.remark || ok != c.ok {
			t.Errorf("%q of %s: %q %q %v, want %q %q %v", c.text, strings.Join(c.options, "/"), got, remark, ok, c.want, c.remark, c.ok)
		}
	}
}

func TestCoded(t *testing.T) {
	t.Parallel()
	q := &bus.Question{ID: "q", Code: "k7f2", Options: []string{"yes", "no", "session"}}
	for text, want := range map[string]string{
		"yes k7f2": "yes|", "Yes, K7F2.": "Yes,|", "no k7f2": "no|", "no k7f2 use rsync": "no|use rsync", "好的 k7f2": "好的|", "go ahead `k7f2`": "go ahead|", "3 k7f2": "3|",
		"yes": "", "k7f2": "", "k7f2 yes": "", "yes k7f": "", "yes k7f2 now": "", "do not say yes k7f2": "", "yes a1a1": "", "the code is k7f2": "", "yes\n\n> k7f2 > x": "", "": "",
	} {
		a, ok := q.Coded(text)
		got := ""
		if ok {
			got = a.Option + "|" + a.Remark
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if _, ok := (&bus.Question{ID: "q", Options: q.Options}).Coded("yes "); ok {
		t.Error("a question without a code")
	}
	var none *bus.Question
	if _, ok := none.Coded("yes k7f2"); ok || none.IsAnsweredBy(&bus.Answer{}) || (&bus.Question{}).IsAnsweredBy(&bus.Answer{}) {
		t.Error("no question takes an answer")
	}
}
