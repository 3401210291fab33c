package schedule

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// NameError says that no job, or more than one, has the name.
type NameError struct{ Problem string }

// Error implements error.
func (e *NameError) Error() string { return e.Problem }

// FindJob finds the job a person means by an id, the beginning of one, or a name.
func FindJob(all []Job, id string) (Job, error) {
	var found []Job
	for i := range all {
		job := &all[i]
		if job.ID == id {
			return *job, nil
		}
		if strings.HasPrefix(job.ID, id) || strings.EqualFold(job.Name, id) {
			found = append(found, *job)
		}
	}

	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Job{}, &NameError{fmt.Sprintf("there is no job %q; nanobot cron list --all shows them", id)}
	}
	return Job{}, &NameError{fmt.Sprintf("%q matches %d jobs; use the whole id", id, len(found))}
}

// LastRun returns the latest run of a job that is kept.
func LastRun(j *Job) Run {
	if n := len(j.State.RunHistory); n > 0 {
		return j.State.RunHistory[n-1]
	}
	return Run{}
}

// AwaitRun waits until a job has run after the run before and returns that run.
func AwaitRun(ctx context.Context, s *Scheduler, id string, before Run) (Run, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := s.Get(ctx, id)
		if err != nil {
			return Run{}, fmt.Errorf("the job was started, but its result is unknown: %w", err) // a single run is removed with its job
		}
		if r := LastRun(&now); r.RunAtMS != before.RunAtMS && now.State.Pending == nil {
			return r, nil
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return Run{}, ctx.Err()
		}
	}
}

// ParseInterval reads a number of seconds or a length such as 20m.
func ParseInterval(s string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 && n < 1e10 {
		return time.Duration(n * float64(time.Second)), nil
	}

	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}

	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not an interval; use seconds, or a length such as 20m, 2h, 1d", s)
	}
	return d, nil
}
