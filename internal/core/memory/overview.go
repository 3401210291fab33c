package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
)

// Memory is all that is remembered in one workspace, for programs and people
// who look at it and change it. It asks no model.
type Memory struct {
	Workspace string
	Repo      *gitstore.Store
	History   *History
	Dream     *Dream // only what it noted; it runs elsewhere
	// Index takes a text out of the search index and counts what went. May be nil.
	Index func(ctx context.Context, text string) (int, error)
}

// NameError says that no file or scope of the memory has the name.
type NameError struct{ Problem string }

// Error implements error.
func (e *NameError) Error() string { return e.Problem }

// Open opens what is remembered in a workspace.
func Open(o HistoryOptions) (*Memory, error) {
	m := &Memory{Workspace: o.Workspace}
	var err error
	if m.History, err = OpenHistory(o); err != nil {
		return nil, err
	}

	m.Repo, err = OpenRepo(RepoOptions{Dir: m.History.Dir(), Workspace: o.Workspace, Files: o.Files, Log: o.Log, Now: o.Now})
	if err != nil {
		return nil, errors.Join(err, m.History.Close())
	}

	m.Dream, err = NewDream(DreamOptions{
		History: m.History, Repo: m.Repo, Files: o.Files, Log: o.Log, Now: o.Now,
		Model: func(context.Context) (DreamModel, error) {
			return DreamModel{}, errors.New("this command does not call a model")
		},
	})
	if err != nil {
		return nil, errors.Join(err, m.History.Close())
	}
	return m, nil
}

// Close gives back what Open took.
func (m *Memory) Close() error { return errors.Join(m.Dream.Close(), m.History.Close()) }

// FileNamed finds the file a person means: USER, SOUL or MEMORY, with or
// without ending, of the owner or of a scope.
func (m *Memory) FileNamed(name, scope string) (string, error) {
	switch strings.ToUpper(strings.TrimSuffix(strings.ToLower(filepath.Base(name)), ".md")) {
	case "USER":
		if scope == "" {
			return "USER.md", nil
		}
	case "SOUL":
		if scope == "" {
			return "SOUL.md", nil
		}
	case "MEMORY":
		return m.scopeFile(scope)
	default:
		return "", &NameError{fmt.Sprintf("there is no memory file %q; it is USER, SOUL or MEMORY", name)}
	}
	return "", &NameError{"a scope has only MEMORY"}
}

const scopesDir = "memory/scopes/"

