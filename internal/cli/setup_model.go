package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/llm"
	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/llm/trial"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
)

// discovery is a provider that could be used at once.
type discovery struct {
	catalog.Status
	served bool // a server that answers on this machine
	about  string
}

// survey finds keys in the environment and in the configuration, sign-ins,
// and servers on this machine with their models.
func (s *setup) survey(ctx context.Context) []discovery {
	ctx, cancel := context.WithTimeout(ctx, s.surveyTime)
	defer cancel()
	list, err := provider.Survey(ctx, s.home.providerOptions(s.loaded))
	if err != nil {
		s.say("%s", s.sentence(err))
		return nil
	}

	var servers, rest []discovery
	keys := map[string]bool{}
	for _, st := range list {
		d := discovery{Status: st}
		switch {
		case st.Row.Auth != "":
			a, err := s.signIns.account(s.loaded, st.Name)
			if err != nil || !a.Status().SignedIn {
				continue
			}
			d.about = s.in("you are signed in")

		case !st.Ready || st.Row.Speech || keys[st.KeySource]:
			continue
		case st.Row.Local:
			offers, err := provider.ListModels(ctx, s.loaded, st.Choice)
			if err != nil || len(offers) == 0 {
				continue
			}
			d.served = true
			d.about = s.in("%s at %s", s.someModels(offers), strings.TrimSuffix(st.Base, "/v1"))

		case st.KeySource == "":
			d.about = s.in("set up in %s", s.short(s.loaded.File))
		case strings.HasPrefix(st.KeySource, "providers."):
			d.about = s.in("key in %s", s.short(s.loaded.File))
		default:
			keys[st.KeySource] = true // two rows may share one
			d.about = s.in("key in %s", strings.TrimPrefix(st.KeySource, "environment variable "))
		}

		if d.served {
			servers = append(servers, d)
		} else {
			rest = append(rest, d)
		}
	}

	return append(servers, rest...)
}

// someModels names the first models that a server offers.
func (s *setup) someModels(offers []catalog.Offer) string {
	const most = 2
	names := make([]string, 0, most)
	for _, o := range offers[:min(most, len(offers))] {
		names = append(names, text.Ellipsis(o.ID, 30))
	}

	list := strings.Join(names, ", ")
	if n := len(offers) - len(names); n > 0 {
		list += s.in(" and %d more", n)
	}
	return list
}

func keyPage(name string) string {
	for _, u := range provider.Usual() {
		if u.Name == name {
			return u.Keys
		}
	}
	return ""
}

// providerMenu offers what was found, the usual providers and the sign-ins,
// and all others on the second page.
func (s *setup) providerMenu(found []discovery) *menu {
	var items []item
	known := map[string]bool{}
	for _, d := range found {
		known[d.Name] = true
		items = append(items, item{name: d.Name, title: d.Row.Display, about: d.about, head: s.in("Found:")})
	}

	titles := map[string]string{}
	for _, r := range catalog.Rows() {
		titles[r.Name] = r.Display
	}

	titles["custom"] = s.in("Other, OpenAI-compatible")
	add := func(name, about, head string) {
		if title := titles[name]; !known[name] && !known[title] { // two names may be one service
			known[name], known[title] = true, true
			items = append(items, item{name: name, title: title, about: about, head: head})
		}
	}
	for _, u := range provider.Usual() {
		add(u.Name, s.known(u.About), s.in("Usual providers, with a key:"))
	}

	for _, name := range signin.Names() {
		about := ""
		if a, err := s.signIns.account(s.loaded, name); err == nil {
			_, about, _ = strings.Cut(a.Display(), " (")
		}
		add(signin.ConfigName(name), s.known(strings.TrimSuffix(about, ")")), s.in("With a sign-in instead of a key:"))
	}

	first := len(items)
	for _, r := range catalog.Rows() {
		if !r.Speech && (r.Auth == "" || signin.Known(r.Name)) {
			add(r.Name, "", s.in("More providers:"))
		}
	}
	return newMenu(items, first, len(items), s.language)
}

// modelPage is how many models are shown at a time: a terminal has 24 rows.
const modelPage = 15

// chooseModel offers the provider's own models.
func (s *setup) chooseModel(ctx context.Context) (move, error) {
	s.model, s.window = "", 0
	given := consume(&s.flags.model)
	offers, m, err := s.models(ctx)
	if err != nil || ctx.Err() != nil {
		return 0, err
	}
	if given != "" {
		s.setModel(given, offers)
		return onward, nil
	}

	if len(m.items) > 0 {
		m.show(s.Out, s.prompt.width())
		s.say("\nType a number, a name or a part of one.")
	}

	last := ""
	for {
		typed, err := s.answer("Model")
		if err != nil {
			return 0, err
		}

		switch {
		case typed == "":
			return back, nil
		case typed == "more" && len(m.items) > 0:
			m.next()
			m.show(s.Out, s.prompt.width())
			continue
		case typed == "skip":
			if typed = s.usualModel(); typed == "" {
				s.say("%s has no usual model. Name one, or press Enter to go back.", s.row.Display)
				continue
			}

		case typed != last:
			at, hits, ok := m.pick(typed)
			if ok {
				typed = m.items[at].name
			} else if hits > 1 {
				m.show(s.Out, s.prompt.width())
				s.say("\n%d models fit. Type %s again to use that name as it is.", hits, typed)
				last = typed
				continue
			}
		}

		s.setModel(typed, offers)
		return onward, nil
	}
}

