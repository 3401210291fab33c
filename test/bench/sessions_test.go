package main

import (
	"testing"
)

// BenchmarkSessions is the child process of the sessions part, for profiling.
func BenchmarkSessions(b *testing.B) {
	srv := newServer(false)
	defer srv.Close()
	for b.Loop() {
		conf, ws, err := home(b.TempDir(), srv.URL, `,"limits":{"maxConcurrentRequests":50}`)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := runSessions(conf, ws); err != nil {
			b.Fatal(err)
		}
	}
}
