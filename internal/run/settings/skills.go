package settings

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/web"
)

// skillActions switch skills on and off.
func (ed *editor) skillActions() map[string]web.Action {
	return map[string]web.Action{"skill.enable": web.Changing(ed.switchSkill(true)), "skill.disable": web.Changing(ed.switchSkill(false))}
}

// switchSkill takes a skill out of agents.defaults.disabledSkills, or puts it there.
func (ed *editor) switchSkill(on bool) web.Change {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		name, err := serverNamed(payload)
		if err != nil {
			return nil, err
		}
		a, err := ed.Current(ctx)
		if err != nil {
			return nil, err
		}
		return ed.change(ctx, edit{make: func(now *config.Loaded) (any, error) {
			off := now.Config.Agents.Defaults.DisabledSkills
			if _, known := a.Skills.Load(name); !known && !slices.Contains(off, name) {
				return nil, web.Refuse(http.StatusNotFound, "there is no skill %.100q", name)
			}
			rest := append([]string{}, slices.DeleteFunc(slices.Clone(off), func(s string) bool { return s == name })...)
			if !on {
				rest = append(rest, name)
				slices.Sort(rest)
			}
			return under(rest, "agents", "defaults", "disabledSkills"), nil
		}})
	}
}
