package nanobot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/run/app"
)

// MemoryFile names a file of what the agent knows of its owner.
type MemoryFile string

// The files of the memory.
const (
	AboutUser MemoryFile = "USER.md"          // who the owner is
	AboutSelf MemoryFile = "SOUL.md"          // how the agent behaves
	Facts     MemoryFile = "memory/MEMORY.md" // everything else
)

// What the memory is made of.
type (
	// HistoryEntry is a summary of something that was said in the past.
	HistoryEntry = memory.Entry
	// Fact is a line of a memory file and where it comes from.
	Fact = memory.Fact
	// DreamReport says what Memory.Dream did; Explain puts it in words.
	DreamReport = memory.Report
	// Forgotten says what Memory.Forget removed and what it left alone.
	Forgotten = memory.Forgotten
)

// Memory is what the agent remembers across conversations.
type Memory struct {
	open func(context.Context) (*app.App, error)
}

// repo returns the history of versions of the files.
func (m Memory) repo(ctx context.Context, file MemoryFile) (*gitstore.Store, error) {
	switch file {
	case AboutUser, AboutSelf, Facts:
	default:
		return nil, fmt.Errorf("there is no memory file %q", file)
	}

	a, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	return memory.OpenRepo(memory.RepoOptions{Dir: a.History.Dir(), Workspace: a.Workspace, Files: a.Files()})
}

// Read returns a file, "" if there is none yet.
func (m Memory) Read(ctx context.Context, file MemoryFile) (string, error) {
	repo, err := m.repo(ctx, file)
	if err != nil {
		return "", err
	}
	data, err := repo.ReadWork(string(file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(data), err
}

// Write replaces a file and records the change, so that it can be taken back
// with nanobot memory restore. The agent follows it from its next turn on.
func (m Memory) Write(ctx context.Context, file MemoryFile, text string) error {
	repo, err := m.repo(ctx, file)
	if err != nil {
		return err
	}
	if len(text) > memory.MaxFile {
		return fmt.Errorf("%s can hold %d bytes, not %d", file, memory.MaxFile, len(text))
	}
	if _, _, err := repo.Commit(ctx, "snapshot: before a program's edit", ""); err != nil {
		return err
	}
	if err := repo.WriteWork(string(file), []byte(text)); err != nil {
		return err
	}

	_, _, err = repo.Commit(ctx, "edit: by a program", "")
	return err
}

// History returns the last n entries of the owner's history, oldest first.
func (m Memory) History(ctx context.Context, n int) ([]HistoryEntry, error) {
	a, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	return a.History.Recent(ctx, n, func(e HistoryEntry) bool { return e.Scope == "" })
}

// Append adds something to the owner's history. Dream may make facts of it.
func (m Memory) Append(ctx context.Context, text string) error {
	a, err := m.open(ctx)
	if err != nil {
		return err
	}
	_, err = a.History.Append(ctx, HistoryEntry{Content: text})
	return err
}

// Dream turns the next entries of the history into long-term memory, with the
// configured model. When it fails, memory is as it was before.
func (m Memory) Dream(ctx context.Context) (DreamReport, error) {
	a, err := m.open(ctx)
	if err != nil {
		return DreamReport{}, err
	}
	if a.Dream == nil {
		return DreamReport{}, errors.New("a bot that records has no Dream")
	}
	return a.Dream.Run(ctx, true)
}

// DreamDue returns how many entries of the history wait for Dream, 0 if there are not
// enough of them yet or agents.defaults.dream does not want it now.
func (m Memory) DreamDue(ctx context.Context) (int, error) {
	a, err := m.open(ctx)
	if err != nil {
		return 0, err
	}
	return a.DreamDue(ctx)
}

// Why says for each line of a file who said it, when and in which conversation;
// Fact.Explain puts it in words.
func (m Memory) Why(ctx context.Context, file MemoryFile) (facts []Fact, err error) {
	if _, err := m.repo(ctx, file); err != nil {
		return nil, err
	}
	err = m.whole(ctx, func(all *memory.Memory) error {
		facts, err = all.Dream.Why(ctx, string(file))
		return err
	})
	return facts, err
}

// Forget removes every line that contains the text, in whatever case, from the
// files and all their earlier versions, from the history, from the notes on
// where facts come from and from the search index. It cannot be undone. The
// conversations themselves stay.
func (m Memory) Forget(ctx context.Context, text string) (done Forgotten, err error) {
	err = m.whole(ctx, func(all *memory.Memory) error {
		found, err := all.Find(ctx, text)
		if err != nil {
			return err
		}
		done, err = all.Forget(ctx, found)
		return err
	})
	return done, err
}

// whole opens all parts of the memory for fn.
func (m Memory) whole(ctx context.Context, fn func(*memory.Memory) error) error {
	a, err := m.open(ctx)
	if err != nil {
		return err
	}
	all, done, err := app.OpenMemory(a.Config, a.Workspace, a.Sessions, a.Files(), nil)
	if err != nil {
		return err
	}
	return errors.Join(fn(all), done())
}
