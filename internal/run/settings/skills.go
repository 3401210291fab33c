package settings

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// skills are switched on and off.
type skills struct {
	*editor

	current func(ctx context.Context) (*app.App, error) // the agent in use
}

// Routes implements web.Subject.
func (s *skills) Routes() web.Routes {
	return web.Routes{Actions: map[string]web.Action{
		"skill.enable":  web.Changing(s.turn(true)),
		"skill.disable": web.Changing(s.turn(false)),
	}}
}

// turn takes a skill out of agents.defaults.disabledSkills, or puts it there.
func (s *skills) turn(on bool) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		name, err := serverNamed(payload)
		if err != nil {
			return nil, err
		}

		a, err := s.current(ctx)
		if err != nil {
			return nil, err
		}
		return s.change(ctx, edit{make: func(now *config.Loaded) (any, error) {
			off := now.Config.Agents.Defaults.DisabledSkills
			if _, known := a.Skills.Load(name); !known && !slices.Contains(off, name) {
				return nil, web.Refuse(http.StatusNotFound, "there is no skill %.100q", name)
			}

			rest := append([]string{}, slices.DeleteFunc(slices.Clone(off), func(other string) bool { return other == name })...)
			if !on {
				rest = append(rest, name)
				slices.Sort(rest)
			}
			return under(rest, "agents", "defaults", "disabledSkills"), nil
		}})
	}
}
