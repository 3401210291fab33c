package cli

import (
	"errors"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/gateway"
)

// settings changes the configuration file for the commands that do.
type settings struct {
	*console
	home *home
}

// What edit says has been done to a setting of a file.
const (
	setIn       = "Set %s in %s"
	removedFrom = "Removed %s in %s"
	nothingIn   = "Nothing to remove: %s in %s"
)

// errDry keeps an edit from being saved.
var errDry = errors.New("only a check")

// edit changes the file and says so. A value that cannot be used is a wrong call: the
// configuration itself is as good as before. change may be called more than once.
func (s *settings) edit(path string, dry bool, change func(*config.File) (string, error)) error {
	file, err := s.home.file()
	if err != nil {
		return err
	}

	done := ""
	err = config.Edit(file, gateway.Sections(nil), func(f *config.File) (err error) {
		done, err = change(f)
		switch {
		case err != nil:
			return usageError{err}
		case dry:
			return errDry
		}
		return nil
	})
	if errors.Is(err, errDry) {
		fmt.Fprintln(s.Out, s.in(done, path, file)+s.in(" (not saved)"))
		return nil
	}
	if err != nil {
		return err
	}

	fmt.Fprintln(s.Out, s.in(done, path, file))
	s.warnStronger(path)
	return nil
}

// warnStronger warns when an edit has no effect because of the environment.
func (s *settings) warnStronger(path string) {
	l, err := s.home.read()
	if err != nil {
		s.sayErr("Note: the configuration is not valid yet. See: nanobot config validate\n")
		return
	}

	es, err := l.Explain(path)
	if err != nil {
		return
	}

	for _, e := range es {
		if e.Source.Layer == config.LayerEnv {
			s.sayErr("Note: %s takes precedence over the file for %s\n", e.Source, e.Path)
		}
	}
}
