package settings

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm/catalog"
	"github.com/nanobot-go/nanobot/internal/llm/ledger"
	"github.com/nanobot-go/nanobot/internal/llm/signin"
	"github.com/nanobot-go/nanobot/internal/llm/speech"
	"github.com/nanobot-go/nanobot/internal/run/app"
	"github.com/nanobot-go/nanobot/internal/run/config"
	"github.com/nanobot-go/nanobot/internal/run/provider"
	"github.com/nanobot-go/nanobot/internal/web"
)

// settingState is a setting that some source has set.
type settingState struct {
	Path      string          `json:"path"`
	Value     json.RawMessage `json:"value"`
	Layer     config.Layer    `json:"layer"`  // file, env or flag
	Source    string          `json:"source"` // in words
	Line      int             `json:"line,omitempty"`
	Variable  string          `json:"variable,omitempty"`
	Reference bool            `json:"reference,omitempty"`
	Doc       string          `json:"doc,omitempty"`
}

// readSettings tells the settings in use, credentials hidden.
func (md *models) readSettings(ctx context.Context, _ *http.Request) (any, error) {
	a, err := md.current(ctx)
	if err != nil {
		return nil, err
	}

	l := md.Config()
	_, text, err := md.onDisk()
	if err != nil {
		return nil, err
	}

	o := md.File
	if o.Text = text; text != nil { // what the file says now, if it can be used
		if fresh, err := config.Load(o); err == nil {
			l = fresh
		}
	}

	set := []settingState{}
	for _, top := range []string{"agents", "providers", "modelPresets", "channels", "tools", "transcription", "api", "gateway"} {
		es, err := l.Explain(top)
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			set = append(set, settingState{e.Path, json.RawMessage(e.Value), e.Source.Layer, e.Source.String(), e.Source.Line, e.Source.Name, e.Source.Reference, e.Doc})
		}
	}

	surveyed, err := catalog.Survey(provider.MatchInput(l, app.Getenv(md.app.Env)))
	if err != nil {
		return nil, web.Refuse(http.StatusConflict, "%v", err)
	}

	providers := provider.States(surveyed)
	for i := range providers {
		providers[i].Base = md.Secrets.Redact(providers[i].Base) // an address may hold a password
	}

	signIns := []map[string]any{}
	for _, name := range signin.Names() {
		acc, err := md.account(name)
		if err != nil {
			return nil, err
		}
		st := acc.Status()
		signIns = append(signIns, map[string]any{"name": acc.Name(), "signed_in": st.SignedIn, "account": st.Account, "problem": st.Problem})
	}

	m := a.ModelInfo()
	spoken := l.Config.Transcription.Enabled
	if o, err := provider.Speech(l, provider.SpeechChoice{}, app.Getenv(md.app.Env)); err == nil {
		_, err = speech.New(o)
		spoken = spoken && err == nil
	}

	problems, later := md.Status()
	return map[string]any{
		"file": l.File, "exists": l.Exists, "base": config.Version(text), "version": md.app.Version, "config": json.RawMessage(l.Show(false)), "set": set,
		"model":     map[string]any{"name": m.Name, "provider": m.Provider, "why": m.Why, "key_source": m.KeySource, "demo": m.Demo},
		"speech":    spoken,
		"providers": providers, "sign_ins": signIns, "warnings": problemTexts(l.Warnings), "disabled": problemTexts(l.Disabled),
		"problems": append([]string{}, problems...), "restart_required": append([]string{}, later...),
	}, nil
}

func problemTexts(ps []config.Problem) []string {
	out := []string{}
	for _, p := range ps {
		out = append(out, p.String())
	}
	return out
}

// usageDays is how far back the use of models is told.
const usageDays = 400

// tokensUsed is a sum of model calls.
type tokensUsed struct {
	Prompt     int     `json:"prompt_tokens"` // with Cached
	Completion int     `json:"completion_tokens"`
	Cached     int     `json:"cached_tokens"`
	Total      int     `json:"total_tokens"`
	Requests   int     `json:"requests"`
	USD        float64 `json:"cost_usd"`          // as far as it is known
	Unpriced   int     `json:"unpriced_requests"` // of unknown price
	Estimated  bool    `json:"estimated,omitempty"`
}

func (t *tokensUsed) add(e *ledger.Entry) {
	t.Prompt += e.Prompt
	t.Completion += e.Completion
	t.Cached += e.Cached
	t.Total += e.Prompt + e.Completion
	t.Requests++
	t.USD += e.USD
	t.Estimated = t.Estimated || e.Estimated
	if e.Billing == ledger.Unknown && e.Prompt+e.Completion > 0 {
		t.Unpriced++
	}
}

