package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

// doctorFlags are the flags of nanobot doctor.
type doctorFlags struct {
	json, fix, offline bool
	bundle             string
}

// checkup looks at everything and tells.
func checkup(c *command, cmd *cobra.Command, f doctorFlags) error {
	d := diagnose(c, cmd, f)
	var fixed []string
	if f.fix {
		var err error
		if fixed, err = d.Fix(); err != nil {
			return err
		}
		if len(fixed) > 0 {
			d = diagnose(c, cmd, f)
		}
	}
	r := d.Report(nanobot.Version(), fixed)
	if f.bundle != "" {
		if err := d.WriteBundle(f.bundle, r, c.Env); err != nil {
			return err
		}
	}
	if f.json {
		if err := printJSON(cmd, r); err != nil {
			return err
		}
	} else {
		printCheckup(cmd, r)
		if f.bundle != "" {
			say(cmd, "Wrote %s. It contains no keys and no conversations; review it before you share it.\n", f.bundle)
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

func diagnose(c *command, cmd *cobra.Command, f doctorFlags) *doctor.Diagnosis {
	return doctor.Examine(cmd.Context(), c.appOptions(), f.offline)
}

func printCheckup(cmd *cobra.Command, r doctor.Report) {
	marks := map[doctor.Health]string{doctor.Well: "✓", doctor.Doubt: "!", doctor.Broken: "✗", doctor.Skipped: "-"}
	if len(r.Fixed) > 0 {
		say(cmd, "Fixed: %s\n\n", strings.Join(r.Fixed, ", "))
	}
	for _, s := range r.Checks {
		cmd.Printf("%s %-16s %s\n", marks[s.State], s.ID, strings.ReplaceAll(known(cmd, s.Detail), "\n", "\n                   "))
		if s.Fix != "" {
			cmd.Printf("                   → %s\n", known(cmd, s.Fix))
		}
	}
	switch {
	case r.Failures > 0:
		sum := "\n%d do not work, %d to look at.\n"
		if r.Failures == 1 {
			sum = "\n%d does not work, %d to look at.\n"
		}
		say(cmd, sum, r.Failures, r.Warnings)
	case r.Warnings > 0:
		say(cmd, "\nEverything works; %d to look at.\n", r.Warnings)
	default:
		say(cmd, "\nEverything is fine.\n")
	}
}

// check refuses what makes no sense before anything is looked at.
func (f doctorFlags) check() error {
	if f.bundle == "" {
		return nil
	}
	if _, err := os.Lstat(f.bundle); err == nil {
		return usageError{fmt.Errorf("%s exists already", f.bundle)}
	}
	return nil
}
