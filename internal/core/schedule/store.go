package schedule

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// jobStore is jobs.json. Every change is one transaction: lock, read, change,
// write, unlock. So several processes can work on it, and what a person edits
// by hand counts from the next transaction on. The workspace has a copy, which
// is never read back. The zero value is not usable.
type jobStore struct {
	state     store.Store
	workspace string // "" is without a copy
	log       *slog.Logger
	now       func() time.Time
	// repaired is called after the transaction with the name under which a damaged
	// file was saved when the good copy replaced it.
	repaired func(ctx context.Context, aside string)

	mu     sync.Mutex // one transaction of this process at a time
	warned bool       // of jobs that another program wrote into the copy
}

// CorruptError says that jobs.json cannot be read and that there is no good copy.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s cannot be read: %v; mend it, or move it away to start without jobs", e.Path, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// lockWait is how long a transaction waits for other processes.
const lockWait = 10 * time.Second

// goodCopy is the copy of the last definitions that could be read.
const goodCopy = "jobs.json.good"

const fileJobs = "jobs.json"

// tableLock is held by whoever changes the jobs.
const tableLock = ".lock"

func newStore(state store.Store, workspace string, log *slog.Logger, now func() time.Time) *jobStore {
	return &jobStore{state: state, workspace: workspace, log: log, now: now}
}

// table is the content of jobs.json during a transaction.
type table struct {
	Version int    `json:"version"`
	Jobs    []*Job `json:"jobs"`

	extra   extra
	version store.Version // of the document it was read from
	changed bool          // state of jobs
	defined bool          // jobs themselves, so that the good copy is renewed
	repair  string
}

type plainTable table

// find returns the job with an id, or nil.
func (t *table) find(id string) *Job {
	for _, j := range t.Jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (t *table) remove(id string) {
	t.Jobs = slices.DeleteFunc(t.Jobs, func(j *Job) bool { return j.ID == id })
}

// update runs one transaction. What fn changed is written when it returns nil
// and has set changed or defined.
func (s *jobStore) update(ctx context.Context, fn func(*table) error) error {
	aside, err := s.transact(ctx, fn)
	if aside != "" {
		s.repaired(ctx, aside)
	}
	return err
}

// transact is update without the word about a repair. A file that is being
// edited at this very moment is read again.
func (s *jobStore) transact(ctx context.Context, fn func(*table) error) (aside string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	release, err := store.WaitLock(ctx, s.state, tableLock, lockWait)
	if err != nil {
		return "", err
	}

	defer func() { err = errors.Join(err, release()) }()
	for {
		t, err := s.load(ctx)
		if err != nil {
			return "", err
		}

		if t.repair != "" { // whatever comes of the rest
			if err := s.save(ctx, t); err != nil {
				return t.repair, err
			}
		}

		if err := fn(t); err != nil || !t.changed && !t.defined {
			return t.repair, err
		}
		if err := s.save(ctx, t); !errors.Is(err, store.ErrChanged) {
			return t.repair, err
		}
	}
}

// Read returns the jobs as they are.
func (s *jobStore) Read(ctx context.Context) ([]*Job, error) {
	data, ok := s.peek(ctx)
	if !ok && s.empty(ctx) {
		return nil, nil
	}

	if ok {
		if t, err := decodeTable(data); err == nil {
			return t.Jobs, nil
		}
	}

	var jobs []*Job
	err := s.update(ctx, func(t *table) error {
		jobs = t.Jobs
		return nil
	})
	return jobs, err
}

// peek reads the jobs without a lock, which is enough for looking because they
// are only ever replaced as a whole.
func (s *jobStore) peek(ctx context.Context) ([]byte, bool) {
	data, version, err := s.state.Doc(ctx, fileJobs)
	return data, err == nil && version != store.Missing
}

// empty reports whether there never was a job.
func (s *jobStore) empty(ctx context.Context) bool {
	i, err := s.state.Stat(ctx, fileJobs)
	return err == nil && !i.Exists()
}

// load reads jobs.json. One that is damaged is kept beside it and the last
// good copy is used; without a copy nothing is touched and the error says so.
func (s *jobStore) load(ctx context.Context) (*table, error) {
	data, version, err := s.state.Doc(ctx, fileJobs)
	if err != nil {
		return nil, err
	}
	if version == store.Missing {
		return &table{Version: 1}, nil
	}

	t, err := decodeTable(data)
	if err == nil {
		t.version = version
		return t, nil
	}

	good, _, gerr := s.state.Doc(ctx, goodCopy)
	if gerr == nil {
		t, gerr = decodeTable(good)
	}

	if gerr != nil {
		return nil, &CorruptError{Path: s.state.Where(fileJobs), Err: err}
	}

	aside := fmt.Sprintf("%s.corrupt-%d", fileJobs, s.now().Unix())
	// A copy, so that there is a file at every moment: without one there would
	// be no jobs.
	if _, err := s.state.Put(ctx, aside, data, store.Any, true); err != nil {
		return nil, err
	}

	t.version, t.repair = version, s.state.Where(aside)
	s.log.ErrorContext(ctx, "jobs.json was damaged and the last good copy is used", "damaged", t.repair, "jobs", len(t.Jobs), "err", err)
	return t, nil
}

func decodeTable(data []byte) (*table, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var raw struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	t := &table{}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}

	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil || all["jobs"] == nil {
		return nil, errors.Join(errors.New(`there is no list "jobs"`), err)
	}

	if json.Unmarshal(all["version"], &t.Version) != nil || t.Version == 0 {
		t.Version = 1
	}

	delete(all, "version")
	delete(all, "jobs")
	t.extra = all
	for _, r := range raw.Jobs {
		t.Jobs = append(t.Jobs, decodeJob(r))
	}
	return t, nil
}

