package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Fix applies the fixes that do not need a decision and names them.
func (r SecurityReport) Fix(ctx context.Context, o config.Options) ([]string, error) {
	path, err := config.Locate(o)
	if err != nil {
		return nil, err
	}

	fixable := slices.DeleteFunc(r.Findings(), func(c Check) bool { return !c.Fixable() })
	err = config.Edit(path, nil, func(f *config.File) error {
		for _, check := range fixable {
			for _, name := range slices.Sorted(maps.Keys(check.Set)) {
				if err := f.Set(name, check.Set[name]); err != nil {
					return fmt.Errorf("%s: %w", check.ID, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	var done []string
	for _, check := range fixable {
		for _, name := range slices.Sorted(maps.Keys(check.Mode)) {
			if err := os.Chmod(name, check.Mode[name]); err != nil {
				return done, fmt.Errorf("%s: %w", check.ID, err)
			}
		}

		if check.Do != nil {
			if err := check.Do(ctx); err != nil {
				return done, fmt.Errorf("%s: %w", check.ID, err)
			}
		}

		done = append(done, check.ID)
	}

	return done, nil
}
