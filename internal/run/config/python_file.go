package config

// Python nanobot writes every setting that it has into its file, and reads an absent one
// as its own default: no sandbox, no questions, the whole disk. Such a file is not
// written by hand. A file that is not like this says nothing about what its owner wants
// to leave open, and gets the safe defaults. Only the text decides: what lies in a
// workspace could have been put there by the agent.

// pythonSettings are in the file of every version of Python nanobot.
func pythonSettings() [][]string {
	return [][]string{
		{"agents", "defaults", "workspace"},
		{"agents", "defaults", "model"},
		{"agents", "defaults", "maxTokens"},
		{"agents", "defaults", "temperature"},
		{"agents", "defaults", "maxToolIterations"},
		{"gateway", "host"},
		{"gateway", "port"},
		{"tools", "web", "search", "apiKey"},
		{"tools", "web", "search", "maxResults"},
		{"tools", "exec", "timeout"},
		{"tools", "mcpServers"},
		{"providers", "anthropic"},
		{"providers", "openrouter"},
	}
}

// pythonMissing is how many of them a person may have removed.
const pythonMissing = 3

// isPython reports whether a file, as it is, was written by Python nanobot.
func isPython(root *node) bool {
	missing := 0
	for _, path := range pythonSettings() {
		if root.find(path) == nil {
			missing++
		}
	}
	return missing <= pythonMissing
}

// defaultsFor returns the defaults of a file.
func defaultsFor(python bool) Config {
	c := Default()
	if python {
		c.Tools.RestrictToWorkspace = false
		c.Tools.Exec.Network = "host"
		c.Tools.Approval.Mode = "off"
	}
	return c
}

// pythonSandbox is the sandbox of a file of Python nanobot that names none: Python
// writes an empty one. A network that is limited needs one to limit it.
func (r *reader) pythonSandbox(c *Config, root *node) {
	n, p := r.spot(root, "tools", "exec", "sandbox")
	if r.python && n.unset(p) && c.Tools.Exec.Network == "host" {
		c.Tools.Exec.Sandbox = ""
	}
}
