package record

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
)

// PromptFiles are the files of a workspace that every prompt shows, by their
// slash-separated path.
func PromptFiles() []string {
	return []string{"AGENTS.md", "SOUL.md", "USER.md", "TOOLS.md", "memory/MEMORY.md"}
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
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return out
	}
	defer root.Close() //nolint:errcheck // read only
	names := PromptFiles()
	if entries, err := os.ReadDir(filepath.Join(workspace, "skills")); err == nil {
		for _, e := range entries[:min(len(entries), skills)] {
			names = append(names, path.Join("skills", e.Name(), "SKILL.md"))
		}
	}
	for _, name := range names {
		if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := root.Open(name)
		if err != nil {
			continue
		}
		if b, err := io.ReadAll(io.LimitReader(f, longest)); err == nil {
			out[name] = string(b)
		}
		_ = f.Close() // read only
	}
	return out
}
