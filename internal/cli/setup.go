package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/cli/tui"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// setup asks for a provider, its address, a key and a model. It only collects
// setupAnswers: the configuration is written once, after the last one, so that
// leaving at any step changes nothing.
type setup struct {
	*console
	setupAnswers
	signIns    *signIns
	prompt     *prompter
	flags      onboardFlags  // answers of the command line; each is used once
	surveyTime time.Duration // how long servers on this machine are waited for, before the first menu

	trialTime time.Duration // how long the test call may take

	doubted bool // the key was refused: ask for another one
	keyless bool // the key comes later
	served  bool // the server was found on this machine, so it does not need a key
}

func (c *onboardCommand) newSetup(loaded *config.Loaded, f onboardFlags) *setup {
	s := &setup{
		console:      c.console,
		setupAnswers: setupAnswers{home: c.home, loaded: loaded, workspace: f.workspace},
		signIns:      c.signIns,
		prompt:       c.prompter(),
		flags:        f,
		surveyTime:   2 * time.Second,
		trialTime:    trialTime,
	}

	s.prompt.mark = c.getenv("TERM") != "dumb"
	return s
}

// step is a question of the setup.
type step int

const (
	askProvider step = iota
	askAddress
	askKey
	askModel
	tryModel
	done
)

// move says where an answer leads.
type move int

const (
	onward  move = iota
	back         // an empty answer
	passed       // there is nothing to ask: go on in the same direction
	without      // go on without a model
)

// errNoModel ends the questions of a user who wants no model now.
var errNoModel = errors.New("no model")

// run asks until everything is answered. The error is errSkipped if the user
// left, and errNoModel if no model is wanted.
func (s *setup) run(ctx context.Context) error {
	steps := [...]func(context.Context) (move, error){s.chooseProvider, s.chooseAddress, s.giveKey, s.chooseModel, s.tryOut}
	ahead := true
	for at := askProvider; at < done; {
		if ctx.Err() != nil {
			return errSkipped
		}

		m, err := steps[at](ctx)
		if ctx.Err() != nil {
			return errSkipped // Ctrl-C during a request
		}
		if to, ok := errors.AsType[jump](err); ok {
			at, ahead = step(to), true
			continue
		}
		if err != nil {
			return err
		}

		switch m {
		case without:
			return errNoModel
		case onward:
			ahead = true
		case back:
			ahead = false
		case passed:
		}

		if ahead {
			at++
		} else {
			at = max(at-1, askProvider)
		}

		if at == askProvider {
			ahead = true
		}
	}

	return nil
}

// jump is the error of a step that wants to go on at another one.
type jump step

func (jump) Error() string { return "another step" }

// say prints a sentence in the user's language, broken between words.
func (s *setup) say(english string, args ...any) {
	width := s.prompt.width()
	for line := range strings.SplitSeq(s.in(english, args...), "\n") {
		for _, row := range tui.Rows(line, width) {
			fmt.Fprintln(s.Out, row)
		}
	}
}

// answer asks a question. The words skip and more are lower case in any spelling.
func (s *setup) answer(question string) (string, error) {
	a, err := s.prompt.edited(s.in(question))
	a = text.Label(a, 0)
	if l := strings.ToLower(a); l == "skip" || l == "more" {
		a = l
	}
	return a, err
}

func (s *setup) chooseProvider(ctx context.Context) (move, error) {
	s.row = catalog.Row{}
	s.block = ""
	s.base = ""
	s.key = ""
	s.doubted = false
	s.served = false
	if name := consume(&s.flags.provider); name != "" {
		return onward, s.choose(name)
	}

	found := s.survey(ctx)
	m := s.providerMenu(found)
	m.show(s.Out, s.prompt.width())

	if len(found) > 0 {
		s.say("\nType a number, a name or a part of one. skip leaves the choice to nanobot. Ctrl-C leaves.")
	} else {
		s.say("\nType a number, a name or a part of one. skip goes on without a model: a built-in demo answers. Ctrl-C leaves.")
	}

	for {
		typed, err := s.answer("Provider")
		if err != nil {
			return 0, err
		}

		switch typed {
		case "":
			s.say("This is the first step. Type skip to go on without a model, or Ctrl-C to leave.")
			continue
		case "skip":
			return without, nil
		case "more":
			m.narrow("")
			if m.next(); m.from == 0 {
				m.next()
			}
			m.show(s.Out, s.prompt.width())
			continue
		}

		at, hits, ok := m.pick(typed)
		switch {
		case ok && at < len(found):
			s.use(found[at])
			return onward, nil
		case ok:
			return onward, s.choose(m.items[at].name)
		case hits > 1:
			m.show(s.Out, s.prompt.width())
		case !s.prompt.terminal():
			return 0, usageError{unknownProvider(typed)}
		default:
			s.say("%s", s.sentence(unknownProvider(typed)))
		}
	}
}

