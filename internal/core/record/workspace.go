package record

import (
	"path"
	"runtime"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// promptNames returns the files of a workspace that every prompt shows, by their
// slash-separated path.
func promptNames() []string {
	return []string{"AGENTS.md", "SOUL.md", "USER.md", "TOOLS.md", "IDENTITY.md", "memory/MEMORY.md"}
}

// Describe makes the header that a replay needs: this machine, the workspace,
// and the files of it that prompts are made of, skills included. The workspace
// must have its templates already. A file that cannot be read is left out; it
// is not in the prompt either. The caller adds the settings.
func Describe(version, workspace string) Header {
	return Header{Version: version, OS: runtime.GOOS, Arch: runtime.GOARCH, Workspace: workspace, Files: promptFiles(workspace)}
}

func promptFiles(workspace string) map[string]string {
	const (
		longest = 64 << 10
		skills  = 200
	)
	out := map[string]string{}
	tree, err := diskio.OpenTree(workspace)
	if err != nil {
		return out
	}

	defer tree.Close() //nolint:errcheck // read only

	names := promptNames()
	if entries, err := tree.ReadDir("skills"); err == nil {
		for _, e := range entries[:min(len(entries), skills)] {
			names = append(names, path.Join("skills", e.Name(), "SKILL.md"))
		}
	}

	for _, name := range names {
		if b, err := tree.ReadHead(name, longest); err == nil {
			out[name] = string(b)
		}
	}

	return out
}
