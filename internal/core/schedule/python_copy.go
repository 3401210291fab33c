package schedule

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/diskio"
	"github.com/nanobot-go/nanobot/internal/base/store"
)

// Unimported is a job that another program wrote into the workspace.
type Unimported struct {
	Job
	Changed bool // the store has a job of this id that differs
}

// Unimported returns the jobs that another program added or changed in the workspace, as
// they stand there, and a word about the files that hold them, to be given to Take.
// It changes nothing.
func (s *Scheduler) Unimported(ctx context.Context) (jobs []Unimported, state string, err error) {
	c, err := s.store.readCopy(ctx)
	if err != nil || c == nil {
		return nil, "", err
	}

	have, err := s.store.Read(ctx)
	if err != nil {
		return nil, "", err
	}

	ours := table{Jobs: have}
	for _, j := range c.others(&ours) {
		if j.broken != nil {
			err = errors.Join(err, fmt.Errorf("%s: the job %q cannot be read: %s", filepath.Join(s.Workspace, filepath.FromSlash(oldJobs)), j.Name, j.Broken()))
			continue
		}
		jobs = append(jobs, Unimported{Job: *j, Changed: ours.find(j.ID) != nil})
	}

	return jobs, c.sum, err
}

// Import adds what Unimported showed. If a file was changed since, nothing is
// imported.
func (s *Scheduler) Import(ctx context.Context, state string) (n int, err error) {
	var c *jobCopy
	err = s.store.update(ctx, func(t *table) error {
		n = 0
		if c, err = s.store.readCopy(ctx); err != nil {
			return err
		}
		if c == nil || c.sum != state {
			return errors.New("the jobs in the workspace were changed meanwhile; look again")
		}

		for _, j := range c.others(t) {
			if j.broken != nil {
				continue
			}

			switch old := t.find(j.ID); {
			case old == nil:
				t.Jobs = append(t.Jobs, j)
			case old.broken != nil:
				*old = *j
			default:
				old.define(j)
			}

			n++
		}

		t.defined = true
		return nil
	})
	if err != nil {
		return 0, err
	}

	s.poke()
	return n, s.store.tookActions(ctx, c.actions) // after the jobs: else a crash between would lose them
}

// jobCopy holds what the workspace holds of jobs.
type jobCopy struct {
	jobs    *table
	actions []byte
	sum     string // of both files
	last    copies
}