// choose uses a provider by its name, as it is set up now.
func (s *setup) choose(name string) error {
	list, err := catalog.Survey(provider.MatchInput(s.loaded, s.getenv))
	if err != nil {
		return err
	}

	i := slices.IndexFunc(list, func(st catalog.Status) bool { return plainName(st.Name) == plainName(name) && !st.Row.Speech })
	if i < 0 {
		return usageError{unknownProvider(name)}
	}
	if st := list[i]; st.Row.Auth != "" && !signin.Known(st.Name) {
		return usageError{signin.Unknown(st.Name)}
	}

	s.use(discovery{Status: list[i]})
	return nil
}

func (s *setup) use(d discovery) {
	s.row = d.Row
	s.block = d.Block
	s.served = d.served
	if s.row.Name = d.Name; d.Name == "custom" {
		s.row.Display = s.in("the server")
	}
	if d.served {
		s.base = d.Base
	}
}

func unknownProvider(name string) error {
	var names []string
	for _, r := range catalog.Rows() {
		names = append(names, r.Name)
	}
	err := fmt.Errorf("unknown provider %q", name)
	if near := text.NearestRatio(strings.ToLower(name), names, 0.6); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return err
}

// chooseAddress asks where a server is that has no address of its own.
func (s *setup) chooseAddress(context.Context) (move, error) {
	if given := consume(&s.flags.base); given != "" {
		s.base = given
		return onward, checkAddress(given)
	}

	configured := s.loaded.Config.Providers[s.block].APIBase != ""
	switch {
	case !s.row.Direct && !s.row.Local, s.row.Wire == catalog.BedrockWire:
		return passed, nil // the address is known, or made of the region
	case s.served, configured:
		return passed, nil
	}

	if s.row.BaseURL != "" {
		s.say("\n  1  %s (the usual address)\n\nType 1, or another base URL.", s.row.BaseURL)
	} else {
		s.say("\nType the base URL of %s, such as https://models.example.com/v1.", s.row.Display)
	}

	for {
		typed, err := s.answer("Base URL")
		switch {
		case err != nil:
			return 0, err
		case typed == "":
			return back, nil
		case (typed == "1" || typed == "skip") && s.row.BaseURL != "":
			s.base = s.row.BaseURL
			return onward, nil
		case typed == "skip":
			return without, nil
		}

		if err := checkAddress(typed); err != nil {
			if !s.prompt.terminal() {
				return 0, err
			}
			s.say("%s.", s.sentence(err))
			continue
		}

		s.base = typed
		return onward, nil
	}
}

func checkAddress(base string) error {
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usageError{fmt.Errorf("%q is not a base URL; one looks like http://127.0.0.1:8000/v1", base)}
	}
	return nil
}

// giveKey asks for a key, or signs in, unless there is one.
func (s *setup) giveKey(ctx context.Context) (move, error) {
	s.key, s.keyless = "", false
	if name := consume(&s.flags.keyEnv); name != "" {
		return onward, s.keyFrom(name)
	}
	if s.row.Auth != "" {
		return s.signIn(ctx)
	}

	optional := s.row.Direct || s.row.Local
	if (s.served || s.keySource() != "") && !s.doubted {
		return passed, nil
	}

	question := s.in("API key of %s, not shown", s.row.Display)
	if optional {
		question = s.in("API key of %s, not shown (- for none)", s.row.Display)
	}
	if at := keyPage(s.row.Name); at != "" {
		s.say("\nGet a key at %s", at)
	}

	for {
		key, err := s.prompt.secret(question)
		if err != nil {
			return 0, err
		}

		switch key = strings.Trim(key, `"'`); {
		case key == "":
			return back, nil
		case key == "-" && optional:
			return onward, nil
		case strings.EqualFold(key, "skip"):
			s.keyless = true
			s.say("Set the key later with: nanobot config set providers.%s.apiKey -", s.row.Name)
			return onward, nil
		}

		if err := checkKey(key); err != nil {
			if !s.prompt.terminal() {
				return 0, err
			}
			s.say("%s.", s.sentence(err))
			continue
		}

		if other := ownerOf(key); other != "" && other != s.row.Name && !s.row.Direct {
			s.sayErr("Note: this looks like a key of %s, not of %s.\n", other, s.row.Name)
		}

		s.key, s.doubted = key, false
		return onward, nil
	}
}

