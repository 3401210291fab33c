package cli

import (
	"context"
	"fmt"

	"github.com/nanobot-go/nanobot"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// signIns finds sign-ins at providers and shows their steps.
type signIns struct {
	*console
	home *home
}

// account finds the sign-in of a provider by the name that the user typed.
func (s *signIns) account(loaded *config.Loaded, name string) (*signin.Account, error) {
	if !signin.Known(name) {
		return nil, usageError{signin.Unknown(name)}
	}
	return provider.Account(provider.Options{Config: loaded, Getenv: s.getenv, Version: nanobot.Version(), Log: s.home.logger()}, name)
}

// showStep prints what the person has to do, and opens a browser unless stay is set.
func (s *signIns) showStep(ctx context.Context, step signin.Step, stay bool) {
	if step.Note != "" {
		fmt.Fprintln(s.Out, step.Note)
	}

	if step.URL == "" {
		return
	}

	s.say("\nOpen this address in a browser:\n\n  %s\n\n", step.URL)
	if step.Code != "" {
		s.say("and enter the code:  %s\n\n", step.Code)
	}
	if step.Paste {
		s.say("If the browser runs on another machine, the last page cannot be displayed:\npaste the address of that page here and press Enter.\n")
	}
	if !stay && s.hasBrowser() {
		openBrowser(ctx, step.URL)
	}
	s.say("Waiting...\n")
}
