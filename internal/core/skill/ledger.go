package skill

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
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

const (
	ledgerName = string(datadir.Skills) // the document
	ledgerLock = ledgerName + ".lock"   // held while skills are installed or removed
)

// readLedger reads the record; without a store there is none.
func readLedger(s store.Store) (ledger, error) {
	l := ledger{Version: 1}
	if s == nil {
		return l, nil
	}

	data, version, err := s.Doc(context.Background(), ledgerName)
	if err != nil || version == store.Missing {
		return l, err
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("%s: %w", s.Where(ledgerName), err)
	}
	if l.Version != 1 {
		return l, fmt.Errorf("%s: version %d is not known", s.Where(ledgerName), l.Version)
	}
	return l, nil
}

func (l ledger) find(dir string) (Installed, bool) {
	if i := slices.IndexFunc(l.Skills, func(s Installed) bool { return s.Dir == dir }); i >= 0 {
		return l.Skills[i], true
	}
	return Installed{}, false
}

// with returns the ledger with another record for a directory; nil takes it out.
func (l ledger) with(dir string, rec *Installed) ledger {
	next := ledger{Version: l.Version, Skills: slices.DeleteFunc(slices.Clone(l.Skills), func(s Installed) bool { return s.Dir == dir })}
	if rec != nil {
		next.Skills = append(next.Skills, *rec)
	}
	return next
}

// save replaces the record. The caller holds the lock.
func (l ledger) save(s store.Store) error {
	data, err := store.Indented(l)
	if err == nil {
		_, err = s.Put(context.Background(), ledgerName, data, store.Any, true)
	}
	return err
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
func InstalledDirs(s store.Store) ([]string, error) {
	l, err := readLedger(s)
	var dirs []string
	for _, s := range l.Skills {
		if filepath.IsAbs(s.Dir) {
			dirs = append(dirs, s.Dir)
		}
	}
	return dirs, err
}

// installedView holds what a Library last read from its ledger.
type installedView struct {
	seen  store.Info
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
	if l.opts.Ledger == nil || l.opts.Workspace == "" {
		return nil
	}

	info, err := l.opts.Ledger.Stat(context.Background(), ledgerName)
	if err != nil || !info.Exists() {
		return nil // nothing was installed yet
	}
	if old != nil && old.seen == info {
		return old
	}

	v := &installedView{seen: info, names: map[string]Installed{}}
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

// skillsDir returns the one spelling of a workspace's directory of skills.
func skillsDir(workspace string) (string, error) {
	ws, err := diskio.OpenTree(workspace)
	if err != nil {
		return "", err
	}
	return filepath.Join(ws.Path(), folder), ws.Close()
}