// dayUsed is a day in the time zone of the agent.
type dayUsed struct {
	Date string `json:"date"`
	tokensUsed
	Sources map[string]*tokensUsed `json:"sources"` // by what caused the calls
}

// usage is what models were used for.
type usage struct {
	current func(ctx context.Context) (*app.App, error)
	now     func() time.Time
}

// Routes implements web.Subject.
func (u usage) Routes() web.Routes {
	return web.Routes{Reads: map[string]web.Read{"settings/usage": u.readUsage}}
}

// readUsage tells what models were used for, day by day.
func (u usage) readUsage(ctx context.Context, r *http.Request) (any, error) {
	a, err := u.current(ctx)
	if err != nil {
		return nil, err
	}

	loc := a.Config.Config.Agents.Defaults.Location()
	by, span, err := usageQuery(r)
	if err != nil {
		return nil, err
	}

	y, m, d := u.now().In(loc).Date()
	since := time.Date(y, m, d-span+1, 0, 0, 0, 0, loc)
	groups := map[string]*tokensUsed{}
	days := map[string]*dayUsed{}
	total := tokensUsed{}
	sources := map[string]*tokensUsed{}
	count := func(in map[string]*tokensUsed, e *ledger.Entry) {
		name := cmp.Or(e.Source, "unknown")
		if in[name] == nil {
			in[name] = &tokensUsed{}
		}
		in[name].add(e)
	}
	for e, err := range a.Ledger().Entries(ctx, ledger.Query{Since: since}) {
		if err != nil {
			return nil, err
		}

		date := e.Time.In(loc).Format(time.DateOnly)
		day := days[date]
		if day == nil {
			day = &dayUsed{Date: date, Sources: map[string]*tokensUsed{}}
			days[date] = day
		}

		day.add(&e)
		total.add(&e)
		count(day.Sources, &e)
		count(sources, &e)

		if name := usageGroup(&e, by, loc); name != "" {
			if groups[name] == nil {
				groups[name] = &tokensUsed{}
			}
			groups[name].add(&e)
		}
	}

	list := []*dayUsed{}
	for _, date := range slices.Sorted(maps.Keys(days)) {
		list = append(list, days[date])
	}

	out := map[string]any{"days": list, "total": total, "sources": sources, "timezone": loc.String(), "since": since.Format(time.DateOnly)}
	if by != "" {
		out["groups"] = groupList(groups, by == "hour")
	}
	return out, nil
}

// usageQuery reads by what calls are summed up, and for how many days.
func usageQuery(r *http.Request) (by string, days int, err error) {
	by, days = r.URL.Query().Get("by"), usageDays
	switch by {
	case "", "model", "provider", "session", "job", "source":
	case "hour":
		days = hourDays
	default:
		return by, days, web.Refuse(http.StatusBadRequest, "by can be model, provider, session, job, hour or source, not %.40q", by)
	}

	if s := r.URL.Query().Get("days"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > usageDays {
			return by, days, web.Refuse(http.StatusBadRequest, "days must be between 1 and %d", usageDays)
		}
		days = n
	}

	return by, days, nil
}

const (
	hourDays  = 7    // that are told by hour, unless more are wanted
	maxGroups = 1000 // that are told, the newest or the greatest
)

// usageGroup returns what a call belongs to; "" if it belongs to none.
func usageGroup(e *ledger.Entry, by string, loc *time.Location) string {
	switch by {
	case "model":
		return cmp.Or(e.Model, "unknown")
	case "provider":
		return cmp.Or(e.Provider, "unknown")
	case "session":
		return e.Session
	case "source":
		return cmp.Or(e.Source, "unknown")
	case "job":
		if id, ok := strings.CutPrefix(e.Session, "cron:"); ok {
			return id
		}
	case "hour":
		return e.Time.In(loc).Format("2006-01-02T15:00")
	}
	return ""
}

// groupUsed is the use of one group.
type groupUsed struct {
	Name string `json:"name"`
	tokensUsed
}

// groupList sorts groups: by time, or by cost and size.
func groupList(groups map[string]*tokensUsed, byTime bool) []groupUsed {
	out := []groupUsed{}
	for name, used := range groups {
		out = append(out, groupUsed{name, *used})
	}

	sort.Slice(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		switch {
		case byTime || a.USD == b.USD && a.Total == b.Total:
			return a.Name < b.Name
		case a.USD == b.USD:
			return a.Total > b.Total
		}
		return a.USD > b.USD
	})
	if byTime {
		return out[max(0, len(out)-maxGroups):]
	}
	return out[:min(len(out), maxGroups)]
}
