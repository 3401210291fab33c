package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/diskio"
)

// Installed is the record of one installed skill.
type Installed struct {
	Name   string    `json:"name"`
	Dir    string    `json:"dir"`    // where it was put; absolute, without links
	SHA256 string    `json:"sha256"` // of paths and contents, as installed
	From   string    `json:"from"`   // the archive or directory it came from
	At     time.Time `json:"installed_at"`
	Files  int       `json:"files"`
	Bytes  int       `json:"bytes"`
	Always bool      `json:"always,omitempty"` // the user lets it be in every prompt
}

// Changed reports whether the files are not those that were installed.
func (i Installed) Changed() bool {
	b, err := readInstalled(i.Dir)
	return err != nil || b.hash() != i.SHA256
}

// ledger is the file that remembers what was installed. It lies outside the
// workspace, because what the model can write cannot say what it wrote.
type ledger struct {
	Version int         `json:"version"`
	Skills  []Installed `json:"skills"`
}

const maxLedger = 4 << 20 // bytes

func readLedger(path string) (ledger, error) {
	l := ledger{Version: 1}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLedger))
	if err := errors.Join(err, f.Close()); err != nil {
		return l, err
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("%s: %w", path, err)
	}
	if l.Version != 1 {
		return l, fmt.Errorf("%s: version %d is not known", path, l.Version)
	}
	return l, nil
}

func (l ledger) find(dir string) (Installed, bool) {
	if i := slices.IndexFunc(l.Skills, func(s Installed) bool { return s.Dir == dir }); i >= 0 {
		return l.Skills[i], true
	}
	return Installed{}, false
}

// with is the ledger with another record for a directory; nil takes it out.
func (l ledger) with(dir string, rec *Installed) ledger {
	next := ledger{Version: l.Version, Skills: slices.DeleteFunc(slices.Clone(l.Skills), func(s Installed) bool { return s.Dir == dir })}
	if rec != nil {
		next.Skills = append(next.Skills, *rec)
	}
	return next
}

func (l ledger) save(path string) error {
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return diskio.WriteFile(path, append(data, '\n'), 0o600)
}

// FindInstalled returns the record of a skill of one workspace.
func FindInstalled(p Place, name string) (rec Installed, found bool, err error) {
	book, err := readLedger(p.Ledger)
	if err != nil {
		return rec, false, err
	}
	dir, err := skillsDir(p.Workspace)
	if diskio.IsMissing(err) {
		return rec, false, nil
	}
	if err != nil {
		return rec, false, err
	}
	rec, found = book.find(filepath.Join(dir, name))
	return rec, found, nil
}

// InstalledDirs returns the directories of all installed skills, which no tool
// of the agent should write to: their text was checked when they came in.
func InstalledDirs(path string) ([]string, error) {
	l, err := readLedger(path)
	var dirs []string
	for _, s := range l.Skills {
		if filepath.IsAbs(s.Dir) {
			dirs = append(dirs, s.Dir)
		}
	}
	return dirs, err
}

// installedView is what a Library last read from its ledger.
type installedView struct {
	mtime time.Time
	size  int64
	names map[string]Installed // of this workspace
}

func (v *installedView) of(name string) (Installed, bool) {
	if v == nil {
		return Installed{}, false
	}
	rec, ok := v.names[name]
	return rec, ok
}

// installed returns old unless the ledger changed.
func (l *Library) installed(old *installedView) *installedView {
	if l.opts.Ledger == "" || l.opts.Workspace == "" {
		return nil
	}
	info, err := os.Stat(l.opts.Ledger)
	if err != nil {
		return nil // nothing was installed yet
	}
	if old != nil && old.mtime.Equal(info.ModTime()) && old.size == info.Size() {
		return old
	}
	v := &installedView{mtime: info.ModTime(), size: info.Size(), names: map[string]Installed{}}
	book, err := readLedger(l.opts.Ledger)
	if err != nil {
		l.opts.Log.Warn("record of installed skills cannot be read", "err", err)
		return v
	}
	dir, err := skillsDir(l.opts.Workspace)
	if err != nil {
		return v
	}
	for _, s := range book.Skills {
		if filepath.Dir(s.Dir) == dir {
			v.names[filepath.Base(s.Dir)] = s
		}
	}
	return v
}

// skillsDir is the one spelling of a workspace's directory of skills.
func skillsDir(workspace string) (string, error) {
	ws, err := diskio.OpenTree(workspace)
	if err != nil {
		return "", err
	}
	return filepath.Join(ws.Path(), folder), ws.Close()
}
