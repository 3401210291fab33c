package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Names of what the data folder knows about workspaces. The table is the truth;
// the copies beside the conversations are what it is rebuilt from.
const (
	fileTable  = string(datadir.Workspaces)
	dirRoot    = string(datadir.Sessions)
	markerPath = ".workspace"      // the path alone, as versions before wrote it
	markerCopy = ".workspace.json" // the whole record
)

// Known returns the workspaces of a data folder, path by id. Those of a table that
// cannot be read are not among them.
func Known(state store.Store) map[string]string {
	t, err := readTable(state)
	if err != nil || t == nil {
		return nil
	}
	out := map[string]string{}
	for id, r := range t.Workspaces {
		out[id] = r.Path
	}
	return out
}

// Unlisted returns the folders of conversations that the table does not name. A
// table that cannot be read names none; the next start makes it again.
func Unlisted(state store.Store, data string) ([]string, error) {
	t, err := readTable(state)
	if _, damaged := errors.AsType[*damagedError](err); err != nil && !damaged {
		return nil, err
	}

	found, _, err := rebuild(data)
	if err != nil {
		return nil, err
	}

	var out []string
	for _, id := range slices.Sorted(maps.Keys(found.Workspaces)) {
		logs, _ := filepath.Glob(filepath.Join(data, dirRoot, id, "*"+suffixLog)) // the pattern is sound
		if len(logs) > 0 && (t == nil || t.Workspaces[id] == nil) {
			out = append(out, filepath.Join(data, dirRoot, id))
		}
	}
	return out, nil
}

// Entry holds what the table holds of a workspace.
type Entry struct {
	Path   string    `json:"path"` // free of links; "" is not known any more
	Device uint64    `json:"device,omitempty"`
	Inode  uint64    `json:"inode,omitempty"`
	Born   int64     `json:"born,omitempty"` // of the folder, in nanoseconds; 0 is not known
	Seen   time.Time `json:"first_seen,omitzero"`
	// Imported says when the files of other programs, and of versions before, were
	// looked at and taken over, by kind. It happens once.
	Imported map[string]time.Time `json:"taken,omitempty"`
	// Templates are the files that were given once, and what they were.
	Templates map[string]string `json:"templates,omitempty"`
}

// table is the content of workspaces.json.
type table struct {
	Version    int               `json:"version"`
	Sum        string            `json:"sum,omitempty"` // of the workspaces; versions before wrote none
	Workspaces map[string]*Entry `json:"workspaces"`
}

// sum returns what Sum must say. A flipped bit in an id or in what was taken
// over leaves a table that can be read, and would hide all conversations.
func (t *table) sum() (string, error) {
	raw, err := json.Marshal(t.Workspaces) // with sorted keys
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), err
}

func (t *table) byPath(path string) string {
	for id, r := range t.Workspaces {
		if r.Path == path && path != "" {
			return id
		}
	}
	return ""
}

func (t *table) byRoot(here Entry) string {
	if here.Inode == 0 {
		return ""
	}
	for id, r := range t.Workspaces {
		if r.Inode != 0 && r.sameRoot(here) {
			return id
		}
	}
	return ""
}

// damagedError says that the table cannot be read as one.
type damagedError struct {
	file string
	data []byte
	err  error
}

func (e *damagedError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.file, e.err) }
func (e *damagedError) Unwrap() error { return e.err }

// readTable reads the table; nil if there is none.
func readTable(state store.Store) (*table, error) {
	raw, version, err := state.Doc(context.Background(), fileTable)
	if err != nil || version == store.Missing {
		return nil, err
	}
	t, err := parseTable(raw)
	if err != nil {
		return nil, &damagedError{state.Where(fileTable), raw, err}
	}
	return t, nil
}

func parseTable(raw []byte) (*table, error) {
	t := &table{}
	err := json.Unmarshal(raw, t)
	if err == nil && t.Workspaces == nil {
		err = errors.New(`there is no "workspaces"`)
	}

	for id, r := range t.Workspaces {
		if err == nil && (r == nil || !isWorkspaceID(id)) {
			err = fmt.Errorf("the entry %.40q cannot be used", id)
		}
	}

	if err == nil && t.Sum != "" {
		if sum, serr := t.sum(); serr != nil || sum != t.Sum {
			err = errors.Join(errors.New("its content does not match its checksum"), serr)
		}
	}
	return t, err
}

// save writes the table and the copy of one entry.
func (t *table) save(state store.Store, id string) error {
	if err := t.mark(state, id); err != nil {
		return err
	}

	var err error
	t.Version = 1
	if t.Sum, err = t.sum(); err != nil {
		return err
	}

	raw, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	return writeLine(state, fileTable, raw)
}

// writeLine writes a text and a line end, unless the document holds that.
func writeLine(state store.Store, name string, text []byte) error {
	text = append(text, '\n')
	old, _, err := state.Doc(context.Background(), name)
	if err != nil || bytes.Equal(old, text) {
		return err
	}
	_, err = state.Put(context.Background(), name, text, store.Any, true)
	return err
}

// mark writes the copies of an entry beside the conversations.
func (t *table) mark(state store.Store, id string) error {
	raw, err := json.Marshal(t.Workspaces[id])
	if err != nil {
		return err
	}
	if err := writeLine(state, path.Join(dirRoot, id, markerPath), []byte(t.Workspaces[id].Path)); err != nil {
		return err
	}
	return writeLine(state, path.Join(dirRoot, id, markerCopy), raw)
}

// rebuild makes the table of what lies beside the conversations. ours is whether
// there was a table before. Of two entries that claim one path the one with the
// later conversation has it.
func rebuild(data string) (t *table, ours bool, err error) {
	t = &table{Version: 1, Workspaces: map[string]*Entry{}}
	entries, err := os.ReadDir(filepath.Join(data, dirRoot))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}

	changed := map[string]time.Time{}
	for _, e := range entries {
		if !e.IsDir() || !isWorkspaceID(e.Name()) {
			continue
		}

		dir := filepath.Join(data, dirRoot, e.Name())
		r := &Entry{}
		raw, err := os.ReadFile(filepath.Join(dir, markerCopy))
		if err == nil && json.Unmarshal(raw, r) == nil {
			ours = true
		} else if raw, err := os.ReadFile(filepath.Join(dir, markerPath)); err == nil {
			r = &Entry{Path: strings.TrimSpace(string(raw))}
		}

		if info, err := os.Stat(dir); err == nil {
			changed[e.Name()] = info.ModTime()
		}

		if other := t.byPath(r.Path); other != "" {
			loser := t.Workspaces[other]
			if changed[e.Name()].Before(changed[other]) {
				loser = r
			}
			loser.Path = ""
		}

		t.Workspaces[e.Name()] = r
	}

	return t, ours, nil
}
