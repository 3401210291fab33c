package daemon

import "runtime"

// WorkBesideDisk lets twice as many goroutines run at once as there are
// processors. Every message waits for the disk twice, and with one place per
// processor a goroutine that comes back from there finds all of them taken by
// others and goes to the end of the line, with all who wait for its fsync
// behind it. More threads let the kernel decide, which prefers who has waited.
// Like ReleaseWhenQuiet it is for programs of our own; GOMAXPROCS set by the
// user stands.
func WorkBesideDisk(getenv func(string) string) {
	if n := runtime.GOMAXPROCS(0); getenv("GOMAXPROCS") == "" && n <= runtime.NumCPU() {
		runtime.GOMAXPROCS(2 * n)
	}
}
