package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus/journal"
	"github.com/nanobot-go/nanobot/internal/core/memory"
	"github.com/nanobot-go/nanobot/internal/core/schedule"
	"github.com/nanobot-go/nanobot/internal/core/session"
	"github.com/nanobot-go/nanobot/internal/guard/change"
	"github.com/nanobot-go/nanobot/internal/guard/change/origin"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/control"
	"github.com/nanobot-go/nanobot/internal/run/daemon"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
	"github.com/nanobot-go/nanobot/internal/run/takeover"
)

// gateway looks at the one that runs, or at what would keep one from running.
func (d *Diagnosis) gateway(ctx context.Context, l *config.Loaded) (running bool) {
	i, err := daemon.Find(gateway.InstanceFile(l))
	stale, crashed := errors.AsType[*daemon.StaleError](err)
	switch {
	case err == nil:
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		s, err := control.To(l).Status(ctx)
		if err != nil {
			d.say(Broken, "gateway", fmt.Sprintf("process %d is running but does not answer: %v", i.PID, err), "see: nanobot gateway logs; then: nanobot gateway stop")
			return true
		}

		d.live(i, s)
		return true

	case crashed:
		d.say(Doubt, "gateway", "it is not running: "+stale.Error(), "for the reason see: nanobot gateway logs; no message is lost. Start it with: nanobot gateway start")
	case errors.Is(err, daemon.ErrNotRunning):
		d.say(Well, "gateway", "it is not running", "start it with: nanobot gateway start")
	default:
		d.say(Doubt, "gateway", err.Error(), "")
	}

	d.port(ctx, l)
	d.crashes(l)
	return false
}

// live tells how a running gateway is.
func (d *Diagnosis) live(i daemon.Instance, s control.Status) {
	what := fmt.Sprintf("process %d answers on %s", i.PID, s.Address)
	switch {
	case !s.Ready:
		d.say(Broken, "gateway", what+" and is not ready: "+strings.Join(s.Problems, "; "), "see: nanobot gateway logs")
	case len(s.Problems) > 0:
		d.say(Doubt, "gateway", what+", but "+strings.Join(s.Problems, "; "), "see: nanobot gateway status")
	default:
		d.say(Well, "gateway", what, "")
	}

	for _, c := range s.Channels {
		if c.Enabled && c.Error != "" {
			d.say(Broken, "channel."+c.Name+".live", string(c.State)+": "+c.Error, "see: nanobot channels status")
		}
	}
}

// port finds out whether another program has ours.
func (d *Diagnosis) port(ctx context.Context, l *config.Loaded) {
	addr := net.JoinHostPort(l.Config.Gateway.Host, strconv.Itoa(l.Config.Gateway.Port))
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		d.say(Doubt, "port", "the gateway could not listen on "+addr+": "+err.Error(), "stop the other program, or set gateway.port")
		return
	}
	_ = ln.Close() // nothing was done with it
	d.say(Well, "port", addr+" is free", "")
}

// crashes counts starts that were not taken back.
func (d *Diagnosis) crashes(l *config.Loaded) {
	data, err := os.ReadFile(datadir.Starts.In(l.DataDir))
	if err != nil {
		return
	}

	var note struct{ Starts []time.Time }
	if json.Unmarshal(data, &note) != nil || len(note.Starts) == 0 {
		return
	}

	last := slices.MaxFunc(note.Starts, time.Time.Compare)
	d.say(Doubt, "crash", fmt.Sprintf("the gateway that started at %s crashed (%d such starts)",
		last.Local().Format(time.DateTime), len(note.Starts)), "for the reason see: nanobot gateway logs")
}

// workspaces looks for conversations that no workspace shows.
func (d *Diagnosis) workspaces(l *config.Loaded) {
	hidden, err := session.Unlisted(app.State(l, nil), l.DataDir)
	switch {
	case err != nil:
		d.say(Broken, "workspaces", err.Error(), "")
	case len(hidden) > 0:
		d.say(Broken, "workspaces", "conversations that no workspace shows, because "+datadir.Workspaces.In(l.DataDir)+" does not list them: "+strings.Join(hidden, ", "),
			"move that file away; the next start recreates it from the files next to the conversations")
	}
}

