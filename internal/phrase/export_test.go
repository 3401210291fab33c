package phrase

// Table is the Chinese table, for tests.
func Table() map[string]string { return fromEnglish() }