// decodeJob reads an entry. One that cannot be used stays as it is and says why.
func decodeJob(raw json.RawMessage) *Job {
	j := &Job{}
	err := json.Unmarshal(raw, j)
	if err == nil && j.ID == "" {
		err = errors.New("it has no id")
	}

	if err != nil {
		return &Job{ID: j.ID, Name: j.Name, broken: bytes.Clone(raw), State: State{LastError: Opt("this entry cannot be read: " + err.Error())}}
	}

	if j.Payload.Kind == "" {
		j.Payload.Kind = payloadTurn
	}
	return j
}

func (s *jobStore) save(ctx context.Context, t *table) error {
	if t.Jobs == nil {
		t.Jobs = []*Job{}
	}

	data, err := t.encode()
	if err != nil {
		return err
	}
	if t.version, err = s.state.Put(ctx, fileJobs, data, t.version, true); err != nil {
		return fmt.Errorf("keep the jobs: %w", err)
	}

	if t.defined || t.repair != "" {
		if err := s.saveGood(ctx, data); err != nil {
			return fmt.Errorf("keep a copy of the jobs: %w", err)
		}
	}
	return s.mirror(ctx, t)
}

// encode returns the table as its file holds it.
func (t *table) encode() ([]byte, error) {
	flat, err := writeObject((*plainTable)(t), t.extra)
	if err != nil {
		return nil, err
	}

	var data bytes.Buffer
	if err := json.Indent(&data, flat, "", "  "); err != nil {
		return nil, err
	}

	data.WriteByte('\n')
	return data.Bytes(), nil
}

// saveGood renews the good copy unless it holds the very bytes: a start finds
// most as the last one left it and need not make the disk work.
func (s *jobStore) saveGood(ctx context.Context, data []byte) error {
	if old, _, err := s.state.Doc(ctx, goodCopy); err == nil && bytes.Equal(old, data) {
		return nil
	}
	_, err := s.state.Put(ctx, goodCopy, data, store.Any, true)
	return err
}

func (t *table) act(line []byte) error {
	var a struct {
		Action string          `json:"action"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return err
	}

	switch a.Action {
	case "del":
		var p struct {
			JobID string `json:"job_id"`
		}
		if err := json.Unmarshal(a.Params, &p); err != nil {
			return err
		}
		if j := t.find(p.JobID); j != nil && j.Protected() {
			return errors.New("a system job stays")
		}
		t.remove(p.JobID)

	case "add", "update":
		j := decodeJob(a.Params)
		if j.broken != nil {
			return errors.New(string(j.State.LastError))
		}
		if j.Protected() {
			return errors.New("a system job is not changed this way")
		}

		old := t.find(j.ID)
		switch {
		case old == nil:
			t.Jobs = append(t.Jobs, j)
		case old.Protected():
			return errors.New("a system job is not changed this way")
		default:
			*old = *j
		}

	default:
		return fmt.Errorf("the action %q is not known", a.Action)
	}

	return nil
}

// newID returns the first half of a random UUID, as the original makes them.
func newID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