// usualModel returns the one to use when no other is named.
func (s *setup) usualModel() string {
	if s.row.Auth != "" {
		if a, err := s.signIns.account(s.loaded, s.row.Name); err == nil {
			_, model, _ := strings.Cut(a.DefaultModel(), "/")
			return model
		}
	}
	return s.row.DefaultModel
}

// models asks the provider what it offers. That it cannot tell is not an
// error; a key that it refuses leads back to the key.
func (s *setup) models(ctx context.Context) ([]catalog.Offer, *menu, error) {
	l, err := s.candidate()
	if err != nil {
		return nil, nil, err
	}

	var offers []catalog.Offer
	if !s.keyless {
		s.say("\nAsking %s for its models...", s.row.Display)
		offers, err = s.list(ctx, l)
	}

	if err != nil && ctx.Err() == nil {
		e := llm.AsError(err)
		if e.Kind == llm.Auth && s.row.Auth == "" {
			s.say("%s.", capital(s.refusal(err, "")))
			s.doubted = true
			return nil, nil, jump(askKey)
		}
		s.say("There is no list: %s.", strings.TrimSuffix(text.Label(e.Message, 200), "."))
	}

	return offers, s.modelMenu(offers, provider.OpenPrices(l, s.home.logger())), nil
}

// modelMenu shows the usual model first, then those whose price or window is
// known: lists also contain models that cannot chat.
func (s *setup) modelMenu(offers []catalog.Offer, prices *ledger.Prices) *menu {
	list := slices.Clone(offers)
	usual := s.usualModel()
	if usual != "" && !slices.ContainsFunc(list, func(o catalog.Offer) bool { return o.ID == usual }) && len(list) == 0 {
		list = append(list, catalog.Offer{ID: usual})
	}

	price := map[string]string{}
	rank := map[string]int{}
	facts := provider.OpenFacts(s.loaded)
	for i := range list {
		o := &list[i]
		o.Window = cmp.Or(o.Window, facts.Of(o.ID).Window)
		price[o.ID] = s.price(*o, prices)

		switch {
		case o.ID == usual:
			rank[o.ID] = 0
		case price[o.ID] != "" && o.Window > 0 || s.row.Local:
			rank[o.ID] = 1
		default:
			rank[o.ID] = 2
		}
	}

	slices.SortStableFunc(list, func(a, b catalog.Offer) int { return cmp.Compare(rank[a.ID], rank[b.ID]) })
	head := s.in("Models of %s:", s.row.Display)
	if slices.ContainsFunc(slices.Collect(maps.Values(price)), func(p string) bool { return strings.Contains(p, "/") }) {
		head = s.in("Models of %s (window; price of a million tokens, in / out):", s.row.Display)
	}

	items := make([]item, 0, len(list))
	for _, o := range list {
		about := strings.TrimRight(fmt.Sprintf("%5s  %s", tokens(o.Window), price[o.ID]), " ")
		items = append(items, item{name: o.ID, title: o.ID, about: about, head: head})
	}
	return newMenu(items, modelPage, modelPage, s.language)
}

// tokens returns a window in short: 128k, 1M.
func tokens(n int) string {
	switch {
	case n <= 0:
		return ""
	case n >= 1_000_000:
		return strconv.FormatFloat(math.Round(float64(n)/1e5)/10, 'f', -1, 64) + "M"
	case n >= 1000:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}

// trialTime bounds the trial of a model: a server on this machine may have to
// load it first. After trialPatience the person is told what is waited for.
const (
	trialTime     = 2 * time.Minute
	trialPatience = 10 * time.Second
)

// try asks the model for its first word. The error says why it gave none.
func (s *setup) try(ctx context.Context, l *config.Loaded) (*trial.Trial, error) {
	ctx, cancel := context.WithTimeout(ctx, s.trialTime)
	defer cancel()
	t, err := provider.OpenTrial(ctx, s.home.providerOptions(l), "")
	if err != nil {
		return nil, err
	}

	stopTelling := s.announceDelay(ctx)
	t.Hello(ctx)
	stopTelling()
	provider.SuggestModels(ctx, l, t)
	return t, t.Err()
}

// announceDelay reports after a while that the model has not answered yet. The returned func
// ends that and waits for it.
func (s *setup) announceDelay(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if wait.For(ctx, trialPatience) == nil {
			s.say("No answer yet. A server on this machine may have to load the model first. Ctrl-C leaves.")
		}
	})
	return func() {
		cancel()
		waiting.Wait()
	}
}

