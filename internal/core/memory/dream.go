package memory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/store"
	"github.com/nanobot-go/nanobot/internal/core/skill"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Repo keeps versions of the memory files. gitstore.Store is one.
type Repo interface {
	// Commit records the files as they are; changed is false if nothing differs.
	Commit(ctx context.Context, subject, body string) (id string, changed bool, err error)
}

// DreamModel is the model a run uses.
type DreamModel struct {
	Model       llm.Model
	Name        string // wire name
	MaxTokens   int    // of one answer; 0 means 8192
	Window      int    // context window in tokens, 0 if unknown
	Temperature *float64
	Effort      string
}

// DreamOptions configure a Dream. History and Model are required.
type DreamOptions struct {
	History *History
	Repo    Repo // nil: no versions are kept
	Model   func(ctx context.Context) (DreamModel, error)
	Skills  *skill.Library // nil: no skills are made

	Interval   time.Duration // between runs; default 2 h
	MaxBatch   int           // history entries per run; default 20
	Iterations int           // model calls that edit, per run and scope; default 10
	Tokens     int           // prompt and answers of one run together; default 300000

	// Prompt says what to look for in the history of the owner; nil is DreamPrompt.
	Prompt func() string
	// Notify tells the owner something that does not ask for an answer. May be
	// nil.
	Notify func(ctx context.Context, s phrase.Sentence)
	// Files writes the files of the workspace; nil records nothing about them.
	Files *change.Writer
	Now   func() time.Time
	Log   *slog.Logger
}

// Dream takes what the history says into the long-term files: SOUL.md, USER.md,
// memory/MEMORY.md and those of scopes, and now and then a new skill. A run
// finds first and edits then, on a draft in memory; files change only when all
// of it succeeded, together with the cursor. Content from outside is looked at
// apart from everything else and never gets into the files by itself.
type Dream struct {
	o    DreamOptions
	turn chan struct{} // capacity 1: holds the right to change anything

	broken func(step string) error // tests end a run here
}

// ErrDreaming refuses work because a run is going on, here or in another process.
var ErrDreaming = errors.New("a dream is already running")

// Files beside the history.
const (
	fileJournal    = "dream_pending.json"
	fileProvenance = "provenance.jsonl"
	fileQuarantine = "quarantine.jsonl"
	fileFailed     = "dream_failed.jsonl"
	dreamLock      = "dream"
)