// scopeFile returns the file of a scope, given by its id or by the name of its folder.
func (m *Memory) scopeFile(scope string) (string, error) {
	there := func(file string) bool {
		_, err := m.Repo.ReadWork(file)
		return err == nil
	}
	file := ScopeFile(scope)
	if scope == "" || there(file) {
		return file, nil
	}
	if folder := scopesDir + scope + "/MEMORY.md"; !strings.ContainsAny(scope, `/\`) && there(folder) {
		return folder, nil
	}
	return "", &NameError{fmt.Sprintf("there is no scope %q; nanobot memory show lists them", scope)}
}

// Overview shows what is remembered, for people and programs.
type Overview struct {
	Workspace  string           `json:"workspace"`
	Repository string           `json:"repository"`
	Files      []FileView       `json:"files"`
	Scopes     []ScopeView      `json:"scopes,omitempty"`
	Waiting    []Held           `json:"waiting,omitempty"`
	History    HistoryView      `json:"history"`
	Last       *gitstore.Commit `json:"last_change,omitempty"`
	Dreamed    *gitstore.Commit `json:"last_dream,omitempty"`
	Unsaved    int              `json:"uncommitted_files"`
}

// FileView is a memory file.
type FileView struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
	Cap   int    `json:"cap"`
	Text  string `json:"text"`
	Facts []Fact `json:"facts,omitempty"` // where its lines come from
}

// ScopeView is the memory of another person or group.
type ScopeView struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// HistoryView counts what was summarised.
type HistoryView struct {
	Entries int `json:"entries"`
	Unread  int `json:"unread"` // by Dream
}

// Overview collects what is remembered about the owner, or about a scope. With
// why it says where each line comes from.
func (m *Memory) Overview(ctx context.Context, scope string, why bool) (out Overview, err error) {
	out.Workspace, out.Repository = m.Workspace, m.Repo.Path()
	files := []string{"USER.md", "SOUL.md", ScopeFile("")}
	if scope != "" {
		file, err := m.scopeFile(scope)
		if err != nil {
			return out, err
		}
		files = []string{file}
	}

	for _, name := range files {
		data, err := m.Repo.ReadWork(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return out, err
		}

		f := FileView{Path: name, Bytes: len(data), Cap: MaxFile, Text: string(data)}
		if why {
			if f.Facts, err = m.Dream.Why(ctx, name); err != nil {
				return out, err
			}
		}

		out.Files = append(out.Files, f)
	}

	if scope == "" {
		if err := m.addRest(ctx, &out); err != nil {
			return out, err
		}
	}
	return out, m.addChanges(ctx, &out)
}

// addRest adds what lies beside the owner's files.
func (m *Memory) addRest(ctx context.Context, out *Overview) error {
	names, err := m.Repo.Names(ctx)
	if err != nil {
		return err
	}

	for _, name := range names {
		folder, ok := strings.CutPrefix(name, scopesDir)
		if !ok {
			continue
		}

		data, err := m.Repo.ReadWork(name)
		if err != nil {
			continue // a link or worse: it is never read
		}
		out.Scopes = append(out.Scopes, ScopeView{filepath.Dir(folder), len(data)})
	}

	if out.Waiting, err = m.Dream.Quarantine(ctx); err != nil {
		return err
	}

	all, err := m.History.since(ctx, 0)
	if err != nil {
		return err
	}

	read, err := m.History.DreamCursor(ctx)
	if err != nil {
		return err
	}

	out.History.Entries = len(all)
	for _, e := range all {
		if e.Cursor > read {
			out.History.Unread++
		}
	}
	return nil
}

// addChanges adds the last changes.
func (m *Memory) addChanges(ctx context.Context, out *Overview) error {
	log, err := m.Repo.Log(ctx, 0)
	if err != nil {
		return err
	}

	if len(log) > 0 {
		out.Last = &log[0]
	}
	if i := slices.IndexFunc(log, func(c gitstore.Commit) bool { return strings.HasPrefix(c.Subject, "dream:") }); i >= 0 {
		out.Dreamed = &log[i]
	}

	change, err := m.Repo.Diff(ctx, "", "")
	out.Unsaved = len(change.Files)
	return err
}

// LaterChanges lists the changes after one, newest first.
func (m *Memory) LaterChanges(ctx context.Context, prefix string) ([]gitstore.Commit, error) {
	of, err := m.Repo.Find(ctx, prefix)
	if err != nil {
		return nil, err
	}

	log, err := m.Repo.Log(ctx, 0)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(log, func(c gitstore.Commit) bool { return c.ID == of.ID }); i >= 0 {
		return log[:i], nil
	}
	return nil, nil
}

// Explain says in words where a fact comes from, one line per source.
func (f Fact) Explain() (out []string) {
	if f.ByHand {
		return []string{"written by hand"}
	}

	note := ""
	if f.Guessed {
		note += ", probably"
	}
	if f.Edited {
		note += ", edited since"
	}
	if f.Confirmed {
		note += ", from outside, confirmed by you"
	}

	for _, o := range f.Sources {
		out = append(out, o.String()+note)
	}

	if len(out) == 0 {
		out = append(out, "written by Dream, source unknown"+note)
	}
	return out
}

// String says who said something, when and where.
func (o Origin) String() string {
	var parts []string
	if o.Sender != "" {
		parts = append(parts, "said by "+o.Sender)
	}
	if o.Session != "" {
		parts = append(parts, "in "+o.Session)
	}
	if o.Time != "" {
		parts = append(parts, "on "+o.Time)
	}
	return strings.Join(append(parts, fmt.Sprintf("(summary %d)", o.Cursor)), " ")
}
