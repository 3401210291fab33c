package main

import "testing"

func TestReadInitTrace(t *testing.T) {
	t.Parallel()
	const trace = `init runtime @0.053 ms, 0.14 ms clock, 0 bytes, 0 allocs
init text/template @1.2 ms, 0.004 ms clock, 512 bytes, 9 allocs
nanobot 0.1.0
init a/b @1.3 ms, 0.01 ms clock, 2048 bytes, 33 allocs
`
	if n, err := readInitTrace(trace); n != 42 || err != nil {
		t.Errorf("%d allocations and the error %v, want 42", n, err)
	}
	for _, text := range []string{"", "nanobot 0.1.0\n", "init a @1 ms, 0 ms clock, 0 bytes, many allocs\n"} {
		if n, err := readInitTrace(text); err == nil {
			t.Errorf("%q: %d allocations, want an error", text, n)
		}
	}
}
