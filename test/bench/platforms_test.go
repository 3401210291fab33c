package main

import (
	"strings"
	"testing"
	"time"
)

// Rounds are sorted by how much the second is slower, and the first one of each
// does not count.
func TestInTurn(t *testing.T) {
	t.Parallel()
	times := func(list ...int) func() (measured, error) {
		return func() (measured, error) {
			d := time.Duration(list[0]) * time.Millisecond
			list = list[1:]
			return measured{took: []time.Duration{d}}, nil
		}
	}
	rounds, err := inTurn(3, times(1, 10, 10, 10), times(99, 30, 10, 20))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rounds {
		got = append(got, r[1].at(0.99).String())
	}
	if s := strings.Join(got, " "); s != "10ms 20ms 30ms" {
		t.Errorf("the rounds are %s", s)
	}
}

// The table has what a channel costs more than a gateway without one.
func TestIdleTable(t *testing.T) {
	t.Parallel()
	idle := func(name string, mem int64, d time.Duration) *idler {
		return &idler{name: name, rss: []int64{mem << 20}, own: []int64{mem << 19}, routine: []int64{mem}, cpu: []time.Duration{d}, ready: []time.Duration{2 * d}}
	}
	got := idleTable([]*idler{idle("without", 10, time.Millisecond), idle("slack", 12, 3*time.Millisecond)})
	for _, want := range []string{
		"| without | 10.0 MiB | 5.0 MiB | 10 | 1.00 ms | 2.00 ms |\n",
		"| slack | +2.0 MiB | +1.0 MiB | +2 | +2.00 ms | +4.00 ms |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
