package guard

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
)

// The access modes of a Scope.
const (
	AccessFull       = "full"       // as the configuration says, only that relative names start elsewhere
	AccessRestricted = "restricted" // files and commands stay inside the folder
	AccessStarted    = "started"    // commands stay inside, files of the workspace can be reached: the owner started there
)

// Scope is the folder that a conversation works in.
type Scope struct {
	Path string `json:"project_path"` // absolute, without links
	Mode string `json:"access_mode"`
}

// ScopeStore keeps the scopes of conversations.
type ScopeStore interface {
	// Scope returns what was chosen for a conversation. It is nil if nothing was, or
	// if the conversation does not exist.
	Scope(ctx context.Context, key string) (*Scope, error)

	// SetScope stores the choice before it returns; nil removes it. It may make the
	// conversation.
	SetScope(ctx context.Context, key string, s *Scope) error
}

// FolderFile is the file of the folder a conversation was started in that the
// agent follows.
const FolderFile = "AGENTS.md"

// scopes chooses the folders that conversations work in.
type scopes struct {
	jail      *diskio.Jail
	workspace string
	store     ScopeStore
}

// set implements Guard.SetScope.
func (s *scopes) set(ctx context.Context, key string, want Scope, remote bool) (Scope, error) {
	was, err := s.of(ctx, key)
	if err != nil {
		return was, err
	}

	now, err := s.choose(was, want, remote)
	if err != nil {
		return was, err
	}
	if now == was {
		return now, nil // clients say it with every message
	}

	chosen := &now
	if now == s.house() {
		chosen = nil // nothing is kept for what every chat begins with
	}

	if err := s.store.SetScope(ctx, key, chosen); err != nil {
		return was, fmt.Errorf("the folder cannot be kept: %w", err)
	}
	return now, nil
}

// house returns where a conversation works that nothing was chosen for.
func (s *scopes) house() Scope {
	return Scope{Path: house(s.jail, s.workspace), Mode: AccessFull}
}

// house is the workspace as the jail names it.
func house(jail *diskio.Jail, workspace string) string {
	dir, err := jail.Folder(".")
	if err != nil {
		return workspace
	}
	return dir
}

// of is the scope that a conversation has now.
func (s *scopes) of(ctx context.Context, key string) (Scope, error) {
	home := s.house()
	chosen, err := s.store.Scope(ctx, key)
	if err != nil || chosen == nil {
		return home, err
	}
	return *chosen, nil
}

// start is the scope of a conversation that the owner starts in a folder; none
// for the workspace.
func (s *scopes) start(path string) (Scope, error) {
	home := s.house()
	if target, err := filepath.EvalSymlinks(path); err == nil && target == home.Path {
		return Scope{}, nil
	}

	dir, err := s.folder(path)
	if err != nil {
		return Scope{}, err
	}
	if s.jail.Restricted() && !diskio.Within(dir, home.Path) {
		return Scope{Path: dir, Mode: AccessStarted}, nil
	}
	return Scope{Path: dir, Mode: AccessFull}, nil
}

// choose is the scope that a person wants, if they may have it.
func (s *scopes) choose(was, want Scope, remote bool) (Scope, error) {
	switch want.Mode {
	case "":
		want.Mode = was.Mode
	case AccessFull, AccessRestricted:
	default:
		return was, fmt.Errorf("access_mode %q is unknown: it is full or restricted", want.Mode)
	}

	if want.Path == "" {
		want.Path = was.Path
	}

	if remote {
		if err := s.narrower(was, want); err != nil {
			return was, err
		}
	}

	dir, err := s.folder(want.Path)
	if err != nil {
		return was, err
	}

	want.Path = dir
	if remote { // also where links lead to
		return want, s.narrower(was, want)
	}
	return want, nil
}

// narrower refuses what would give a remote peer more than the chat has.
func (s *scopes) narrower(was, want Scope) error {
	if want.Mode != AccessRestricted && want.Mode != was.Mode {
		return errors.New("from another machine, or without the token, the access of a chat can only be made narrower; ask for restricted, or change it on the machine itself")
	}

	path, err := s.jail.Path(want.Path)
	if err != nil {
		return err
	}

	home := s.house()
	inside := diskio.Within(path, was.Path)
	if was.Mode == AccessFull {
		inside = inside || diskio.Within(path, home.Path) || diskio.Within(path, s.workspace)
	}

	if !inside {
		return fmt.Errorf("from another machine, or without the token, a chat can only be moved to a folder inside %s", was.Path)
	}
	return nil
}

// folder is the link-free path of a folder that a conversation may work in.
func (s *scopes) folder(path string) (string, error) {
	dir, err := s.jail.Folder(path)
	switch {
	case err == nil:
	case errors.Is(err, diskio.ErrOutside):
		return "", fmt.Errorf("%s is outside the workspace %s, and the settings keep all chats inside it; name a folder in the workspace", path, s.workspace)
	case errors.Is(err, diskio.ErrProtected):
		return "", fmt.Errorf("%s is protected; name another folder", path)
	case errors.Is(err, diskio.ErrNotRegular):
		return "", fmt.Errorf("%s is not a folder", path)
	case diskio.IsMissing(err):
		return "", fmt.Errorf("there is no folder %s; create it first, or name another one", path)
	default:
		return "", err
	}

	switch {
	case dir == filepath.VolumeName(dir)+string(filepath.Separator):
		return "", errors.New("a chat cannot work in the whole disk; name a folder")
	case strings.ContainsFunc(dir, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("the name of the folder %q contains a control character; rename it first", dir)
	}

	// What the agent itself follows or keeps is not a place to work in.
	home := s.house().Path
	for _, name := range datadir.WorkspaceFolders() {
		if diskio.Within(dir, filepath.Join(home, name)) {
			return "", fmt.Errorf("%s belongs to the agent itself; name a folder with your own files", path)
		}
	}
	return dir, nil
}