// tryOut makes one small call with the answers and says what came of it.
func (s *setup) tryOut(ctx context.Context) (move, error) {
	l, err := s.candidate()
	if err != nil || s.flags.noTest {
		return onward, err
	}
	if s.keyless {
		s.say("Not tested, because there is no key yet.")
		return onward, nil
	}

	s.say("Trying %s with one small call...", s.model)
	t, err := s.try(ctx, l)
	if ctx.Err() != nil {
		return 0, errSkipped
	}
	if err == nil {
		s.say("It answers.")
		return onward, nil
	}

	s.say("\nThis does not work yet: %s.", strings.TrimSuffix(s.refusal(err, s.model), "."))
	if t != nil {
		for _, w := range t.Warnings {
			s.say("Note: %s.", s.known(text.Label(w, 300)))
		}
	}

	type way struct {
		word  string
		about phrase.Sentence
		to    step
	}

	ways := []way{
		{"model", phrase.Later("choose another model"), askModel},
		{"provider", phrase.Later("choose another provider"), askProvider},
		{"again", phrase.Later("try once more"), tryModel},
		{"keep", phrase.Later("keep it as it is"), done},
	}
	if !s.served {
		ways = slices.Insert(ways, 0, way{"key", phrase.Later("give another key"), askKey})
		if s.row.Auth != "" {
			ways[0].about = phrase.Later("sign in again")
		}
	}

	for i, w := range ways {
		s.say("  %d  %-8s  %s", i+1, w.word, w.about)
	}

	for {
		typed, err := s.answer("What now")
		if err != nil {
			return 0, err
		}

		if typed == "skip" {
			typed = "keep"
		}

		if typed == "" {
			return back, nil
		}

		i := slices.IndexFunc(ways, func(w way) bool { return w.word == strings.ToLower(typed) })
		if n, err := strconv.Atoi(typed); err == nil {
			i = n - 1
		}

		if i < 0 || i >= len(ways) {
			s.say("Type a number from 1 to %d.", len(ways))
			continue
		}

		s.doubted = ways[i].to == askKey
		return onward, jump(ways[i].to)
	}
}

// scripted takes the answers of the command line and asks nothing. Nothing is
// written if the provider refuses them; that it cannot be reached is told.
func (s *setup) scripted(ctx context.Context) error {
	s.model, s.base = s.flags.model, s.flags.base
	if s.flags.provider == "" && (s.flags.base != "" || s.flags.keyEnv != "") {
		return usageError{errors.New("--key-env and --base-url need --provider")}
	}

	if s.flags.provider != "" {
		if err := s.choose(s.flags.provider); err != nil {
			return err
		}

		if s.base = s.flags.base; s.base != "" {
			if err := checkAddress(s.base); err != nil {
				return err
			}
		}

		if s.flags.keyEnv != "" {
			if err := s.keyFrom(s.flags.keyEnv); err != nil {
				return err
			}
		}

		if err := s.scriptedModel(ctx); err != nil {
			return err
		}
	}

	l, err := s.candidate()
	if err != nil || s.flags.noTest {
		return err
	}

	t, err := s.try(ctx, l)
	if err == nil {
		s.say("%s answers.", t.Model)
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}

	e := llm.AsError(err)
	switch e.Kind {
	case llm.Auth, llm.Permission, llm.NotFound, llm.Configuration:
		if t == nil { // our own words
			return err
		}
		told := append([]string{s.refusal(err, s.model)}, t.Warnings...)
		return &llm.Error{Kind: e.Kind, Message: strings.Join(append(told, s.in("Nothing was changed. --no-test writes the answers without a test.")), "\n")}
	}

	s.sayErr("nanobot: warning: the model was not tested: %s\n", s.refusal(err, s.model))
	return nil
}

// scriptedModel finds the model when none is named, and its window.
func (s *setup) scriptedModel(ctx context.Context) error {
	s.model = cmp.Or(s.flags.model, s.usualModel())
	var offers []catalog.Offer
	if s.model == "" || !s.flags.noTest {
		l, err := s.candidate()
		if err != nil {
			return err
		}
		offers, _ = s.list(ctx, l) // without one, the trial tells what is wrong
	}

	if s.model == "" && len(offers) == 1 {
		s.model = offers[0].ID
	}

	if s.model == "" && len(offers) > 0 {
		return usageError{fmt.Errorf("%s has no usual model: name one with --model; it offers %s", s.row.Display, s.someModels(offers))}
	}
	if s.model == "" {
		return usageError{fmt.Errorf("%s has no usual model: name one with --model", s.row.Display)}
	}

	s.setModel(s.model, offers)
	return nil
}
