package approve

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxFiles     = 64       // files whose content is part of an approval
	maxFileBytes = 16 << 20 // of their content together; beyond it size and time stand for it
)

// fingerprint binds an approval to the call and to what it would touch: the
// tool, the arguments, the files by identity, the directory a command starts
// in, the sandbox, and the content of what the command runs.
func (p *Policy) fingerprint(s *subject) (sum string, covers covered) {
	type place struct {
		Name, Path, Error string
		Dev, Ino          uint64
	}
	at := func(name string) place {
		f := p.file(name)
		out := place{Name: name, Path: f.abs, Dev: f.dev, Ino: f.ino}
		switch {
		case errors.Is(f.err, fs.ErrNotExist):
			out.Error = "new"
		case f.err != nil:
			out.Error = "refused"
		}
		return out
	}

	doc := struct {
		Tool, Sandbox, Network string
		Sandboxed, Only        bool
		Args                   json.RawMessage
		Argv                   []string // of a command that is one list of words, however it is spelled
		Paths                  []place
		Dir                    *place
		Content                map[string]string
		Outside                []Outside
	}{Tool: s.tool.Name, Sandbox: p.SandboxProfile, Network: p.Network, Sandboxed: p.Sandboxed, Only: s.call.Project.Only, Args: s.canonical()}
	for _, name := range s.paths() {
		doc.Paths = append(doc.Paths, at(name))
	}

	if cmd := s.command(); cmd != "" {
		dir := at(s.directory())
		doc.Dir = &dir
		p.inspect(s)
		doc.Outside = s.outside
		parsed := parseCommand(cmd)
		doc.Content, covers = p.contents(parsed, dir.Path)
		if parsed.plain {
			doc.Argv, doc.Args = parsed.simple[0], s.without("command")
		}
	}

	b, err := json.Marshal(doc)
	if err != nil {
		b = s.call.Input // cannot happen: only texts and numbers
	}

	hash := sha256.Sum256(b)
	return hex.EncodeToString(hash[:]), covers
}

// directory returns where a command starts.
func (s *subject) directory() string {
	return s.call.Project.Path(cmp.Or(s.text("working_dir"), "."))
}

// covered says how much of what a command runs an approval is tied to.
type covered struct {
	names []string // files whose content is part of it
	paths []string // the same, absolute or as the jail reads them
	open  bool     // the command runs files that are not
}

// contents hashes the files a command may run, by name: those it names, those
// its programs read their orders from, and what a shell script among them
// sources or runs.
func (p *Policy) contents(c command, dir string) (map[string]string, covered) {
	out := map[string]string{}
	cover := covered{open: c.runsFiles()}
	left := int64(maxFileBytes)
	names, implied := c.files(), c.implied()
	names = append(names, implied...)
	for i := 0; i < len(names); i++ {
		name := names[i]
		if len(out) == maxFiles {
			cover.open = true
			break
		}

		full := name
		if !filepath.IsAbs(name) && name[0] != '~' {
			full = filepath.Join(dir, name)
		}

		info, err := p.Jail.Stat(full)
		switch {
		case err != nil:
			continue
		case info.IsDir(): // make -C dir, npm --prefix dir
			for _, f := range implied {
				if inside := filepath.Join(name, f); len(names) < 4*maxFiles && !slices.Contains(names, inside) {
					names = append(names, inside)
				}
			}
			continue

		case !info.Mode().IsRegular():
			continue
		}

		h := sha256.New()
		hashIdentity(h, info)
		if info.Size() > left {
			_, _ = io.WriteString(h, info.ModTime().String()) // a hash takes everything
			out[name], cover.open = hex.EncodeToString(h.Sum(nil)), true
			continue
		}

		text, n := p.content(h, full, left)
		left -= n
		out[name] = hex.EncodeToString(h.Sum(nil))
		cover.names = append(cover.names, name)
		cover.paths = append(cover.paths, full)

		for _, more := range scriptFiles(text) {
			if len(names) < 4*maxFiles && !slices.Contains(names, more) {
				names = append(names, more)
			}
		}
	}

	return out, cover
}

// maxScript is the largest script that is read for what it runs.
const maxScript = 256 << 10

// scriptFiles returns the files that a shell script sources or runs by path. What
// is not a shell script has none.
func scriptFiles(text []byte) []string {
	head, _, _ := bytes.Cut(text, []byte("\n"))
	otherLanguage := bytes.HasPrefix(head, []byte("#!")) && !bytes.Contains(head, []byte("sh"))
	if len(text) > maxScript || bytes.IndexByte(text, 0) >= 0 || otherLanguage {
		return nil
	}

	var out []string
	for _, words := range parseCommand(string(text)).simple {
		if strings.Contains(words[0], "/") {
			out = append(out, words[0])
			continue
		}
		switch filepath.Base(words[0]) {
		case ".", "source", "sh", "bash", "dash", "zsh":
			if len(words) > 1 && !strings.HasPrefix(words[1], "-") {
				out = append(out, words[1])
			}
		}
	}

	return slices.DeleteFunc(out, func(name string) bool { return name == "" || len(name) > 4096 })
}

// bound adds to the names of harmless programs the state of the settings that
// decide what else they run. ok is false when those cannot be told.
func (p *Policy) bound(s *subject, programs []string) (keys []string, ok bool) {
	state := ""
	for _, name := range programs {
		if strings.HasPrefix(name, "git ") {
			if state == "" {
				if state, ok = p.gitState(p.file(s.directory()).abs); !ok {
					return nil, false
				}
			}
			name += "\x00" + state
		}
		keys = append(keys, name)
	}

	return keys, true
}

// gitState hashes the settings of the repository a directory is in. They name
// programs that git starts on its own.
func (p *Policy) gitState(dir string) (string, bool) {
	for range 64 {
		info, err := p.Jail.Stat(filepath.Join(dir, ".git"))
		switch {
		case err == nil && !info.IsDir():
			return "", false // the settings are somewhere else
		case err == nil:
			h := sha256.New()
			for _, name := range []string{"config", "config.worktree"} {
				text, _ := p.content(h, filepath.Join(dir, ".git", name), maxScript)
				if bytes.Contains(bytes.ToLower(text), []byte("[include")) {
					return "", false
				}
			}
			return hex.EncodeToString(h.Sum(nil)), true
		}

		parent := filepath.Dir(dir)
		if parent == dir || dir == p.workspace() {
			break
		}
		dir = parent
	}
	return "none", true
}

// hashIdentity adds what tells one file from another to a hash.
func hashIdentity(h hash.Hash, info fs.FileInfo) {
	dev, ino := identity(info)
	b, _ := json.Marshal([]uint64{dev, ino, uint64(info.Size()), uint64(info.Mode())}) //nolint:gosec // sizes are not negative
	_, _ = h.Write(b)
}

// content adds what is in a file to a hash. It returns the beginning of it.
func (p *Policy) content(h hash.Hash, name string, most int64) (text []byte, n int64) {
	f, err := p.Jail.Open(name)
	if err != nil {
		_, _ = io.WriteString(h, "unreadable")
		return nil, 0
	}

	defer f.Close() //nolint:errcheck // read only
	var head bytes.Buffer
	n, err = io.Copy(h, io.TeeReader(io.LimitReader(f, most), &limited{&head, maxScript + 1}))
	if err != nil {
		_, _ = io.WriteString(h, "unreadable")
	}
	return head.Bytes(), n
}

// limited keeps the first bytes that are written to it.
type limited struct {
	b    *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.b.Write(p[:n])
	l.left -= n
	return len(p), nil
}
