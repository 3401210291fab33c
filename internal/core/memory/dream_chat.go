package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/gitstore"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Versions is a Repo whose past can be looked at. gitstore.Store is one.
type Versions interface {
	Repo
	Log(ctx context.Context, n int) ([]gitstore.Commit, error)
	Show(ctx context.Context, prefix string) (gitstore.Commit, gitstore.Change, error)
	Restore(ctx context.Context, prefix string) (gitstore.Undone, error)
	UndoOnly(ctx context.Context, prefix string) (gitstore.Undone, error)
}

// DreamChat words what Dream does for its owner, as Markdown.
type DreamChat struct {
	Dream    *Dream
	Versions Versions // nil: no versions are kept
}

// Limits of what is shown in a chat.
const (
	shownDiff    = 6000
	shownCommits = 10
	lookBack     = 200 // commits in which a dream is looked for
)

// Run makes a run and says how it went.
func (c DreamChat) Run(ctx context.Context) string {
	rep, err := c.Dream.Run(ctx, true)
	return rep.explain(phrase.From(ctx), err, "/dream-log")
}

// Explain says how a run went that ended with err. Log is the command that shows
// more.
func (rep Report) Explain(language string, err error, log string) string {
	return rep.explain(language, err, log)
}

func (rep Report) explain(language string, err error, log string) string {
	took := rep.Took.Round(100 * time.Millisecond).Seconds()
	notes := ""
	if len(rep.Notes) > 0 {
		notes = "\n" + strings.Join(rep.Notes, "\n")
	}

	switch {
	case errors.Is(err, ErrDreaming):
		return phrase.In(language, "A dream is already running.")
	case err != nil:
		return phrase.In(language, "Dream failed after %.1f s: %s\nFiles and cursor are as before; it will be tried again.%s", took, text.Ellipsis(err.Error(), 300), notes)
	case rep.Entries == 0:
		if rep.Recovered {
			return phrase.In(language, "An interrupted dream was finished. There is nothing new to take in.")
		}
		return phrase.In(language, "Nothing to take in: the history has no new entries.")
	}

	var b strings.Builder
	b.WriteString(phrase.In(language, "Dream done in %.1f s: %s read", took, entriesText(language, rep.Entries)))
	if rep.Remaining > 0 {
		b.WriteString(phrase.In(language, ", %d left for later", rep.Remaining))
	}

	if len(rep.Files) == 0 {
		b.WriteString(phrase.In(language, ". No file changed."))
	} else {
		b.WriteString(".")
		for _, f := range rep.Files {
			b.WriteString(phrase.In(language, "\n- %s: +%d -%d lines", f.Path, f.Added, f.Removed))
		}
	}

	if rep.Commit != "" {
		b.WriteString(phrase.In(language, "\nVersion %s; %s shows it.", gitstore.Short(rep.Commit), log))
	}
	if rep.Quarantined > 0 {
		b.WriteString(phrase.In(language, "\n%s from outside kept back; %s lists what waits for your word.", phrase.Counted(rep.Quarantined, "finding"), log))
	}
	return b.String() + notes
}

func entriesText(language string, n int) string {
	if n == 1 {
		return phrase.In(language, "1 entry")
	}
	return phrase.In(language, "%d entries", n)
}

// Log shows a version, the newest one that Dream made if sha is empty, and
// what waits for the owner.
func (c DreamChat) Log(ctx context.Context, sha string) string {
	return strings.TrimSpace(c.version(ctx, sha) + "\n\n" + c.waiting(ctx))
}

func (c DreamChat) version(ctx context.Context, sha string) string {
	if c.Versions == nil {
		return phrase.Of(ctx, "Versions of the memory files are not kept here.")
	}

	if sha == "" {
		found, err := c.commits(ctx, 1)
		switch {
		case err != nil:
			return phrase.Of(ctx, "The versions cannot be read: %v", err)
		case len(found) == 0:
			return c.never(ctx)
		}
		sha = found[0].ID
	}

	commit, change, err := c.Versions.Show(ctx, sha)
	if err != nil {
		return unknownVersion(ctx, sha, err)
	}

	var b strings.Builder
	b.WriteString(phrase.Of(ctx, "Version %s of %s: %s\n", gitstore.Short(commit.ID), phrase.Moment(ctx, commit.Time), text.Label(commit.Subject, 0)))
	for _, f := range change.Files {
		b.WriteString(phrase.Of(ctx, "- %s: +%d -%d lines\n", text.Label(f.Path, 0), f.Added, f.Removed))
	}

	if change.Diff != "" {
		diff := strings.TrimRight(text.Clean(text.Ellipsis(change.Diff, shownDiff)), "\n")
		fence := "```"
		for strings.Contains(diff, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "\n%sdiff\n%s\n%s\n", fence, diff, fence)
	}

	id := gitstore.Short(commit.ID)
	b.WriteString(phrase.Of(ctx, "\nTo undo only this: /dream-restore %s --only. To go back to before it, and before all that came later: /dream-restore %s", id, id))
	return b.String()
}

// never explains why there is no version.
func (c DreamChat) never(ctx context.Context) string {
	st, err := c.Dream.Status(ctx)
	switch {
	case err == nil && st.Attempts > 0:
		return phrase.Of(ctx, "Dream has not changed anything yet. The last try failed: %s", st.LastError)
	case err == nil && st.LastRun.IsZero():
		return phrase.Of(ctx, "Dream has not run yet. /dream starts it.")
	}
	return phrase.Of(ctx, "Dream has not changed anything yet.")
}

