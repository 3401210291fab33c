package doctor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/nanobot-go/nanobot/internal/run/config"
)

// Fix applies the fixes that do not need a decision and names them.
func (r SecurityReport) Fix(ctx context.Context, o config.Options) ([]string, error) {
	path, err := config.Locate(o)
	if err != nil {
		return nil, err
	}
	f, err := config.Open(path, nil)
	if err != nil {
		return nil, err
	}
	var done []string
	changed := false
	for _, check := range r.Findings() {
		if !check.Fixable() {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(check.Set)) {
			if err := f.Set(name, check.Set[name]); err != nil {
				return done, fmt.Errorf("%s: %w", check.ID, err)
			}
			changed = true
		}
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
	if changed {
		if err := f.Save(time.Now()); err != nil {
			return nil, err
		}
	}
	return done, nil
}