// readCopy reads the jobs that the workspace holds now; nil if there are none.
func (s *jobStore) readCopy(ctx context.Context) (*jobCopy, error) {
	tree, err := diskio.OpenTree(s.workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	defer tree.Close() //nolint:errcheck // only read from
	data, err := tree.ReadFile(oldJobs, maxOldFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	actions, err := tree.ReadFile(oldActions, maxOldFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if data == nil && actions == nil {
		return nil, nil
	}

	c := &jobCopy{jobs: &table{Version: 1}, actions: actions, sum: hashOf(data) + hashOf(actions), last: s.lastCopies(ctx)}
	if data != nil {
		if c.jobs, err = decodeTable(data); err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(s.workspace, filepath.FromSlash(oldJobs)), err)
		}
	}

	if c.last.Actions != hashOf(actions) {
		for line := range bytes.Lines(actions) {
			_ = c.jobs.act(line) // what cannot be read is not shown
		}
	}
	return c, nil
}

// others returns the jobs that another program added or changed: those that are
// neither what the store has nor what it wrote there last.
func (c *jobCopy) others(ours *table) (out []*Job) {
	for _, j := range c.jobs.own() {
		sum := j.definition()
		have := ours.find(j.ID)
		switch {
		case j.broken != nil && slices.ContainsFunc(ours.Jobs, func(o *Job) bool { return bytes.Equal(o.broken, j.broken) }):
		case have != nil && (have.Protected() || have.definition() == sum):
		case c.last.wrote(j.ID, sum):
		default:
			out = append(out, j)
		}
	}
	return out
}

// definition tells apart what a job does and when, as far as the Python version
// knows it. Other keys are lost when that writes the file.
func (j *Job) definition() string {
	if j.broken != nil {
		return hashOf(j.broken)
	}
	data, _ := json.Marshal([]any{ // plain values
		j.Name, j.Enabled, j.DeleteAfterRun,
		j.Schedule.Kind, j.Schedule.AtMS, j.Schedule.EveryMS, j.Schedule.Expr, j.Schedule.TZ,
		j.Payload.Kind, j.Payload.Message, j.Payload.Deliver, j.Payload.Channel, j.Payload.To,
	})
	return hashOf(data)
}

// define makes a job do what another program wants it to. What only we know of it
// stays.
func (j *Job) define(o *Job) {
	j.Name = o.Name
	j.Enabled = o.Enabled
	j.DeleteAfterRun = o.DeleteAfterRun
	j.Schedule = o.Schedule
	j.Payload.Kind = o.Payload.Kind
	j.Payload.Message = o.Payload.Message
	j.Payload.Deliver = o.Payload.Deliver
	j.Payload.Channel = o.Payload.Channel
	j.Payload.To = o.Payload.To
	j.UpdatedAtMS = o.UpdatedAtMS
	j.State.NextRunAtMS = 0 // of the timing before
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Written returns when jobs were last written to a workspace, by any program.
func Written(workspace string) (last time.Time) {
	tree, err := diskio.OpenTree(workspace)
	if err != nil {
		return last
	}

	defer tree.Close() //nolint:errcheck // only looked at
	for _, name := range []string{oldJobs, oldActions} {
		if info, err := tree.Lstat(name); err == nil && info.Mode().IsRegular() && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// fileMirror remembers what the copy in the workspace was last, so that what
// another program wrote is told from it.
const fileMirror = "mirror"

// copies is the content of fileMirror.
type copies struct {
	// Last are the copy that is there and, in case that the process died before
	// it was written, the one before it.
	Last []copyOf `json:"last"`
	// Actions is the hash of the action.jsonl that was imported last.
	Actions string `json:"actions,omitempty"`
}

type copyOf struct {
	Sum  string            `json:"sum"`
	Jobs map[string]string `json:"jobs"` // definitions by id
}

func (c copies) wrote(id, definition string) bool {
	return slices.ContainsFunc(c.Last, func(o copyOf) bool { return o.Jobs[id] == definition })
}

// mirror writes the copy of the jobs into the workspace, for people and for
// other programs. One in which another program added or changed jobs is left
// alone until a person imports them: nothing there is read by itself. Without a
// copy everything works.
//
// The program's own jobs are not in it: another program would run them for
// ever. Nor are answers, which commands in the workspace would read.
func (s *jobStore) mirror(ctx context.Context, t *table) error {
	if s.workspace == "" {
		return nil
	}

	shown := &table{Version: t.Version, Jobs: t.own(), extra: t.extra}
	for i, j := range shown.Jobs {
		if j.State.Last != nil {
			plain := *j
			plain.State.Last = nil
			shown.Jobs[i] = &plain
		}
	}

	data, err := shown.encode()
	if err != nil {
		return err
	}

	switch err := s.writeMirror(ctx, t, data); {
	case errors.Is(err, errForeign):
		if !s.warned {
			s.log.WarnContext(ctx, "another program changed the jobs in the workspace; they are not used, and the copy is not written until they are imported, see: nanobot migrate", "file", oldJobs)
		}
		s.warned = true

	case err != nil && !errors.Is(err, fs.ErrNotExist):
		s.log.WarnContext(ctx, "the copy of the jobs in the workspace was not written", "err", err)
	default:
		s.warned = false
	}

	return nil
}

var errForeign = errors.New("changed by another program")

func (s *jobStore) writeMirror(ctx context.Context, t *table, data []byte) error {
	tree, err := diskio.OpenTree(s.workspace)
	if err != nil {
		return err
	}

	defer tree.Close() //nolint:errcheck // nothing is pending

	var old []byte
	f, err := tree.Open(oldJobs)
	switch {
	case err == nil:
		defer f.Close() //nolint:errcheck // only read
		if old, err = io.ReadAll(io.LimitReader(f, maxOldFile)); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}

	switch {
	case f != nil && bytes.Equal(old, data):
		return nil
	case f != nil && s.isForeign(ctx, t, old):
		return errForeign
	}

	if err := s.mirrored(ctx, data); err != nil {
		return err
	}
	if err := tree.MkdirAll(path.Dir(oldJobs), 0o700); err != nil {
		return err
	}
	if err := tree.WriteFile(oldJobs, data, 0o600); err != nil {
		return err
	}
	if f == nil {
		return nil
	}

	// What was written over the old file between the look and now is not lost.
	late, err := io.ReadAll(io.NewSectionReader(f, 0, maxOldFile))
	if err != nil || bytes.Equal(late, old) || !s.isForeign(ctx, t, late) {
		return err
	}
	if err := tree.WriteFile(oldJobs, late, 0o600); err != nil {
		return err
	}
	return errForeign
}

// isForeign reports whether a copy holds something that only it has. What cannot
// be read may be just that.
func (s *jobStore) isForeign(ctx context.Context, t *table, data []byte) bool {
	last := s.lastCopies(ctx)
	if slices.ContainsFunc(last.Last, func(c copyOf) bool { return c.Sum == hashOf(data) }) {
		return false
	}

	theirs, err := decodeTable(data)
	if err != nil {
		return len(bytes.TrimSpace(data)) > 0
	}

	c := &jobCopy{jobs: theirs, last: last}
	return len(c.others(t)) > 0
}

// lastCopies reads fileMirror. Versions before had a hash on each line.
func (s *jobStore) lastCopies(ctx context.Context) (c copies) {
	data, _, err := s.state.Doc(ctx, fileMirror)
	if err != nil || len(data) == 0 {
		return c
	}
	if json.Unmarshal(data, &c) == nil {
		return c
	}

	for sum := range strings.FieldsSeq(string(data)) {
		c.Last = append(c.Last, copyOf{Sum: sum})
	}
	return c
}

// mirrored remembers a copy, and the one before it in case that the new one is
// not written any more.
func (s *jobStore) mirrored(ctx context.Context, data []byte) error {
	now := copyOf{Sum: hashOf(data), Jobs: map[string]string{}}
	if t, err := decodeTable(data); err == nil { // what is damaged is known by its hash alone
		for _, j := range t.own() {
			now.Jobs[j.ID] = j.definition()
		}
	}

	c := s.lastCopies(ctx)
	c.Last = append([]copyOf{now}, c.Last...)
	c.Last = c.Last[:min(len(c.Last), 2)]
	return s.saveCopies(ctx, c)
}

// tookActions remembers that the entries of action.jsonl are imported.
func (s *jobStore) tookActions(ctx context.Context, actions []byte) error {
	if len(actions) == 0 {
		return nil
	}
	last := s.lastCopies(ctx)
	last.Actions = hashOf(actions)
	return s.saveCopies(ctx, last)
}

func (s *jobStore) saveCopies(ctx context.Context, c copies) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = s.state.Put(ctx, fileMirror, data, store.Any, true)
	return err
}
