package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/base/store/storetest"
)

// pythonJobs writes the jobs of a workspace as Python nanobot 0.1.5 does: the whole
// file, with the keys that it knows.
type pythonJobs struct {
	ws    string
	n     int
	wrote map[string]string // messages that it wanted, by id
}

type pythonJob struct {
	ID             string         `json:"id"`
	Name           string         `json:"name"`
	Enabled        bool           `json:"enabled"`
	Schedule       pythonSchedule `json:"schedule"`
	Payload        pythonPayload  `json:"payload"`
	State          map[string]any `json:"state"`
	CreatedAtMS    int64          `json:"createdAtMs"`
	UpdatedAtMS    int64          `json:"updatedAtMs"`
	DeleteAfterRun bool           `json:"deleteAfterRun"`
}

type pythonSchedule struct {
	Kind    string  `json:"kind"`
	AtMS    *int64  `json:"atMs"`
	EveryMS *int64  `json:"everyMs"`
	Expr    *string `json:"expr"`
	TZ      *string `json:"tz"`
}

type pythonPayload struct {
	Kind    string  `json:"kind"`
	Message string  `json:"message"`
	Deliver bool    `json:"deliver"`
	Channel *string `json:"channel"`
	To      *string `json:"to"`
}

func (py *pythonJobs) change(t *testing.T, fn func(jobs []pythonJob) []pythonJob) {
	t.Helper()
	var file struct {
		Version int         `json:"version"`
		Jobs    []pythonJob `json:"jobs"`
	}
	data, err := os.ReadFile(filepath.Join(py.ws, filepath.FromSlash(oldJobs)))
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	file.Version, file.Jobs = 1, fn(file.Jobs)
	if data, err = json.MarshalIndent(file, "", "  "); err != nil {
		t.Fatal(err)
	}
	put(t, py.ws, oldJobs, string(data))
}

func (py *pythonJobs) add(t *testing.T) {
	t.Helper()
	py.n++
	every := int64(3600000)
	id, message := fmt.Sprintf("python%d", py.n), fmt.Sprintf("of Python, %d", py.n)
	py.wrote[id] = message
	py.change(t, func(jobs []pythonJob) []pythonJob {
		return append(jobs, pythonJob{
			ID: id, Name: id, Enabled: true, State: map[string]any{},
			Schedule: pythonSchedule{Kind: kindEvery, EveryMS: &every}, Payload: pythonPayload{Kind: payloadTurn, Message: message},
		})
	})
}

// run notes runs of all jobs, which changes their state alone.
func (py *pythonJobs) run(t *testing.T) {
	t.Helper()
	py.n++
	py.change(t, func(jobs []pythonJob) []pythonJob {
		for i := range jobs {
			jobs[i].State = map[string]any{"lastRunAtMs": py.n, "nextRunAtMs": py.n + 1000, "lastStatus": "ok"}
		}
		return jobs
	})
}

func (py *pythonJobs) edit(t *testing.T, r *rand.Rand) {
	t.Helper()
	py.n++
	py.change(t, func(jobs []pythonJob) []pythonJob {
		if len(jobs) > 0 {
			j := &jobs[r.IntN(len(jobs))]
			j.Payload.Message = fmt.Sprintf("changed by Python, %d", py.n)
			py.wrote[j.ID] = j.Payload.Message
		}
		return jobs
	})
}

// Whatever the order in which both programs write, a job that Python added or
// changed is here as Python wanted it or, if it is not, still in its file and named
// as waiting. What was removed or changed here does not come back.
func TestAlternatingJobs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 29))
			ws, open := t.TempDir(), storetest.Memory()
			py := &pythonJobs{ws: ws, wrote: map[string]string{}}
			py.add(t)
			s := plain(t, open, ws)
			if _, err := s.TakeOver(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			var trail []string
			for i := range 40 {
				here, err := s.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				what := r.IntN(8)
				switch what {
				case 0, 1:
					py.add(t)
				case 2:
					py.run(t)
				case 3:
					py.edit(t, r)
				case 4:
					addJob(t, s, fmt.Sprintf("ours %d", i))
				case 5:
					if len(here) > 0 {
						id := here[r.IntN(len(here))].ID
						if _, err := s.Remove(t.Context(), id); err != nil {
							t.Fatal(err)
						}
						if waits := slices.ContainsFunc(unimported(t, s), func(u Unimported) bool { return u.ID == id }); !waits {
							delete(py.wrote, id) // its last wish was removed here
						}
					}
				case 6:
					s = plain(t, open, ws)
				case 7:
					_, state, err := s.Unimported(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if state == "" {
						break
					}
					if _, err := s.Import(t.Context(), state); err != nil {
						t.Fatal(err)
					}
					if left := unimported(t, s); len(left) > 0 {
						t.Fatalf("%d jobs wait after the import: %q", len(left), trail)
					}
				}
				trail = append(trail, fmt.Sprint(what))
				py.check(t, s, trail)
			}
		})
	}
}

func unimported(t *testing.T, s *Scheduler) []Unimported {
	t.Helper()
	jobs, _, err := s.Unimported(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func (py *pythonJobs) check(t *testing.T, s *Scheduler, trail []string) {
	t.Helper()
	here, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	waiting := unimported(t, s)
	file, err := os.ReadFile(filepath.Join(py.ws, filepath.FromSlash(oldJobs)))
	if err != nil {
		t.Fatal(err)
	}
	for id, message := range py.wrote {
		taken := slices.ContainsFunc(here, func(j Job) bool { return j.ID == id && j.Payload.Message == message })
		named := slices.ContainsFunc(waiting, func(u Unimported) bool { return u.ID == id && u.Payload.Message == message })
		inFile := strings.Contains(string(file), `"`+message+`"`)
		if taken == named || !taken && !inFile {
			t.Fatalf("%s %q: here %v, waiting %v, in the file %v: %q", id, message, taken, named, inFile, trail)
		}
	}
	for _, u := range waiting {
		if py.wrote[u.ID] != u.Payload.Message {
			t.Fatalf("%s %q waits, which Python did not write: %q", u.ID, u.Payload.Message, trail)
		}
	}
}

// Python writes the state of the jobs that it runs. That is no reason to stop
// writing the copy.
func TestRunsOfPythonDoNotHoldTheCopy(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	py := &pythonJobs{ws: ws, wrote: map[string]string{}}
	s := plain(t, storetest.Disk, ws)
	addJob(t, s, "first")
	py.run(t)
	addJob(t, s, "second")
	data, err := os.ReadFile(filepath.Join(ws, filepath.FromSlash(oldJobs)))
	if err != nil || !strings.Contains(string(data), "second") {
		t.Errorf("the copy is not written any more: %s %v", data, err)
	}
}

// Jobs that a second Python process left in action.jsonl are imported once.
func TestActionsAreImportedOnce(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	s := plain(t, storetest.Disk, ws)
	addJob(t, s, "first")
	put(t, ws, oldActions, `{"action":"add","params":`+goneJob+`}`+"\n")
	waiting, state, err := s.Unimported(t.Context())
	if err != nil || len(waiting) != 1 || waiting[0].Changed {
		t.Fatalf("waiting: %+v %v", waiting, err)
	}
	if n, err := s.Import(t.Context(), state); n != 1 || err != nil {
		t.Fatalf("imported %d: %v", n, err)
	}
	if _, err := s.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	addJob(t, s, "second")
	addJob(t, s, "third")
	if again := unimported(t, s); len(again) > 0 {
		t.Errorf("a job that was removed waits again: %+v", again)
	}
}
