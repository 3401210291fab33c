package approve

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
)

const (
	maxFiles     = 64       // files whose content is part of an approval
	maxFileBytes = 16 << 20 // of their content together; beyond it size and time stand for it
)

// fingerprint binds an approval to the call and to what it would touch: the
// tool, the arguments, the files by identity, the directory a command starts
// in, the sandbox, and the content of what the command runs.
func (p *Policy) fingerprint(s *subject) string {
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
		Paths                  []place
		Dir                    *place
		Content                map[string]string
	}{Tool: s.tool.Name, Sandbox: p.SandboxProfile, Network: p.Network, Sandboxed: p.Sandboxed, Only: s.call.Project.Only, Args: s.canonical()}
	for _, name := range s.paths() {
		doc.Paths = append(doc.Paths, at(name))
	}
	if cmd := s.command(); cmd != "" {
		dir := at(s.directory())
		doc.Dir = &dir
		doc.Content = p.contents(parseCommand(cmd), dir.Path)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		b = s.call.Input // cannot happen: only texts and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// directory is where a command starts.
func (s *subject) directory() string {
	return s.call.Project.Path(cmp.Or(s.text("working_dir"), "."))
}

// contents hashes the files a command may run, by name.
func (p *Policy) contents(c command, dir string) map[string]string {
	out := map[string]string{}
	left := int64(maxFileBytes)
	for _, name := range c.files() {
		if len(out) == maxFiles {
			break
		}
		full := name
		if !filepath.IsAbs(name) && name[0] != '~' {
			full = filepath.Join(dir, name)
		}
		info, err := p.Jail.Stat(full)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		h := sha256.New()
		note(h, info)
		if info.Size() <= left {
			left -= p.content(h, full, left)
		} else {
			_, _ = io.WriteString(h, info.ModTime().String()) // a hash takes everything
		}
		out[name] = hex.EncodeToString(h.Sum(nil))
	}
	return out
}

func note(h hash.Hash, info fs.FileInfo) {
	dev, ino := identity(info)
	b, _ := json.Marshal([]uint64{dev, ino, uint64(info.Size()), uint64(info.Mode())}) //nolint:gosec // sizes are not negative
	_, _ = h.Write(b)
}

func (p *Policy) content(h hash.Hash, name string, most int64) int64 {
	f, err := p.Jail.Open(name)
	if err != nil {
		_, _ = io.WriteString(h, "unreadable")
		return 0
	}
	defer f.Close() //nolint:errcheck // read only
	n, err := io.Copy(h, io.LimitReader(f, most))
	if err != nil {
		_, _ = io.WriteString(h, "unreadable")
	}
	return n
}
