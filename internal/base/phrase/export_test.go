package phrase

// Table is the Chinese table, for tests.
func Table() map[string]string { return fromEnglish() }

// Terminal are the parts of the table that only a terminal needs.
func Terminal() [][][2]string {
	return [][][2]string{chineseTerminal(), chineseHelp(), chineseErrors()}
}

// Program are the tables of findings and settings.
func Program() map[string]string { return program().whole }
