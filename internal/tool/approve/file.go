package approve

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// file is what a name in a call stands for.
type file struct {
	name     string
	abs      string // without links as far as it exists
	dev, ino uint64 // of the file, or of the nearest directory that exists
	info     fs.FileInfo
	err      error // why it cannot be used; fs.ErrNotExist for a new file
}

// file looks at a name through the jail.
func (p *Policy) file(name string) file {
	f := file{name: name}
	if f.abs, f.err = p.Jail.Path(name); f.err != nil {
		return f
	}
	if f.info, f.err = p.Jail.Stat(name); f.err == nil {
		f.dev, f.ino = identity(f.info)
	}
	for rest, at := "", f.abs; ; {
		if target, err := filepath.EvalSymlinks(at); err == nil {
			f.abs = filepath.Join(target, rest)
			if f.info == nil {
				if info, err := os.Lstat(target); err == nil {
					f.dev, f.ino = identity(info)
				}
			}
			return f
		}
		parent := filepath.Dir(at)
		if parent == at {
			return f
		}
		rest, at = filepath.Join(filepath.Base(at), rest), parent
	}
}

func (p *Policy) workspace() string {
	ws := p.Jail.Workspace()
	if target, err := filepath.EvalSymlinks(ws); err == nil {
		return target
	}
	return ws
}

func (p *Policy) inWorkspace(abs string) bool {
	rel, err := filepath.Rel(p.workspace(), abs)
	return err == nil && filepath.IsLocal(rel)
}

// inProject reports whether a path is in the folder that the person chose for
// the conversation.
func (s *subject) inProject(abs string) bool {
	if s.call.Project.Dir == "" {
		return false
	}
	rel, err := filepath.Rel(s.call.Project.Dir, abs)
	return err == nil && filepath.IsLocal(rel)
}

// relative is a path as seen from the workspace, or unchanged outside it.
func (p *Policy) relative(abs string) string {
	if rel, err := filepath.Rel(p.workspace(), abs); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return abs
}

// special says what else happens when a file is written: somebody runs it or
// takes it for instructions. Spelling does not matter, as on some disks it does
// not matter for opening either.
func special(rel string, info fs.FileInfo, content string) string {
	rel = strings.ToLower(filepath.ToSlash(rel))
	dir, base := "/"+rel, rel
	if i := strings.LastIndexByte(rel, '/'); i >= 0 {
		base = rel[i+1:]
	}
	switch {
	case instructions(base), strings.Contains(dir, "/skills/"), strings.HasPrefix(dir, "/memory/"), strings.Contains(dir, "/.cursor/"), strings.Contains(dir, "/.claude/"):
		return "holds instructions the agent follows"
	case automatic(base, dir):
		return "is run or read by other programs on their own"
	case info != nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && runtime.GOOS != "windows",
		strings.HasPrefix(content, "#!"), script(base):
		return "is a program"
	}
	return ""
}

func instructions(base string) bool {
	switch base {
	case "agents.md", "soul.md", "user.md", "memory.md", "heartbeat.md", "tools.md", "identity.md", "bootstrap.md", "skill.md",
		"claude.md", "gemini.md", "copilot-instructions.md", ".cursorrules", ".windsurfrules", "history.jsonl":
		return true
	}
	return strings.HasSuffix(base, ".mdc")
}

func automatic(base, path string) bool {
	switch base {
	case "makefile", "gnumakefile", "bsdmakefile", "justfile", "taskfile.yml", "taskfile.yaml", "rakefile", "cmakelists.txt", "build.rs",
		"build.gradle", "build.gradle.kts", "package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "setup.py", "setup.cfg",
		"conftest.py", "sitecustomize.py", "usercustomize.py", "noxfile.py", "tox.ini", "dockerfile", "docker-compose.yml", "docker-compose.yaml",
		"compose.yml", "compose.yaml", "jenkinsfile", ".gitlab-ci.yml", ".travis.yml", "vagrantfile", "procfile", ".envrc", ".pre-commit-config.yaml",
		".gitattributes", ".gitmodules", ".gitconfig", ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".inputrc",
		".vimrc", ".exrc", ".nvimrc", ".gdbinit", ".lldbinit", ".pythonrc", ".irbrc", "crontab":
		return true
	}
	switch filepath.Ext(base) {
	case ".service", ".timer", ".socket", ".desktop", ".plist", ".pth", ".mk", ".cron":
		return true
	}
	for _, dir := range []string{
		"/.git/", "/.githooks/", "/.husky/", "/.github/workflows/", "/.github/actions/", "/.circleci/", "/.vscode/", "/.idea/",
		"/.devcontainer/", "/cron.d/", "/crontabs/", "/systemd/", "/autostart/", "/launchagents/", "/.config/", "/node_modules/.bin/",
	} {
		if strings.Contains(path, dir) {
			return true
		}
	}
	return false
}

func script(base string) bool {
	switch filepath.Ext(base) {
	case ".sh", ".bash", ".zsh", ".ksh", ".fish", ".csh", ".command", ".ps1", ".psm1", ".bat", ".cmd", ".vbs", ".exe", ".com", ".scr", ".msi", ".so", ".dll", ".dylib":
		return true
	}
	return false
}
