package main

import "testing"

// The short form of the simulated year.
func TestYear(t *testing.T) {
	t.Parallel()
	y, err := simulateYear(t.Context(), t.TempDir(), 800)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", y)
	if len(y.lost) > 0 || len(y.stale) > 0 {
		t.Errorf("lost %q, stale %q", y.lost, y.stale)
	}
	if y.largest > y.budget {
		t.Errorf("a prompt of %d tokens, allowed are %d", y.largest, y.budget)
	}
	if y.facts < 150 || y.corrected < 20 || y.ended < 20 || y.dreams < 3 || y.memory < 3000 {
		t.Errorf("the year was empty: %+v", y)
	}
}