// rot looks for lines of conversations that are not as they were written.
func (d *Diagnosis) rot(ctx context.Context, l *config.Loaded) {
	damaged, err := session.Damaged(ctx, l.DataDir)
	if err != nil {
		d.say(Doubt, "sessions", "not all conversations can be read: "+err.Error(), "")
		return
	}

	for _, f := range damaged {
		d.say(Broken, "sessions", fmt.Sprintf("%s is damaged: line %d (damaged lines: %d)", f.File, f.Lines[0], len(f.Lines)),
			"the messages are shown as damaged; check the disk, and restore the file from a backup: nanobot backup restore")
	}

	if file := journal.Damaged(l.DataDir); file != "" {
		d.say(Doubt, "sessions", "messages on their way were damaged on the disk; what is left of them is in "+file,
			"check the disk, send again what was not answered, and remove the file")
	}

	for _, file := range origin.Damaged(datadir.Origin.In(l.DataDir)) {
		d.say(Doubt, "origin", "the record of which files came from outside was damaged on the disk; the damaged lines are in "+file,
			"check the disk; if files of yours count as from outside now, review and trust them: nanobot trust . ; then remove the file")
	}

	for _, file := range undoDamage(l.DataDir) {
		d.say(Doubt, "undo", "a log of file changes was damaged on the disk, so some turns are not undone; the damaged entries are in "+file,
			"check the disk and remove the file; the turns concerned say so: nanobot undo --list")
	}
}

// undoDamage lists the files with damaged entries of all logs of file changes, of the
// owner's workspaces and of guests.
func undoDamage(data string) []string {
	records, _ := filepath.Glob(datadir.Undo.In(data, "*")) // the patterns are well-formed
	guests, _ := filepath.Glob(datadir.Guests.In(data, "*", "undo"))
	var found []string
	for _, dir := range append(records, guests...) {
		found = append(found, change.Damaged(dir)...)
	}
	return found
}

// waiting looks for conversations of Python nanobot, or of another program, that
// are not imported.
func (d *Diagnosis) waiting(ctx context.Context, l *config.Loaded, ws string) {
	found, first, err := app.Waiting(ctx, l, ws)
	if err != nil {
		d.say(Doubt, "sessions.import", "not all conversations in the workspace can be read: "+err.Error(), "correct or remove those files")
	}

	if len(found) == 0 {
		return
	}

	list := names(found, func(u session.Unimported) string { return fmt.Sprintf("%s (%d)", text.Label(u.Key, 60), u.Messages) })
	if first {
		d.say(Doubt, "sessions.import", "conversations that are not imported yet: "+list, "the next start imports them, for example: nanobot sessions list")
		return
	}
	d.say(Doubt, "sessions.import", "messages of another program that nanobot does not use: "+list, "review and import them with: nanobot migrate")
}

// written looks for jobs and history entries that another program wrote into the
// workspace and that are not imported.
func (d *Diagnosis) written(ctx context.Context, l *config.Loaded, w *session.Workspace) {
	jobs, err := app.WaitingJobs(ctx, l, w)
	if err != nil {
		d.say(Doubt, "schedule.workspace", err.Error(), "correct or remove the file")
	}
	if len(jobs) > 0 {
		d.say(Doubt, "schedule.workspace", "jobs that another program added or changed in the workspace, and that nothing runs: "+names(jobs, func(j schedule.Unimported) string { return j.Name }),
			"review and import them with: nanobot migrate")
	}

	if w.Entry.Imported[memory.KindHistory].IsZero() {
		return // the next start imports all of it
	}

	entries, err := app.WaitingHistory(ctx, l, w)
	if err != nil {
		d.say(Doubt, "memory.import", err.Error(), "correct or remove the file")
	}
	if len(entries) > 0 {
		d.say(Doubt, "memory.import", fmt.Sprintf("history entries of another program in the workspace that nanobot does not use: %d", len(entries)),
			"review and import them with: nanobot migrate")
	}
}

// oldJobs looks at the jobs of the oldest versions, which stay where they are if
// the workspace had jobs, too.
func (d *Diagnosis) oldJobs(file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		return // there are none, as usual
	}

	var table struct{ Jobs []struct{ Name string } }
	if err := json.Unmarshal(data, &table); err != nil {
		d.say(Doubt, "schedule.old", file+" cannot be read: "+err.Error(), "nothing uses the file; remove it")
		return
	}

	if len(table.Jobs) > 0 {
		d.say(Doubt, "schedule.old", "jobs in "+file+" that nothing runs: "+names(table.Jobs, func(j struct{ Name string }) string { return j.Name }),
			"add those that you need with: nanobot cron add; then remove the file")
	}
}

