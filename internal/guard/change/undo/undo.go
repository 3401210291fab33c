// Package undo keeps what files held before the agent changed them, so that a
// turn can be shown as a diff and taken back. It hides one append-only log per
// workspace, in which contents are stored once under their hash, followed by
// what each turn found and left behind; a cache that makes looking at an
// unchanged workspace as cheap as listing it; and the rules by which files are
// put back without ever following a link or losing what is there now.
//
// Before is called in front of every call that changes something, After behind
// it. Tools that name their files cost one small write; a command may change
// anything, so before one the whole workspace is looked at and what is new
// since the last look is kept. What could not be kept is written down as a gap
// and told by Undo.
//
// A Store is safe for concurrent use, also by several processes.
package undo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// Defaults of Options.
const (
	defaultBytes     = 256 << 20
	defaultFileBytes = 16 << 20
	defaultFiles     = 5000
	defaultKeep      = 50
	defaultAge       = 14 * 24 * time.Hour
)

// Options configures a Store. Dir and Jail are required.
type Options struct {
	Dir  string       // where the log is kept; out of the model's reach, made on first use
	Jail *diskio.Jail // decides which files may be touched; its workspace is the one watched
	// Exclude are files and folders a command snapshot leaves alone, because
	// they belong to the program and not to the user's work.
	Exclude []string

	// Prefix stands before relative paths when they are told to people; "" for
	// the workspace, the path of the folder for another one.
	Prefix string

	// Origins are the records that say where a file comes from, by its absolute
	// path. A content that is put back takes with it what they said about it. nil
	// means no record: of a guest's files, or for tests.
	Origins func(abs string) ([]*origin.Store, error)

	// Busy tells whether a command of a session goes on although its call has
	// returned, so that the gap can be told. nil means that none ever does.
	Busy func(session string) bool

	MaxBytes     int64         // of the log; default 256 MiB. Half of it may go to a copy of the workspace.
	MaxFileBytes int64         // larger files are not kept; default 16 MiB
	MaxFiles     int           // in a workspace that is still watched for commands; default 5000
	Keep         int           // turns; default 50
	MaxAge       time.Duration // of a turn; default 14 days

	Log *slog.Logger
	Now func() time.Time
}

// Errors a caller can tell apart.
var (
	// ErrNoTurn means that no such turn is known, or none that changed files.
	ErrNoTurn = errors.New("no such turn")
	// ErrAmbiguous means that a shortened turn id fits several turns.
	ErrAmbiguous = errors.New("several turns begin like this")
	// ErrRunning means that a command of the turn has not ended yet.
	ErrRunning = errors.New("a command of this turn is still running")
	// errBusy means that another process held the store for too long.
	errBusy = errors.New("the undo store is in use by another process")
)

// Store keeps the snapshots of one workspace.
type Store struct {
	Options
	area    area
	exclude []string // slash paths relative to the workspace

	slot  chan struct{} // capacity 1: holding the token is owning everything below
	log   logFile
	calls map[string]*running // calls of this process between Before and After
	full  time.Time           // when the workspace was last found too large
	why   string
}

// running is a call between Before and After.
type running struct {
	turn, session string
	paths         []string     // of a tool that names its files
	before        []state      // what they were
	lock          *diskio.Lock // of a command: held as long as this process lives
}

// Open prepares a store. It does not touch the disk.
func Open(o Options) (*Store, error) {
	if o.Dir == "" || o.Jail == nil {
		return nil, errors.New("undo: a directory and a jail are needed")
	}

	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	if o.MaxFileBytes <= 0 {
		o.MaxFileBytes = defaultFileBytes
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = defaultFiles
	}
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if o.MaxAge <= 0 {
		o.MaxAge = defaultAge
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}

	s := &Store{
		Options: o, area: area{o.Jail, o.Jail.Workspace(), o.MaxFileBytes}, slot: make(chan struct{}, 1),
		log: logFile{dir: o.Dir, log: o.Log, now: o.Now, model: newModel()}, calls: map[string]*running{},
	}
	for _, p := range append([]string{o.Dir}, o.Exclude...) {
		if rel, err := filepath.Rel(s.area.workspace, p); err == nil && filepath.IsLocal(rel) && rel != "." {
			s.exclude = append(s.exclude, filepath.ToSlash(rel))
		}
	}
	return s, nil
}

// Close gives up the log. No other method may be running.
func (s *Store) Close() error { return s.log.close() }

