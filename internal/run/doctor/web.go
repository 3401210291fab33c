package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/datadir"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/web/subject"
)

// Web runs the checks of doctor and doctor security for the web interface.
type Web struct{ Options app.Options }

const securityPrefix = "security."

// Run implements subject.Checks.
func (w Web) Run(ctx context.Context, network bool, found func(subject.Finding)) {
	d := &Diagnosis{offline: !network, found: func(s Symptom) { found(s.finding()) }}
	d.examine(ctx, w.Options)
	r, err := Security(ctx, w.Options)
	if err != nil {
		found(subject.Finding{ID: "security", State: string(Broken), Detail: err.Error()})
	}
	for _, c := range r.Findings() {
		found(c.finding())
	}
}

// finding returns a symptom for a page.
func (s Symptom) finding() subject.Finding {
	f := subject.Finding{ID: s.ID, State: string(s.State), Detail: s.Detail, Fix: s.Fix, Changes: modeChanges(s.Mode)}
	for _, dir := range s.Make {
		f.Changes = append(f.Changes, "mkdir "+dir)
	}
	return f
}

// finding returns a check that found something, for a page.
func (c Check) finding() subject.Finding {
	f := subject.Finding{ID: securityPrefix + c.ID, State: string(Doubt), Detail: c.Detail, Fix: c.Fix}
	if c.Severity == Critical || c.Severity == High {
		f.State = string(Broken)
	}

	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		f.Changes = append(f.Changes, "set "+name+" "+c.Set[name])
	}

	if f.Changes = append(f.Changes, modeChanges(c.Mode)...); c.Do != nil {
		f.Changes = append(f.Changes, c.Fix)
	}
	return f
}

func modeChanges(modes map[string]fs.FileMode) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		out = append(out, fmt.Sprintf("chmod %04o %s", modes[name].Perm(), name))
	}
	return out
}

// Fix implements subject.Checks. It looks again, so that it changes what was shown.
func (w Web) Fix(ctx context.Context, id string, changes []string) (bool, error) {
	same := func(f subject.Finding) bool { return f.ID == id && slices.Equal(f.Changes, changes) }
	if strings.HasPrefix(id, securityPrefix) {
		r, err := Security(ctx, w.Options)
		if err != nil {
			return false, err
		}
		r.Checks = slices.DeleteFunc(r.Checks, func(c Check) bool { return !same(c.finding()) })
		done, err := r.Fix(ctx, w.Options.Config)
		return len(done) > 0, err
	}

	d := Checkup(ctx, w.Options)
	d.Symptoms = slices.DeleteFunc(d.Symptoms, func(s Symptom) bool { return !same(s.finding()) })
	done, err := d.Fix()
	return len(done) > 0, err
}

// Bundle implements subject.Checks.
func (w Web) Bundle(ctx context.Context) (string, error) {
	d := Examine(ctx, w.Options, true)
	dir := "" // of the system, if no configuration says where ours is
	if d.Config != nil {
		dir = datadir.Run.In(d.Config.DataDir)
	}

	dir, err := os.MkdirTemp(dir, "bundle-")
	if err != nil {
		return "", err
	}

	file := filepath.Join(dir, "nanobot-doctor.zip")
	if err := d.WriteBundle(file, d.Report(w.Options.Version, nil), w.Options.Env); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return file, nil
}