// NewDream makes a Dream. It does no I/O.
func NewDream(o DreamOptions) (*Dream, error) {
	if o.History == nil || o.Model == nil {
		return nil, errors.New("a dream needs a history and a model")
	}

	if o.Interval <= 0 {
		o.Interval = 2 * time.Hour
	}
	if o.MaxBatch <= 0 {
		o.MaxBatch = 20
	}
	if o.Iterations <= 0 {
		o.Iterations = 10
	}
	if o.Tokens <= 0 {
		o.Tokens = 300_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Prompt == nil {
		o.Prompt = DreamPrompt
	}
	if o.Files == nil {
		o.Files = change.NewWriter(o.History.Workspace(), nil)
	}
	if o.Notify == nil {
		o.Notify = func(context.Context, phrase.Sentence) {}
	}
	return &Dream{
		o: o, turn: make(chan struct{}, 1),
		broken: func(string) error { return nil },
	}, nil
}

// Close gives back what the Dream holds. No run may be going on.
func (d *Dream) Close() error { return nil }

// FileChange is how much of a file a run changed, in lines.
type FileChange struct {
	Path    string `json:"path"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
}

// Report says what a run did.
type Report struct {
	ID          string        `json:"id"`
	Waiting     time.Time     `json:"waiting,omitzero"` // the run was put off until then, because earlier ones failed
	Entries     int           `json:"entries"`          // taken in
	Remaining   int           `json:"remaining"`        // entries for later runs
	Findings    int           `json:"findings"`
	Unknown     int           `json:"unknown,omitempty"`     // lines of the analysis that were not findings
	Dropped     int           `json:"dropped,omitempty"`     // findings of a kind their source may not cause
	Quarantined int           `json:"quarantined,omitempty"` // findings that wait for the owner
	Files       []FileChange  `json:"files,omitempty"`
	Commit      string        `json:"commit,omitempty"`
	Recovered   bool          `json:"recovered,omitempty"` // an interrupted run was brought to an end first
	Notes       []string      `json:"notes,omitempty"`
	Usage       llm.Usage     `json:"usage"`
	Took        time.Duration `json:"took"`
}

// Run takes in the next batch of entries. A run that is not manual is put off
// while earlier failures ask for it. When it fails the files and the cursor are
// as before.
func (d *Dream) Run(ctx context.Context, manual bool) (rep Report, err error) {
	start := d.o.Now()
	leave, err := d.enter(ctx)
	if err != nil {
		return rep, err
	}

	defer leave()
	defer func() { rep.Took = d.o.Now().Sub(start) }()
	rep.ID = newDreamID()
	if rep.Recovered, err = d.recover(ctx); err != nil {
		return rep, fmt.Errorf("finish an interrupted dream: %w", err)
	}

	st, pending, err := d.readState(ctx)
	if err != nil || len(pending) == 0 {
		return rep, err
	}
	if !manual && st.NextTry.After(start) {
		rep.Waiting, rep.Remaining = st.NextTry, len(pending)
		return rep, nil
	}

	batch := pending[:d.batchSize(pending, st)]
	rep.Entries, rep.Remaining = len(batch), len(pending)-len(batch)
	waited, err := d.Quarantine(ctx)
	if err != nil {
		return rep, err
	}

	if err := d.process(ctx, batch, &rep); err != nil {
		rep.Files = nil
		rep.Commit = ""
		rep.Quarantined = 0
		if note := d.failed(ctx, st, batch, err); note != "" {
			rep.Notes = append(rep.Notes, note)
		}
		return rep, err
	}

	if err := d.o.History.setDreamState(ctx, dreamState{LastRun: start, LastCommit: rep.Commit}); err != nil {
		d.o.Log.WarnContext(ctx, "cannot save the state of the dream", "err", err)
	}
	if err := d.o.History.compact(ctx); err != nil {
		d.o.Log.WarnContext(ctx, "cannot compact the history", "err", err)
	}
	if !manual && rep.Quarantined > 0 {
		d.announce(ctx, len(waited))
	}

	d.o.Log.InfoContext(ctx, "dreamt", "entries", rep.Entries, "findings", rep.Findings, "files", len(rep.Files), "quarantined", rep.Quarantined, "commit", rep.Commit)
	return rep, nil
}

// announce tells the owner about findings that wait for their word, if there
// are more than before: the owner does not look for them otherwise.
func (d *Dream) announce(ctx context.Context, before int) {
	now, err := d.Quarantine(ctx)
	if err != nil || len(now) <= before {
		return // what waits is shown by memory show in any case
	}
	d.o.Notify(ctx, phrase.Later("I came across %s in pages or documents that may be worth remembering. Nothing was noted; it waits for your word: /dream-log shows it, /dream keep and /dream drop decide.",
		phrase.Counted(len(now)-before, "finding")))
}

// Skip declares everything in the history as read, for when Dream is switched
// off: entries it never takes in must not pile up in prompts.
func (d *Dream) Skip(ctx context.Context) error {
	n, err := d.o.History.cursor(ctx)
	if err != nil {
		return err
	}
	return d.o.History.SetDreamCursor(ctx, n)
}

// enter gets the right to change things, without waiting.
func (d *Dream) enter(ctx context.Context) (leave func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}

	select {
	case d.turn <- struct{}{}:
	default:
		return nil, ErrDreaming
	}

	release, err := d.state().Lock(ctx, dreamLock)
	if err != nil {
		<-d.turn
		if _, busy := errors.AsType[*store.LockedError](err); busy {
			return nil, ErrDreaming
		}
		return nil, err
	}

	return func() {
		if err := release(); err != nil {
			d.o.Log.WarnContext(ctx, "cannot release the lock of the dream", "err", err)
		}
		<-d.turn
	}, nil
}

// readState returns the state and the entries that are to be worked on.
func (d *Dream) readState(ctx context.Context) (st dreamState, pending []Entry, err error) {
	cursor, err := d.o.History.DreamCursor(ctx)
	if err != nil {
		return st, nil, err
	}

	if ok, err := d.o.History.dreamState(ctx, &st); err != nil {
		return st, nil, err
	} else if !ok || st.Attempts > 0 && st.Cursor != cursor {
		st = dreamState{LastRun: st.LastRun, LastCommit: st.LastCommit} // about other entries
	}

	st.Cursor = cursor
	pending, err = d.o.History.since(ctx, cursor)
	return st, pending, err
}

// Limits of what one run reads.
const (
	maxEntryShown  = 8000   // characters of an entry
	maxBatchShown  = 120000 // characters of all entries
	maxBatchGroups = 4      // people or chats, each of which costs calls of its own
)

// batchSize returns how many of the pending entries a run works on.
func (d *Dream) batchSize(pending []Entry, st dreamState) int {
	most := max(1, d.o.MaxBatch>>min(st.Failures, 16))
	var groups []group
	chars := 0
	for i, e := range pending {
		chars += min(len(e.Content), 4*maxEntryShown)
		groups = addTo(groups, e)
		if i > 0 && (i >= most || chars > maxBatchShown || len(groups) > maxBatchGroups) {
			return i
		}
	}

	return len(pending)
}

// group is a part of a batch that is analysed by itself, so that nothing said
// in one chat or by a stranger's page can have a say in another's memory.
type group struct {
	scope   string
	tainted bool
	entries []Entry
}

func addTo(groups []group, e Entry) []group {
	i := slices.IndexFunc(groups, func(g group) bool { return g.scope == e.Scope && g.tainted == e.Tainted })
	if i < 0 {
		return append(groups, group{e.Scope, e.Tainted, []Entry{e}})
	}
	groups[i].entries = append(groups[i].entries, e)
	return groups
}

// process does the work of a run: everything on a draft, then one change.
func (d *Dream) process(ctx context.Context, batch []Entry, rep *Report) error {
	root, err := diskio.OpenTree(d.o.History.Workspace())
	if err != nil {
		return err
	}

	defer root.Close() //nolint:errcheck // nothing is pending
	m, err := d.o.Model(ctx)
	if err != nil {
		return fmt.Errorf("model for the dream: %w", err)
	}

	r := &dreamRun{o: &d.o, model: m, rep: rep, draft: newDraft(root), now: d.o.Now()}
	r.meter = &meter{model: m.Model, id: "dream-" + rep.ID, limit: d.o.Tokens}
	defer func() { rep.Usage = r.meter.used() }()
	var groups []group
	for _, e := range batch {
		groups = addTo(groups, e)
	}

	for _, g := range groups {
		if err := r.group(ctx, g); err != nil {
			if r.meter.exceeded() {
				return fmt.Errorf("the limit of %d tokens per run is reached: %w", d.o.Tokens, errRunTokens)
			}
			return err
		}
	}

	return d.apply(ctx, r.change(batch), rep, root)
}

// change gathers what the run wants to do.
func (r *dreamRun) change(batch []Entry) changeSet {
	last := batch[len(batch)-1]
	c := changeSet{ID: r.rep.ID, Cursor: last.Cursor, Pages: r.draft.changed(), Held: r.held, Time: stamp(r.now)}
	var body strings.Builder
	for _, p := range c.Pages {
		added, removed := lineCounts(p.Before, p.After)
		r.rep.Files = append(r.rep.Files, FileChange{p.Name, len(added), len(removed)})
		c.Facts = append(c.Facts, r.explain(p.Name, added)...)
		fmt.Fprintf(&body, "%s: +%d -%d lines\n", p.Name, len(added), len(removed))
	}

	fmt.Fprintf(&body, "\nFrom history entries %d to %d.\n", batch[0].Cursor, last.Cursor)
	c.Subject = fmt.Sprintf("dream: %s, %s", last.Time, counted(len(c.Pages), "change"))
	c.Body = body.String()
	r.rep.Quarantined = len(r.held)
	return c
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func newDreamID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
