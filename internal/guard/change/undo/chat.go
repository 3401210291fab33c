package undo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
)

// Chat words what is done about kept changes for the person in a conversation.
// It only reaches the turns of the session it is asked about.
type Chat struct{ Store turns }

// turns lists the methods of a Store that a Chat needs, or of several as one.
type turns interface {
	Turns(ctx context.Context, session string) ([]Turn, error)
	Last(ctx context.Context, session string) (Turn, error)
	Find(ctx context.Context, id string) (Turn, error)
	Diff(ctx context.Context, turn string) (string, error)
	Undo(ctx context.Context, turn string, how Choice) (Report, error)
}

// Numbers of a reply in a chat.
const (
	chatDiff  = 3000 // characters of a diff
	chatPaths = 10
	chatTurns = 20
	shortID   = 8
)

// Undo takes back a turn of a session, the last one if turn is empty. paths are
// what it brought back.
func (c Chat) Undo(ctx context.Context, session, turn string, force bool) (reply string, paths []string, err error) {
	t, why, err := c.turn(ctx, session, turn)
	if err != nil || why != "" {
		return why, nil, err
	}

	r, err := c.Store.Undo(ctx, t.ID, Choice{Force: force})
	if errors.Is(err, ErrRunning) {
		return phrase.Of(ctx, "A command of this turn is still running; stop it first."), nil, nil
	}
	if err != nil {
		return "", nil, err
	}

	var b strings.Builder
	b.WriteString(r.Text(ctx, "/undo TURN force"))
	if r.Undo != "" {
		diff, err := c.Store.Diff(ctx, r.Undo)
		if err != nil {
			return "", nil, err
		}
		b.WriteString("\n" + fenced(ctx, diff, r.Undo))
		b.WriteString(phrase.Of(ctx, "\nTo have the changes again: /undo %s", Short(r.Undo)))
	}

	return b.String(), append(r.Restored, r.Deleted...), nil
}

// Diff shows what a turn of a session changed, the last one if turn is empty.
func (c Chat) Diff(ctx context.Context, session, turn string) (string, error) {
	t, why, err := c.turn(ctx, session, turn)
	if err != nil || why != "" {
		return why, err
	}

	diff, err := c.Store.Diff(ctx, t.ID)
	if err != nil {
		return "", err
	}

	var b strings.Builder
	b.WriteString(phrase.Of(ctx, "Turn %s of %s", Short(t.ID), phrase.Moment(ctx, t.At)))
	switch {
	case t.Running:
		b.WriteString(phrase.Of(ctx, " (a command is still running)"))
	case t.UndoneBy != "":
		b.WriteString(phrase.Of(ctx, " (taken back)"))
	}

	b.WriteString(phrase.Of(ctx, ": %s changed.\n", phrase.Count(ctx, len(t.Changes), "path")))
	writeGaps(ctx, &b, t.Gaps, t.Skipped, t.Interrupted)
	if diff != "" {
		b.WriteString("\n" + fenced(ctx, diff, t.ID))
	}
	if t.UndoneBy == "" && !t.Running && !t.damaged() && len(t.Changes) > 0 {
		b.WriteString(phrase.Of(ctx, "\nTo take it back: /undo %s", Short(t.ID)))
	}
	return strings.TrimRight(b.String(), "\n"), nil
}

// Turns lists the turns of a session that changed files, newest first.
func (c Chat) Turns(ctx context.Context, session string) (string, error) {
	turns, err := c.Store.Turns(ctx, session)
	if err != nil {
		return "", err
	}
	if len(turns) == 0 {
		return phrase.Of(ctx, textNoTurn), nil
	}

	var b strings.Builder
	for i, t := range turns {
		if i == chatTurns {
			b.WriteString(phrase.Of(ctx, "%d older ones; in a terminal: nanobot undo --list\n", len(turns)-i))
			break
		}
		fmt.Fprintf(&b, "- `%s` %s %s\n", Short(t.ID), phrase.Moment(ctx, t.At), shown(t.Summary()))
	}

	b.WriteString(phrase.Of(ctx, "\n/diff ID shows one, /undo ID takes it back."))
	return b.String(), nil
}