// keyFrom uses the key in an environment variable, by reference: the file gets
// no copy of it.
func (s *setup) keyFrom(name string) error {
	value := s.getenv(name)
	if strings.TrimSpace(value) == "" {
		return usageError{fmt.Errorf("--key-env: the environment variable %s is not set", text.Label(name, 60))}
	}
	if err := checkKey(value); err != nil {
		return fmt.Errorf("--key-env %s: %w", name, err)
	}

	if !slices.Contains(s.row.EnvKeys, name) || s.loaded.IsSet("providers."+config.Escape(cmp.Or(s.block, s.row.Name))+".apiKey") {
		s.key = "${" + name + "}"
	}
	return nil
}

// checkKey refuses what cannot be a key, such as one that was copied with a line break.
func checkKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII || r == 0x7f }) {
		return usageError{errors.New("the key contains spaces, line breaks or other characters that keys do not have; copy it again")}
	}
	return nil
}

// ownerOf tells a provider by the way its keys begin; "" if they could be of any
// provider.
func ownerOf(key string) string {
	for _, r := range catalog.Rows() {
		if r.KeyPrefix != "" && strings.HasPrefix(key, r.KeyPrefix) {
			return r.Name
		}
	}
	return ""
}

// signIn signs in at a provider that has no keys. The browser or a code on
// another device does it: the terminal is needed for the next questions.
func (s *setup) signIn(ctx context.Context) (move, error) {
	a, err := s.signIns.account(s.loaded, s.row.Name)
	if err != nil {
		return 0, err
	}
	if st := a.Status(); st.SignedIn && st.Problem == "" && !s.doubted && a.Check(ctx) == nil {
		s.say("You are signed in to %s.", a.Display())
		return passed, nil
	}

	if note := a.Caution(); note != "" {
		s.say("Note: %s", s.known(note))
	}

	st, err := a.Login(ctx, signin.Dialog{
		Device: !s.hasBrowser(),
		Notify: func(step signin.Step) { s.signIns.showStep(ctx, step, false) },
	})
	if err != nil {
		if ctx.Err() == nil {
			s.say("The sign-in failed: %v", err)
		}
		return back, nil
	}

	s.doubted = false
	s.say("Signed in to %s. Stored in: %s", a.Display(), st.Where)
	return onward, nil
}

// consume returns a flag's value the first time.
func consume(flag *string) string {
	v := *flag
	*flag = ""
	return v
}

// sentence returns an error as a sentence in the user's language.
func (s *setup) sentence(err error) string { return capital(s.known(err.Error())) }

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// refusal puts the failure of a model call into words for the owner who is
// just setting it up.
func (s *setup) refusal(err error, model string) string {
	e := llm.AsError(err)
	who := s.row.Display
	if errors.Is(err, trial.ErrSlow) {
		return s.in("%s can be reached, but %s did not begin its answer within %s: it is slow, or it is still being loaded", who, model, s.trialTime)
	}

	said := ""
	if m := text.Label(e.Message, 300); m != "" {
		said = ": " + m
	}

	switch e.Kind {
	case llm.Auth:
		if s.row.Auth != "" {
			return s.in("%s refused the sign-in", who) + said
		}
		if from := s.keySource(); from != "" && s.key == "" {
			return s.in("%s refused the key in %s", who, from) + said
		}
		return s.in("%s refused the key", who) + said

	case llm.NotFound:
		return s.in("%s does not know the model %q", who, model) + said
	case llm.Connection:
		return s.in("%s cannot be reached", who) + said
	case llm.Timeout:
		return s.in("%s did not answer in time", who) + said
	}

	return s.in("the call failed") + said
}