func unknownVersion(ctx context.Context, sha string, err error) string {
	switch {
	case errors.Is(err, gitstore.ErrNoCommit):
		return phrase.Of(ctx, "There is no version %s. /dream-restore lists the newest.", text.Label(sha, 40))
	case errors.Is(err, gitstore.ErrAmbiguous):
		return phrase.Of(ctx, "Several versions begin with %s; give more of it.", text.Label(sha, 40))
	case errors.Is(err, gitstore.ErrFirst):
		return phrase.Of(ctx, "This is the first version that is kept, so there is nothing to go back to.")
	}
	return phrase.Of(ctx, "The version cannot be used: %v", err)
}

// commits returns the newest ones that changed what is remembered, besides edits
// by hand.
func (c DreamChat) commits(ctx context.Context, n int) (out []gitstore.Commit, err error) {
	all, err := c.Versions.Log(ctx, lookBack)
	for _, commit := range all {
		if ofDream(commit.Subject) && len(out) < n {
			out = append(out, commit)
		}
	}
	return out, err
}

func ofDream(subject string) bool {
	return strings.HasPrefix(subject, "dream:") || strings.HasPrefix(subject, "memory:") || strings.HasPrefix(subject, "revert:")
}

// waiting lists the findings that were kept back.
func (c DreamChat) waiting(ctx context.Context) string {
	held, err := c.Dream.Quarantine(ctx)
	if err != nil {
		return phrase.Of(ctx, "The findings that were kept back cannot be read: %v", err)
	}
	if len(held) == 0 {
		return ""
	}

	var b strings.Builder
	b.WriteString(phrase.Of(ctx, "Kept back because it came from outside:\n"))
	for _, h := range held[max(0, len(held)-20):] {
		mark := ""
		if h.Order {
			mark = phrase.Of(ctx, " (reads like an instruction; cannot be kept)")
		}

		where := ""
		if len(h.Sources) > 0 {
			where = fmt.Sprintf(", %s, %s", h.Sources[0].Session, h.Sources[0].Time)
		}
		fmt.Fprintf(&b, "- %s [%s%s] %s%s\n", h.ID, h.Target, text.Label(where, 0), text.Label(h.Text, 300), mark)
	}

	b.WriteString(phrase.Of(ctx, "/dream keep ID writes one into its file, /dream drop ID forgets it."))
	return b.String()
}

// Restore undoes a version and all later ones, or with only set just that one.
// Without sha it lists the newest.
func (c DreamChat) Restore(ctx context.Context, sha string, only bool) string {
	if c.Versions == nil {
		return phrase.Of(ctx, "Versions of the memory files are not kept here.")
	}
	if sha == "" {
		return c.list(ctx)
	}

	commit, _, err := c.Versions.Show(ctx, sha)
	if err != nil {
		return unknownVersion(ctx, sha, err)
	}
	if !ofDream(commit.Subject) {
		return phrase.Of(ctx, "Version %s was not made by Dream. `nanobot memory restore` can undo it.", gitstore.Short(commit.ID))
	}

	leave, err := c.Dream.enter(ctx)
	if err != nil {
		return phrase.Of(ctx, "Not now: %v.", err)
	}

	defer leave()
	undo := c.Versions.Restore
	if only {
		undo = c.Versions.UndoOnly
	}

	done, err := undo(ctx, commit.ID)
	if conflict, ok := errors.AsType[*gitstore.ConflictError](err); ok {
		return phrase.Of(ctx, "Nothing was changed: the same lines changed again later in %s. /dream-restore %s without --only goes back to before it.",
			strings.Join(conflict.Files, ", "), gitstore.Short(commit.ID))
	}

	switch {
	case err != nil:
		return unknownVersion(ctx, sha, err)
	case done.Commit == "":
		return phrase.Of(ctx, "Nothing had to change.")
	case only:
		return phrase.Of(ctx, "Took back version %s in %s; later changes stay. New version %s.", gitstore.Short(commit.ID), strings.Join(done.Files, ", "), gitstore.Short(done.Commit))
	}

	return phrase.Of(ctx, "The memory files are as before version %s; what was changed later is gone from them, too: %s. New version %s, which can be undone as well.",
		gitstore.Short(commit.ID), strings.Join(done.Files, ", "), gitstore.Short(done.Commit))
}

func (c DreamChat) list(ctx context.Context) string {
	found, err := c.commits(ctx, shownCommits)
	switch {
	case err != nil:
		return phrase.Of(ctx, "The versions cannot be read: %v", err)
	case len(found) == 0:
		return c.never(ctx)
	}

	var b strings.Builder
	b.WriteString(phrase.Of(ctx, "Versions:\n"))
	for _, commit := range found {
		fmt.Fprintf(&b, "- %s %s %s\n", gitstore.Short(commit.ID), phrase.Moment(ctx, commit.Time), text.Label(commit.Subject, 0))
	}

	b.WriteString(phrase.Of(ctx, "/dream-restore SHA goes back to before a version, /dream-restore SHA --only undoes just that one."))
	return b.String()
}

// Decide keeps or drops a finding that waits.
func (c DreamChat) Decide(ctx context.Context, id string, keep bool) string {
	if !keep {
		if err := c.Dream.Reject(ctx, id); err != nil {
			return phrase.Of(ctx, "Not dropped: %v.", err)
		}
		return phrase.Of(ctx, "Dropped; it will not come back.")
	}

	file, err := c.Dream.Confirm(ctx, id)
	if err != nil {
		return phrase.Of(ctx, "Not kept: %v.", err)
	}
	return phrase.Of(ctx, "Written into %s.", file)
}
