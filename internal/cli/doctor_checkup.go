package cli

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/app"
	"github.com/nanobot-go/nanobot/internal/diskio"
	"github.com/nanobot-go/nanobot/internal/doctor"
)

// doctorFlags are the flags of nanobot doctor.
type doctorFlags struct {
	json, fix, offline bool
	bundle             string
}

// doctorJSON is what nanobot doctor --json writes.
type doctorJSON struct {
	Version  string           `json:"version"`
	OK       bool             `json:"ok"`
	Failures int              `json:"failures"`
	Warnings int              `json:"warnings"`
	Fixed    []string         `json:"fixed,omitempty"`
	Checks   []doctor.Symptom `json:"checks"`
}

// checkup looks at everything and tells.
func (c *command) checkup(cmd *cobra.Command, f doctorFlags) error {
	d := c.diagnose(cmd, f)
	var fixed []string
	if f.fix {
		var err error
		if fixed, err = fixSymptoms(d); err != nil {
			return err
		}
		if len(fixed) > 0 {
			d = c.diagnose(cmd, f)
		}
	}
	r := doctorJSON{
		Version: nanobot.Version(), OK: d.Count(doctor.Broken) == 0, Failures: d.Count(doctor.Broken), Warnings: d.Count(doctor.Doubt),
		Fixed: fixed, Checks: d.Symptoms,
	}
	if f.bundle != "" {
		if err := c.writeBundle(f.bundle, d, r); err != nil {
			return err
		}
	}
	if f.json {
		if err := writeJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	} else {
		printCheckup(cmd, r)
		if f.bundle != "" {
			cmd.Printf("Wrote %s. It contains no keys and no conversations; review it before you share it.\n", f.bundle)
		}
	}
	switch {
	case d.Unusable:
		return failure{exitConfig}
	case !r.OK:
		return failure{exitFailure}
	}
	return nil
}

// diagnose looks at this machine and, unless told not to, asks those the
// configuration names.
func (c *command) diagnose(cmd *cobra.Command, f doctorFlags) *doctor.Diagnosis {
	d := doctor.Checkup(cmd.Context(), app.Options{
		Config: c.configOptions(), Workspace: c.workspace, Env: c.Env, Version: nanobot.Version(), Log: c.logger(),
	})
	if d.Config == nil {
		return d
	}
	d.Add(c.serviceSymptom(cmd.Context())...)
	d.Add(c.skillSymptoms()...)
	d.Add(c.proxySymptoms(cmd.Context(), f.offline)...)
	d.Add(c.modelSymptoms(cmd, d.Config, f.offline)...)
	d.Add(c.mcpSymptoms(cmd.Context(), d.Config, f.offline)...)
	return d
}

// fixSymptoms removes what needs no decision: permissions that are too wide
// and folders that are missing.
func fixSymptoms(d *doctor.Diagnosis) ([]string, error) {
	var done []string
	for _, s := range d.Symptoms {
		if !s.Fixable() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(s.Mode)) {
			if err := os.Chmod(name, s.Mode[name]); err != nil {
				return done, err
			}
		}
		for _, dir := range s.Make {
			if err := diskio.MkdirAll(dir, 0o700); err != nil {
				return done, err
			}
		}
		done = append(done, s.ID)
	}
	return done, nil
}

func printCheckup(cmd *cobra.Command, r doctorJSON) {
	marks := map[doctor.Health]string{doctor.Well: "✓", doctor.Doubt: "!", doctor.Broken: "✗", doctor.Skipped: "-"}
	if len(r.Fixed) > 0 {
		cmd.Printf("Fixed: %s\n\n", strings.Join(r.Fixed, ", "))
	}
	for _, s := range r.Checks {
		cmd.Printf("%s %-16s %s\n", marks[s.State], s.ID, strings.ReplaceAll(s.Detail, "\n", "\n                   "))
		if s.Fix != "" {
			cmd.Printf("                   → %s\n", s.Fix)
		}
	}
	switch {
	case r.Failures > 0:
		cmd.Printf("\n%d %s not work, %d to look at.\n", r.Failures, map[bool]string{true: "does", false: "do"}[r.Failures == 1], r.Warnings)
	case r.Warnings > 0:
		cmd.Printf("\nEverything works; %d to look at.\n", r.Warnings)
	default:
		cmd.Println("\nEverything is fine.")
	}
}

// check refuses what makes no sense before anything is looked at.
func (f doctorFlags) check() error {
	if f.bundle == "" {
		return nil
	}
	if _, err := os.Lstat(f.bundle); err == nil {
		return usageError{errors.New(f.bundle + " exists already")}
	}
	return nil
}
