//go:build !linux

package diskio

// mount is known on Linux only: elsewhere folders are not shown twice without
// a link.
type mount struct{}

// mountWatch has nothing to watch.
type mountWatch struct{}

func (*mountWatch) look() ([]mount, uint64) { return nil, 1 }

func (*mountWatch) close() error { return nil }

// ShownAt are the further names that paths have through mounts: none here.
func ShownAt([]string, string) []string { return nil }

func mountedNames([]mount, []string, string) []string { return nil }

func processMounts([]mount) []string { return nil }
