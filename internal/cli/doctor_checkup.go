package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/run/doctor"
)

// doctorFlags are the flags of nanobot doctor.
type doctorFlags struct {
	json, fix, offline bool
	bundle             string
}

// checkup looks at everything and tells.
func (c *doctorCommand) checkup(ctx context.Context, f doctorFlags) error {
	d := c.diagnose(ctx, f)
	var fixed []string
	if f.fix {
		var err error
		if fixed, err = d.Fix(); err != nil {
			return err
		}
		if len(fixed) > 0 {
			d = c.diagnose(ctx, f)
		}
	}

	r := d.Report(nanobot.Version(), fixed)
	if f.bundle != "" {
		if err := d.WriteBundle(f.bundle, r, c.Env); err != nil {
			return err
		}
	}

	err := c.show(f.json, r, func() error {
		c.printCheckup(r)
		if f.bundle != "" {
			c.say("Wrote %s. It contains no keys and no conversations; review it before you share it.\n", f.bundle)
		}
		return nil
	})
	if err != nil {
		return err
	}

	switch {
	case d.Unusable:
		return failure{exitConfig}
	case !r.OK:
		return failure{exitFailure}
	}
	return nil
}

func (c *doctorCommand) diagnose(ctx context.Context, f doctorFlags) *doctor.Diagnosis {
	return doctor.Examine(ctx, c.home.appOptions(), f.offline)
}

func (c *doctorCommand) printCheckup(r doctor.Report) {
	marks := map[doctor.Health]string{doctor.Well: "✓", doctor.Doubt: "!", doctor.Broken: "✗", doctor.Skipped: "-"}
	if len(r.Fixed) > 0 {
		c.say("Fixed: %s\n\n", strings.Join(r.Fixed, ", "))
	}

	for _, s := range r.Checks {
		fmt.Fprintf(c.Out, "%s %-16s %s\n", marks[s.State], s.ID, strings.ReplaceAll(c.known(s.Detail), "\n", "\n                   "))
		if s.Fix != "" {
			fmt.Fprintf(c.Out, "                   → %s\n", c.known(s.Fix))
		}
	}

	switch {
	case r.Failures > 0:
		sum := "\n%d do not work, %d to look at.\n"
		if r.Failures == 1 {
			sum = "\n%d does not work, %d to look at.\n"
		}
		c.say(sum, r.Failures, r.Warnings)

	case r.Warnings > 0:
		c.say("\nEverything works; %d to look at.\n", r.Warnings)
	default:
		c.say("\nEverything is fine.\n")
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