// names lists what was found, at most ten of it.
func names[T any](all []T, name func(T) string) string {
	const most = 10
	var out []string
	for _, v := range all[:min(len(all), most)] {
		out = append(out, text.Label(name(v), 100))
	}
	if n := len(all) - most; n > 0 {
		out = append(out, fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// overdueAfter is how late a job may be before that says something.
const overdueAfter = 10 * time.Minute

func (d *Diagnosis) jobs(ctx context.Context, l *config.Loaded, ws string, running bool, now time.Time) {
	d.workspaces(l)
	d.rot(ctx, l)
	d.waiting(ctx, l, ws)
	old := "" // jobs of the oldest versions, which belong to the configured workspace
	if own, err := app.Workspace("", l); err == nil && own == ws {
		old = datadir.Cron.In(l.DataDir, "jobs.json")
	}

	w, seen, err := session.Find(app.State(l, nil), l.DataDir, ws)
	switch {
	case err != nil:
		d.say(Broken, "workspaces", err.Error(), "the next start recreates it from the files next to the conversations")
		return
	case !seen || w.Entry.Imported[takeover.KindJobs].IsZero():
		for _, file := range []string{filepath.Join(ws, "cron", "jobs.json"), old} {
			if exists(file) {
				d.say(Doubt, "schedule", "the jobs in "+file+" are not imported yet", "the next start imports them, for example: nanobot cron list")
				return
			}
		}

	default:
		d.oldJobs(old)
		d.written(ctx, l, w)
	}

	if !seen || !exists(schedule.Place(app.State(l, nil), w.ID).Where("jobs.json")) {
		d.say(Well, "schedule", "there are no jobs", "")
		return
	}

	s, err := schedule.Open(app.ScheduleOptions(l, w))
	if err != nil {
		d.say(Broken, "schedule", err.Error(), "")
		return
	}

	jobs, err := s.List(ctx)
	if err != nil {
		d.say(Broken, "schedule", err.Error(), "")
		return
	}

	late, on := []string{}, 0
	for _, j := range jobs {
		if !j.Enabled {
			continue
		}

		on++
		if why := j.Broken(); why != "" {
			d.say(Broken, "schedule."+j.ID, j.Name+": "+why, "correct it with: nanobot cron edit "+j.ID)
		}
		if next := j.State.NextRunAtMS; next > 0 && now.Sub(next.Time()) > overdueAfter {
			late = append(late, j.Name)
		}
		if j.State.ErrorsInRow > 0 {
			d.say(Doubt, "schedule."+j.ID, fmt.Sprintf("%s failed %d times in a row: %s", j.Name, j.State.ErrorsInRow, j.State.LastError), "see: nanobot cron history "+j.ID)
		}
	}

	switch {
	case len(late) > 0 && !running:
		d.say(Doubt, "schedule", "overdue, because no gateway is running: "+strings.Join(late, ", "), "start one with: nanobot gateway start")
	case len(late) > 0:
		d.say(Doubt, "schedule", "overdue: "+strings.Join(late, ", "), "see: nanobot cron list")
	default:
		d.say(Well, "schedule", fmt.Sprintf("%d jobs are enabled, none is overdue", on), "")
	}
}

// Bounds of looking into logs of lines.
const (
	checkedLogs  = 50
	checkedBytes = 256 << 20
)

// logs reads the newest files of lines below a folder and makes sure that
// every line is JSON.
func (d *Diagnosis) logs(id, dir, repair string) {
	files := newest(dir, ".jsonl", checkedLogs)
	if len(files) == 0 {
		d.say(Well, id, "there is nothing yet", "")
		return
	}

	left := int64(checkedBytes)
	read, bad, torn := 0, []string{}, []string{}
	for _, file := range files {
		if left <= 0 {
			break
		}

		read++
		n, whole, good := checkLines(file)
		left -= n

		switch {
		case !good:
			bad = append(bad, file)
		case !whole:
			torn = append(torn, file)
		}
	}

	switch {
	case len(bad) > 0:
		d.say(Broken, id, "invalid JSON lines in "+strings.Join(bad, ", "), "keep a copy, then remove those lines, or restore a backup")
	case len(torn) > 0:
		d.say(Doubt, id, "an incomplete last line in "+strings.Join(torn, ", "), repair)
	default:
		d.say(Well, id, fmt.Sprintf("the newest %d files are intact", read), "")
	}
}

// newest returns the files below a folder with an ending, the newest first.
func newest(dir, ext string, most int) []string {
	type stamped struct {
		path string
		at   time.Time
	}
	var all []*stamped
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.HasSuffix(path, ext) {
			if info, err := e.Info(); err == nil {
				all = append(all, &stamped{path, info.ModTime()})
			}
		}
		return nil
	})

	slices.SortStableFunc(all, func(a, b *stamped) int { return b.at.Compare(a.at) })
	var out []string
	for _, s := range all[:min(most, len(all))] {
		out = append(out, s.path)
	}
	return out
}

// checkLines reads a file and reports its size, whether its last line is whole
// and whether all whole lines are JSON.
func checkLines(file string) (n int64, whole, good bool) {
	f, err := os.Open(file)
	if err != nil {
		return 0, true, diskio.IsMissing(err)
	}

	defer f.Close() //nolint:errcheck // only read
	whole, good = true, true
	for line, err := range diskio.Lines(f, 0) {
		if err != nil {
			return n, whole, false
		}

		n = line.End()
		if !line.Whole {
			whole = false
		} else if len(line.Bytes) > 0 && !json.Valid(line.Bytes) {
			good = false
		}
	}

	return n, whole, good
}