// Before keeps what a call is about to change. When it returns nil the old
// content is durable; an error means that this call is not covered, which is
// also remembered for Undo to say, and the call may run all the same.
func (s *Store) Before(ctx context.Context, t tool.Tool, c tool.Call) error {
	if t.ReadOnly || c.TurnID == "" || t.Paths == nil && t.Sink != tool.SinkCommand {
		return nil
	}

	leave, err := s.enter(ctx, true)
	if err != nil {
		return fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	if err := s.closeStale(ctx, c); err != nil {
		return err
	}

	if t.Paths != nil {
		err = s.beforeFiles(ctx, c, t.Paths(c.Input))
	} else {
		err = s.beforeCommand(ctx, c)
	}

	if err != nil {
		return errors.Join(err, s.gap(ctx, c, fmt.Sprintf("a call of %s: %v", t.Name, err)))
	}

	if s.overfull() {
		if err := s.shorten(ctx); err != nil { // the call is covered all the same
			s.Log.WarnContext(ctx, "cannot shorten the undo log", "err", err)
		}
	}
	return nil
}

// After notes what a call left behind and returns it. It is called for every
// call, also one that failed, and does nothing for those Before did not see.
func (s *Store) After(ctx context.Context, c tool.Call) ([]bus.Edit, error) {
	if c.TurnID == "" {
		return nil, nil
	}

	// A stopped turn still has to be closed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterTime)
	defer cancel()
	select {
	case s.slot <- struct{}{}:
	case <-ctx.Done():
		return nil, errBusy
	}

	_, known := s.calls[callKey(c)]
	<-s.slot
	if !known {
		return nil, nil
	}

	leave, err := s.enter(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("enter the undo store: %w", err)
	}

	defer leave()
	changes, err := s.closeCall(ctx, callKey(c))
	return s.edits(c.ID, changes), err
}

// afterTime bounds the work after a call.
const afterTime = 30 * time.Second

// closeCall closes a call of this process and returns what it changed.
func (s *Store) closeCall(ctx context.Context, key string) ([]change, error) {
	r := s.calls[key]
	if r == nil {
		return nil, nil
	}

	delete(s.calls, key)
	if r.lock == nil {
		return s.afterFiles(ctx, r)
	}

	changes, err := s.closeCommand(ctx, key, false)
	return changes, errors.Join(err, r.lock.Unlock())
}

// closeStale closes calls of earlier turns of a session whose end was never
// told. A session has one turn at a time.
func (s *Store) closeStale(ctx context.Context, c tool.Call) error {
	for key, r := range s.calls {
		if r.session == c.SessionKey && r.turn != c.TurnID {
			if _, err := s.closeCall(ctx, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// beforeFiles keeps the files a call names.
func (s *Store) beforeFiles(ctx context.Context, c tool.Call, names []string) error {
	r := &running{turn: c.TurnID, session: c.SessionKey}
	b := s.log.batch(ctx)
	b.begin(c)
	var changes []change
	for _, name := range names {
		paths := s.area.resolve(name)
		if len(paths) == 0 {
			continue // the tool will be refused
		}

		for _, p := range append(s.area.missingParents(paths[len(paths)-1]), paths...) {
			if slices.Contains(r.paths, p) {
				continue
			}

			st, changed, err := s.area.observe(p, b)
			if err != nil {
				return b.abandon(err)
			}

			changes = append(changes, change{Path: p, Before: &st, Kept: &kept{At: changed}})
			r.paths, r.before = append(r.paths, p), append(r.before, st)
		}
	}

	if len(changes) == 0 {
		return b.abandon(nil)
	}

	s.ask(changes)
	b.changes(c.TurnID, changes)
	s.calls[callKey(c)] = r

	if err := b.commit(s.needsSync(c.TurnID, changes, b)); err != nil {
		delete(s.calls, callKey(c))
		return err
	}
	return nil
}

// needsSync reports whether a power loss could cost old content: not when the
// turn already holds it.
func (s *Store) needsSync(turn string, changes []change, b *batch) bool {
	t := s.log.model.turns[turn]
	if t == nil || len(b.blobs) > 0 {
		return true
	}

	for _, c := range changes {
		if t.files[c.Path] == nil {
			return true
		}
	}
	return false
}

func (s *Store) afterFiles(ctx context.Context, r *running) ([]change, error) {
	b := s.log.batch(ctx)
	var changes, edited []change
	for i, p := range r.paths {
		st, _, err := s.area.observe(p, b)
		if err != nil {
			return nil, b.abandon(err)
		}
		changes = append(changes, change{Path: p, After: &st})
		if st != r.before[i] {
			edited = append(edited, change{Path: p, Before: &r.before[i], After: &st})
		}
	}

	b.changes(r.turn, changes)
	return edited, b.commit(false)
}

// beforeCommand keeps the workspace.
func (s *Store) beforeCommand(ctx context.Context, c tool.Call) error {
	if now := s.Now(); !s.full.IsZero() && now.Sub(s.full) < fullAgain && now.After(s.full) {
		return errors.New(s.why)
	}

	key := callKey(c)
	b := s.log.batch(ctx)
	b.begin(c)
	w, err := s.walk(ctx, b)
	if err != nil {
		if large, ok := errors.AsType[tooLargeError](err); ok {
			s.full, s.why = s.Now(), large.Error()
		}
		return b.abandon(err)
	}

	s.full = time.Time{}
	lock, err := diskio.TryLock(s.runLock(key))
	if err != nil {
		return b.abandon(err)
	}

	b.tree(w.delta(s.log.model.tree))
	b.command(c.TurnID, key, w.skipped)
	if err := b.commit(true); err != nil {
		return errors.Join(err, lock.Unlock())
	}

	s.calls[key] = &running{turn: c.TurnID, session: c.SessionKey, lock: lock}
	return nil
}

// fullAgain is how long a workspace found too large is not looked at again.
const fullAgain = time.Minute

// closeCommand ends the record of a command: what differs from the workspace it began with is
// what it changed. late means that its end was missed.
func (s *Store) closeCommand(ctx context.Context, key string, late bool) ([]change, error) {
	o := s.log.model.open[key]
	if o == nil {
		return nil, nil
	}

	b := s.log.batch(ctx)
	w, err := s.walk(ctx, b)
	if _, large := errors.AsType[tooLargeError](err); large {
		b.gap(o.turn, "a command left so many files that new ones are not counted: "+err.Error())
		w, err = s.recheck(ctx, b)
	}

	if err != nil {
		return nil, b.abandon(err)
	}

	delta := w.delta(s.log.model.tree)
	b.tree(delta)
	changes, moved := s.log.model.commandChanges(o, w.tree, delta)
	if len(changes) > 0 {
		b.changes(o.turn, changes)
		if s.log.model.overlapping(o) {
			b.gap(o.turn, "another command ran at the same time; what it changed may be counted here")
		}
	}

	if t := s.log.model.turns[o.turn]; t != nil && !late && s.Busy != nil && s.Busy(t.session) {
		b.gap(o.turn, "a command went on in the background; what it changed later is not covered")
	}
	if moved > 0 {
		b.gap(o.turn, fmt.Sprintf("a command moved %d files here from folders that are not watched; they stay", moved))
	}

	b.done(o.turn, key, late)
	return changes, b.commit(false)
}

// recover closes commands whose process died.
func (s *Store) recover(ctx context.Context) error {
	for key := range s.log.model.open {
		if s.calls[key] != nil {
			continue
		}

		lock, err := diskio.TryLock(s.runLock(key))
		if _, busy := errors.AsType[*diskio.LockedError](err); busy {
			continue
		}
		if err != nil {
			return err
		}

		_, err = s.closeCommand(ctx, key, true)
		if err := errors.Join(err, lock.Unlock()); err != nil {
			return err
		}
	}
	return nil
}

// gap notes that a turn is not covered completely.
func (s *Store) gap(ctx context.Context, c tool.Call, why string) error {
	if t := s.log.model.turns[c.TurnID]; t != nil && t.hasGap(why) {
		return nil
	}
	b := s.log.batch(ctx)
	b.begin(c)
	b.gap(c.TurnID, why)
	return b.commit(false)
}

func (s *Store) runLock(key string) string {
	return filepath.Join(s.Dir, "run-"+key+".lock")
}

// callKey names a call; it is also part of a file name.
func callKey(c tool.Call) string {
	sum := sha256.Sum256([]byte(c.TurnID + "\x00" + c.ID))
	return hex.EncodeToString(sum[:8])
}

// shown returns a path as it is told to people.
func shown(path string) string {
	return text.Reveal(path, text.Prose)
}

// shown returns a path of the log as it is told to people.
func (s *Store) shown(path string) string {
	return shown(s.named([]string{path})[0])
}

// named are paths of the log as they are called from everywhere.
func (s *Store) named(paths []string) []string {
	out := slices.Clone(paths)
	for i, p := range out {
		if s.Prefix != "" && !filepath.IsAbs(p) {
			out[i] = strings.TrimSuffix(filepath.ToSlash(s.Prefix), "/") + "/" + p
		}
	}
	return out
}