// textNoTurn is said of a conversation whose turns left files alone.
const textNoTurn = "No turn of this conversation changed files, as far as it is kept."

// turn finds a turn of a session, or says why there is none.
func (c Chat) turn(ctx context.Context, session, id string) (t Turn, why string, err error) {
	if id == "" {
		t, err = c.Store.Last(ctx, session)
		if errors.Is(err, ErrNoTurn) {
			return t, phrase.Of(ctx, textNoTurn), nil
		}
		return t, "", err
	}

	t, err = c.Store.Find(ctx, id)
	switch {
	case errors.Is(err, ErrAmbiguous):
		return t, phrase.Of(ctx, "Several turns begin with %s; give more of it.", shown(id)), nil
	case errors.Is(err, ErrNoTurn) || err == nil && !t.of(session):
		return t, phrase.Of(ctx, "There is no turn %s in this conversation, or it is no longer kept.", shown(id)), nil
	}
	return t, "", err
}

// Short returns a turn id as it is shown; it is long enough to be given back.
func Short(id string) string { return id[:min(len(id), shortID)] }

// Text words a report. again says how to force what was left alone, with
// TURN for its id; empty means not to say it.
func (r Report) Text(ctx context.Context, again string) string {
	var b strings.Builder
	switch {
	case len(r.Restored)+len(r.Deleted) > 0:
		b.WriteString(phrase.Of(ctx, "Took back turn %s: %s restored, %s deleted.\n", Short(r.Turn), phrase.Count(ctx, len(r.Restored), "path"), phrase.Count(ctx, len(r.Deleted), "path")))
	default:
		b.WriteString(phrase.Of(ctx, "Nothing was changed by taking back turn %s.\n", Short(r.Turn)))
	}

	writeList(ctx, &b, phrase.Of(ctx, "restored "), r.Restored)
	writeList(ctx, &b, phrase.Of(ctx, "deleted "), r.Deleted)
	if len(r.Skipped) > 0 {
		conflict := false
		left := make([]string, len(r.Skipped))
		for i, s := range r.Skipped {
			left[i] = s.Path + ": " + s.Why
			conflict = conflict || s.Conflict
		}

		b.WriteString(phrase.Of(ctx, "Left alone:\n"))
		writeList(ctx, &b, "", left)
		if conflict && again != "" {
			b.WriteString(phrase.Of(ctx, "To replace those that changed since: %s\n", strings.ReplaceAll(again, "TURN", Short(r.Turn))))
		}
	}

	writeGaps(ctx, &b, r.Gaps, r.Outside, r.Interrupted)
	return strings.TrimRight(b.String(), "\n")
}

func writeGaps(ctx context.Context, b *strings.Builder, gaps, outside []string, interrupted bool) {
	for _, g := range gaps {
		b.WriteString(phrase.Of(ctx, "Not covered: %s.\n", shown(g)))
	}
	if len(outside) > 0 {
		b.WriteString(phrase.Of(ctx, "Not watched while commands ran: %s.\n", shown(strings.Join(outside, ", "))))
	}
	if interrupted {
		b.WriteString(phrase.Of(ctx, "The turn was cut off; changes made soon after it may be counted as its own.\n"))
	}
}

func writeList(ctx context.Context, b *strings.Builder, word string, list []string) {
	for i, s := range list {
		if i == chatPaths {
			b.WriteString(phrase.Of(ctx, "  and %d more\n", len(list)-i))
			return
		}
		fmt.Fprintf(b, "  %s%s\n", word, s)
	}
}

// fenced returns a diff as a Markdown block, cut to what a chat can take.
func fenced(ctx context.Context, diff, id string) string {
	cut := text.Cut(diff, chatDiff)
	rest := ""
	if len(cut) < len(diff) {
		cut = cut[:strings.LastIndexByte(cut, '\n')+1]
		rest = phrase.Of(ctx, "%d more lines; in a terminal: nanobot undo --diff %s\n", strings.Count(diff[len(cut):], "\n"), Short(id))
	}

	// A line of the diff must not end the block.
	fence := "```"
	for strings.Contains(cut, fence) {
		fence += "`"
	}
	return fence + "diff\n" + strings.TrimSuffix(cut, "\n") + "\n" + fence + "\n" + rest
}
