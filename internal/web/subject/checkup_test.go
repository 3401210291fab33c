package subject_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nanobot-go/nanobot/internal/web/subject"
)

type fakeChecks struct {
	found []subject.Finding
	fixed []string
}

func (c *fakeChecks) Run(_ context.Context, network bool, found func(subject.Finding)) {
	for _, f := range c.found {
		f.Detail += fmt.Sprint(" ", network)
		found(f)
	}
}

func (c *fakeChecks) Fix(_ context.Context, id string, _ []string) (bool, error) {
	if id == "stuck" {
		return false, errors.New("not permitted")
	}
	c.fixed = append(c.fixed, id)
	return true, nil
}

func (c *fakeChecks) Bundle(context.Context) (string, error) { return "", errors.New("no room") }

// Each finding is told at once, and only what was shown is changed.
func TestDoctor(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.checks.found = []subject.Finding{
		{ID: "config", State: "ok", Detail: "with sk-hush-0123456789"},
		{ID: "files", State: "fail", Changes: []string{"chmod 0600 a"}},
		{ID: "stuck", State: "fail", Changes: []string{"mkdir b"}},
	}
	if _, status := do(t, d.Desk, "doctor.run", `{"network":true}`); status != 200 {
		t.Fatalf("run = %d", status)
	}
	for range 4 { // three findings and the end
		if topic := <-d.told; topic != "doctor" {
			t.Errorf("told %s", topic)
		}
	}
	d.work.Wait()
	if code, body := get(t, d.Desk, "/api/doctor"); code != 200 || !strings.Contains(body, "[redacted:key] true") || !strings.Contains(body, `"running":false`) {
		t.Errorf("doctor = %d %s", code, body)
	}
	for _, c := range []struct {
		payload string
		want    int
	}{
		{`{"id":"config","changes":[]}`, 409},
		{`{"id":"files","changes":["chmod 0777 a"]}`, 409},
		{`{"id":"files","changes":["chmod 0600 a"]}`, 200},
		{`{"id":"files","changes":["chmod 0600 a"]}`, 409},
		{`{"id":"stuck","changes":["mkdir b"]}`, 422},
	} {
		if msg, status := do(t, d.Desk, "doctor.fix", c.payload); status != c.want {
			t.Errorf("%s = %d %s, want %d", c.payload, status, msg, c.want)
		}
	}
	if len(d.checks.fixed) != 1 {
		t.Errorf("fixed %v", d.checks.fixed)
	}
}
