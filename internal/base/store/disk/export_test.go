package disk

// OpenResting is Open as on Windows, where an open file cannot be replaced.
func OpenResting(root string) *Store {
	s := Open(root, nil)
	s.closesIdle = true
	return s
}
