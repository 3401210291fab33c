package daemon

import (
	"runtime"
	"testing"
)

// TestWorkBesideDisk is not parallel: the number belongs to the process.
func TestWorkBesideDisk(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	runtime.GOMAXPROCS(runtime.NumCPU())
	WorkBesideDisk(func(string) string { return "7" })
	if n := runtime.GOMAXPROCS(0); n != runtime.NumCPU() {
		t.Errorf("%d although the user has chosen", n)
	}
	for range 2 { // the second time changes nothing
		WorkBesideDisk(func(string) string { return "" })
		if n, want := runtime.GOMAXPROCS(0), 2*runtime.NumCPU(); n != want {
			t.Errorf("%d, want %d", n, want)
		}
	}
}
