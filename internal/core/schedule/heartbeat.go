package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
)

// heartbeatID names the job, its conversation and its file.
const heartbeatID = "heartbeat"

// heartbeatFile is read by the heartbeat, in the workspace.
const heartbeatFile = "HEARTBEAT.md"

const heartbeatMax = 64 << 10

// allClear is the answer of the model when there is nothing to report.
const allClear = "ALL CLEAR"

// Heartbeat configures the regular look at HEARTBEAT.md.
type Heartbeat struct {
	Every  time.Duration // 0 switches it off
	Active Hours         // the only hours it looks in; the zero value is always
	Dedupe time.Duration // in which the same text is not delivered again
	// Judge decides whether an answer is worth a message. nil: every answer is.
	Judge func(ctx context.Context, task, answer string) (notify bool, err error)
}

// judgeErrors is how many failures of Judge in a row are told, once.
const judgeErrors = 3

// judgeWait is how long Judge may take. Until then the run is not over.
const judgeWait = 2 * time.Minute

// heartbeat works on the list in HEARTBEAT.md regularly.
type heartbeat struct{ o *Options }

// job returns the protected job of the heartbeat; false if it is switched off.
func (h *heartbeat) job() (System, bool) {
	return System{
		ID:      heartbeatID,
		Name:    heartbeatID,
		Timing:  Every(max(h.o.Heartbeat.Every, time.Minute)),
		Purpose: "Look at " + heartbeatFile + " and work on its active tasks.",
	}, h.o.Heartbeat.Every > 0
}

// beat fills in the message of a heartbeat, or says why there is nothing to
// do. A look at an empty list asks no model.
func (h *heartbeat) beat(ctx context.Context, in *bus.Inbound, last *Last) (skip string) {
	now := h.o.Now().In(h.o.Location)
	if a := h.o.Heartbeat.Active; a.set && !a.Contains(now) {
		return "outside of its active hours"
	}

	tasks, err := h.activeTasks()
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be read: %v", heartbeatFile, err)
	case tasks == "":
		return "there are no active tasks"
	}

	in.Route = noChat() // what there is to tell waits for the first chat
	if h.o.LastRoute != nil {
		if route, ok := h.o.LastRoute(ctx); ok {
			in.Route = route
		}
	}

	in.Text = "[Regular look at the list of active tasks. Work on them now. Your answer is shown to the user as it is, if it matters to them: " +
		"write only what they should read, do not mention files or this note. If nothing needs their attention answer exactly: " + allClear + "]\n\n" + last.note(h.o.Location)
	if h.o.Foreign != nil && h.o.Foreign(filepath.Join(h.o.Workspace, heartbeatFile)) {
		in.Quoted = []bus.Quote{{About: "the list; words from outside are in it", Text: tasks}}
	} else {
		in.Text += tasks
	}
	return ""
}

// activeTasks reads the list in HEARTBEAT.md.
func (h *heartbeat) activeTasks() (string, error) {
	tree, err := diskio.OpenTree(h.o.Workspace)
	if err != nil {
		return "", err
	}

	defer tree.Close() //nolint:errcheck // read only

	data, err := tree.ReadHead(heartbeatFile, heartbeatMax)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return activeTasks(string(data)), err
}

// activeTasks returns what stands under "## Active Tasks", or the whole text if
// it has no such heading: "" when there is nothing but blank lines, headings and
// comments.
func activeTasks(doc string) string {
	doc = stripComments(strings.ReplaceAll(doc, "\r\n", "\n"))
	headed := false
	for line := range strings.Lines(doc) {
		headed = headed || activeHeading(strings.TrimSpace(line))
	}

	var keep []string
	active, work := !headed, false
	for line := range strings.Lines(doc) {
		line = strings.TrimRight(line, " \t\n")
		text := strings.TrimSpace(line)
		if headed && (strings.HasPrefix(text, "## ") || strings.HasPrefix(text, "# ")) {
			active = activeHeading(text)
			continue
		}
		if !active {
			continue
		}

		keep = append(keep, line)
		work = work || text != "" && !strings.HasPrefix(text, "#")
	}

	if !work {
		return ""
	}
	return strings.TrimSpace(strings.Join(keep, "\n"))
}

func activeHeading(line string) bool {
	heading, ok := strings.CutPrefix(line, "## ")
	return ok && strings.HasPrefix(strings.ToLower(strings.TrimSpace(heading)), "active tasks")
}

// stripComments takes out HTML comments; one that is not closed goes to the end.
func stripComments(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "<!--")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(rest, "-->")
	}
}

// worthTelling decides whether the owner hears about a heartbeat. Routine
// results and repetitions are not told; when the judgement itself fails
// nothing is told, except that a row of failures is, once.
func (h *heartbeat) worthTelling(ctx context.Context, j *Job, in bus.Inbound, out bus.Outbound, res *result) bool {
	answer := strings.TrimSpace(out.Text)
	if res.status == statusError && !res.refused {
		return j.State.ErrorsInRow+1 == judgeErrors // not every half hour
	}
	if strings.EqualFold(strings.Trim(answer, " .!*`\""), allClear) {
		res.note = "nothing to tell"
		return false
	}

	sum := sha256.Sum256([]byte(answer))
	hash := hex.EncodeToString(sum[:8])
	if j.State.Notified == hash && h.o.Now().Sub(j.State.NotifiedAtMS.Time()) < h.o.Heartbeat.Dedupe {
		res.note = "the same was told before"
		return false
	}

	notify := true
	failures := 0
	if h.o.Heartbeat.Judge != nil {
		call, cancel := context.WithTimeout(ctx, judgeWait)
		var err error
		notify, err = h.o.Heartbeat.Judge(call, in.Text, answer)
		cancel()

		if err != nil {
			failures = j.State.JudgeErrors + 1
			h.o.Log.WarnContext(ctx, "cannot judge whether to notify of a heartbeat", "in_a_row", failures, "err", err)
			res.note = "not judged: " + text.Label(err.Error(), 200)
			notify = failures == judgeErrors
		} else if !notify {
			res.note = "judged not to matter"
		}
	}

	now := msOf(h.o.Now())
	res.change = func(j *Job) {
		j.State.JudgeErrors = failures
		if notify {
			j.State.Notified, j.State.NotifiedAtMS = hash, now
		}
	}
	return notify
}
