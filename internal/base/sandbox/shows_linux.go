package sandbox

import "slices"

// Shows reports whether every command can read a path whatever its profile
// says, because programs live there. The path is clean and without links.
func Shows(path string) bool {
	return slices.ContainsFunc(slices.Concat(systemPaths(), etcPaths()), func(dir string) bool { return within(path, dir) })
}
