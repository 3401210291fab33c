package ledger

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// OnExceed says what a reached limit does.
type OnExceed string

// What a reached limit does. Limits per source and per turn stop their work
// unless the choice is Warn.
const (
	// Warn only tells the user.
	Warn OnExceed = "warn"
	// StopBackground stops work that no user waits for.
	StopBackground OnExceed = "stopBackground"
	// StopAll stops every call, background work first: it may use nine tenths
	// of a limit, so that it cannot leave the user with nothing.
	StopAll OnExceed = "stopAll"
)

// Limits bound spending. A limit of 0 is off. Money limits count calls whose
// price is known; calls of free models count nowhere.
type Limits struct {
	DailyUSD    float64
	MonthlyUSD  float64
	TurnUSD     float64
	DailyTokens int
	// UnpricedDailyTokens bounds calls that cost an unknown amount, for which
	// a limit in money can do nothing.
	UnpricedDailyTokens int
	// GuestShare is the part of each daily limit that all guests together may
	// use, PerGuestShare that of one; 0 is off.
	GuestShare, PerGuestShare float64
	WarnAt                    []float64 // shares of a limit, such as 0.8
	OnExceed                  OnExceed  // "" is StopAll
	PerSource                 map[string]SourceLimits
	PerSession                SourceLimits // of one conversation
	// Usual lists limits that are defaults which the user did not choose, by the
	// names of their settings: reaching one warns, and nothing stops.
	Usual []string
}

// SourceLimits bound one source of work.
type SourceLimits struct {
	DailyUSD    float64
	DailyTokens int
}

const (
	// budgetKey is where the limits stand in the configuration.
	budgetKey = "agents.defaults.budget."
	// leastAnswer is the shortest answer worth paying a prompt for, in tokens.
	leastAnswer = 256
	// assumedAnswer is reserved when a request does not bound its answer.
	assumedAnswer = 8192
	// backgroundShare is how much of a limit background work may use.
	backgroundShare = 0.9
)

// background reports whether no user waits for the work of a source. Work of a
// kind we do not know is background.
func background(source string) bool {
	switch source {
	case "user", "api", "compaction", "speech":
		return false
	}
	return true
}

// ask holds what a call wants to spend.
type ask struct {
	source, turn             string
	session, provider, model string
	price                    Price
	prompt                   int // tokens, at most
	answer                   int // tokens, at most; 0 is not bounded by the caller
}

// hold reserves what a call under way may still spend.
type hold struct {
	account
	source, turn string
	answer       int   // tokens the answer may have; 0 is unbounded
	reserved     int   // tokens of the answer that were reserved
	id           int64 // in the file of reservations
}

// bound is one limit as it stands for one call.
type bound struct {
	key    string // name of the setting below budgetKey
	what   string // for people
	money  bool   // nano dollars, else tokens
	set    int64  // as the user set it
	limit  int64  // as it stands for this call
	used   int64  // spent
	held   int64  // reserved by other calls
	stops  bool
	usual  bool      // not chosen by the user
	shared bool      // by all sources, so background work must leave some
	reset  time.Time // zero: with the next turn
	period string
	marks  map[string]string // where notices given are remembered
	whose  string            // of several that share a key
}

// reserve sets aside what a call may cost at most. It shortens the answer to
// what is left, or refuses with a BudgetExceeded error. The notices are for
// the user.
func (l *Ledger) reserve(ctx context.Context, a ask) (h hold, notices []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case a.price.Billing == Free:
		return l.reserveFree(&a), nil, nil
	case l.store == nil:
		return l.reserveNow(a)
	}
	return l.reserveAmongOthers(ctx, a)
}

// reserveFree notes a call that no limit counts. Nothing of it is for other processes
// to know.
func (l *Ledger) reserveFree(a *ask) hold {
	h := hold{source: a.source, turn: a.turn, answer: a.answer, reserved: a.answer}
	h.account = a.worst(a.answer)
	l.move(&h, +1)
	return h
}

// reserveNow is reserve by what is known of other processes.
func (l *Ledger) reserveNow(a ask) (hold, []string, error) {
	now := l.now()
	l.refresh(now)
	l.bookLost()
	bounds := l.bounds(&a, now)
	want := a.answer
	if want <= 0 {
		want = assumedAnswer
	}

	answer := want
	var tight *bound
	for i := range bounds {
		if b := &bounds[i]; b.stops {
			if fit := b.room(&a); fit < answer {
				answer, tight = fit, b
			}
		}
	}

	if answer < min(want, leastAnswer) {
		return hold{}, nil, l.refusal(tight, &a, now)
	}

	h := hold{source: a.source, turn: a.turn, answer: a.answer, reserved: answer}
	if answer < want || slices.ContainsFunc(bounds, func(b bound) bool { return b.stops }) {
		h.answer = answer // no more than what was reserved, also if the caller set no bound
	}

	h.account = a.worst(answer)
	l.move(&h, +1)
	h.id = l.shared.add(a.holding(&h, now.In(l.loc)))
	return h, l.notices(bounds, a.source), nil
}

// holding is what other processes learn of a reservation that was made at some time.
func (a *ask) holding(h *hold, at time.Time) holding {
	return holding{
		At:       at.Round(0).Truncate(time.Millisecond),
		Source:   h.source,
		Turn:     h.turn,
		Session:  a.session,
		Provider: a.provider,
		Model:    a.model,
		Billing:  a.price.Billing,
		Prompt:   a.prompt,
		Answer:   h.reserved,
		Nano:     h.Nano,
		Tokens:   h.Tokens,
		Unpriced: h.Unpriced,
	}
}

// worst is the most a call can cost with an answer of n tokens.
func (a *ask) worst(n int) account {
	out := account{Calls: 1}
	tokens := int64(a.prompt) + int64(n)
	switch a.price.Billing {
	case Free:
	case Priced:
		out.Tokens = tokens
		out.Nano = toNano(float64(a.prompt)*a.price.promptRate() + float64(n)*a.price.answerRate())
	case Subscription:
		out.Tokens = tokens
	default:
		out.Tokens, out.Unpriced = tokens, tokens
	}

	return out
}

// move adds a hold to what is reserved, or takes it off again.
func (l *Ledger) move(h *hold, sign int) {
	shift := account.plus
	if sign < 0 {
		shift = account.minus
	}

	l.held = shift(l.held, h.account)
	l.heldBy[h.source] = shift(l.heldBy[h.source], h.account)
	if h.turn != "" {
		t := l.turnOf(h.turn)
		t.held = shift(t.held, h.account)
	}
}

// settle replaces a hold by what the call really cost and returns notices for
// the user.
func (l *Ledger) settle(h hold, e *Entry) []string {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := l.now()
	e.Time = now.In(l.loc).Round(0).Truncate(time.Millisecond)
	l.refresh(now)
	l.move(&h, -1)
	l.record(e)
	l.shared.drop(h.id) // after the record, so that others never see neither

	if h.turn != "" {
		t := l.turnOf(h.turn)
		t.spent = t.spent.plus(accountOf(e))
		if e.Prompt+e.Completion > 0 {
			t.billing = dearer(t.billing, e.Billing)
		}
	}

	a := ask{source: h.source, turn: h.turn, session: e.Session, price: Price{Billing: e.Billing}}
	if a.price.Billing == Reported {
		a.price.Billing = Priced
	}
	return l.notices(l.bounds(&a, now), h.source)
}

// bounds lists the limits that apply to a call. The caller holds the lock and
// has refreshed the sums.
func (l *Ledger) bounds(a *ask, now time.Time) []bound {
	if a.price.Billing == Free {
		return nil
	}

	at := now.In(l.loc)
	y, m, d := at.Date()
	midnight, nextMonth := time.Date(y, m, d+1, 0, 0, 0, 0, l.loc), time.Date(y, m+1, 1, 0, 0, 0, 0, l.loc)
	lim, s := &l.limits, &l.sums
	onExceed := lim.OnExceed
	if onExceed == "" {
		onExceed = StopAll
	}

	behind := background(a.source)
	stops := onExceed == StopAll || onExceed == StopBackground && behind
	var out []bound
	add := func(b bound) {
		if b.limit <= 0 {
			return
		}

		if b.usual = slices.Contains(lim.Usual, b.key); b.usual {
			b.stops = false
		} else if b.shared && behind && onExceed == StopAll {
			b.limit = int64(float64(b.limit) * backgroundShare)
		}

		out = append(out, b)
	}

	daily := bound{what: "today's", stops: stops, shared: true, reset: midnight, period: s.Day, marks: s.Warned}
	own := daily
	own.what = "today's " + a.source
	own.stops = onExceed != Warn
	own.shared = false
	today, month, held := l.counted(a.source)
	src, srcHeld := s.Sources[a.source], l.heldBy[a.source].plus(l.shared.by[a.source])
	srcLimits := lim.PerSource[a.source]
	talk, talkHeld := s.Sessions[a.session], l.shared.heldFor(a.session)
	conversation := daily
	conversation.what = "this conversation's daily"
	conversation.stops = onExceed != Warn
	conversation.shared = false
	conversation.whose = "/" + a.session

	if a.price.Billing != Subscription {
		add(conversation.of("perSession.dailyUsd", toNano(lim.PerSession.DailyUSD), talk.Nano, talkHeld.Nano, true))
		add(daily.of("dailyUsd", toNano(lim.DailyUSD), today.Nano, held.Nano, true))
		monthly := bound{what: "this month's", stops: stops, shared: true, reset: nextMonth, period: s.Month, marks: s.Warned}
		add(monthly.of("monthlyUsd", toNano(lim.MonthlyUSD), month.Nano, held.Nano, true))
		add(own.of(sourceKey(a.source, "dailyUsd"), toNano(srcLimits.DailyUSD), src.Nano, srcHeld.Nano, true))

		if lim.TurnUSD > 0 && a.turn != "" {
			t := l.turnOf(a.turn)
			b := bound{what: "this turn's", stops: onExceed != Warn, period: a.turn, marks: t.marks}
			add(b.of("turnUsd", toNano(lim.TurnUSD), t.spent.Nano, t.held.Nano, true))
		}
	}

	add(conversation.of("perSession.dailyTokens", int64(lim.PerSession.DailyTokens), talk.Tokens, talkHeld.Tokens, false))
	add(daily.of("dailyTokens", int64(lim.DailyTokens), today.Tokens, held.Tokens, false))
	add(own.of(sourceKey(a.source, "dailyTokens"), int64(srcLimits.DailyTokens), src.Tokens, srcHeld.Tokens, false))
	if a.price.Billing == Unknown {
		add(daily.of("unpricedDailyTokens", int64(lim.UnpricedDailyTokens), today.Unpriced, held.Unpriced, false))
	}
	return append(out, l.guestBounds(a, midnight)...)
}

func sourceKey(source, name string) string { return "perSource." + source + "." + name }

// of is a bound of the same kind on one amount.
func (b *bound) of(key string, limit, used, held int64, money bool) bound {
	out := *b
	out.key = key
	out.set = limit
	out.limit = limit
	out.used = used
	out.held = held
	out.money = money
	return out
}

// room returns how many tokens the answer may have under this limit; a
// negative number means that not even the prompt fits.
func (b *bound) room(a *ask) int {
	left := b.limit - b.used - b.held
	if !b.money {
		return int(max(left-int64(a.prompt), -1))
	}

	left -= toNano(float64(a.prompt) * a.price.promptRate())
	if left < 0 || left == 0 && a.price.Billing == Unknown {
		return -1 // an unknown price fits only where something is left
	}

	rate := a.price.answerRate() * 1e9
	if rate <= 0 {
		return math.MaxInt32
	}
	return int(min(float64(left)/rate, math.MaxInt32))
}

// refusal is the error of a call that a limit forbids.
func (l *Ledger) refusal(b *bound, a *ask, now time.Time) error {
	if llm.IsGuest(a.source) {
		return guestRefusal(b, now)
	}

	answer := leastAnswer
	if a.answer > 0 {
		answer = min(a.answer, leastAnswer)
	}

	next := a.worst(answer)
	cost := next.Tokens
	if b.money {
		cost = next.Nano
	}

	spent := fmt.Sprintf("%s spent", b.amount(b.used))
	if b.limit < b.set {
		spent = fmt.Sprintf("background work may use %s of it, %s", b.amount(b.limit), spent)
	}
	if b.held > 0 {
		spent = fmt.Sprintf("%s, %s set aside for calls under way", spent, b.amount(b.held))
	}
	if b.used < b.limit && cost > 0 {
		spent = fmt.Sprintf("%s, and this one may cost %s or more", spent, b.amount(cost))
	}

	// Whole sentences, which package phrase recognizes.
	var message string
	if b.reset.IsZero() {
		message = fmt.Sprintf("%s budget of %s does not allow another model call: %s. Say \"continue\" to go on with a new turn. To raise it: nanobot config set %s%s %s (0 is no limit)",
			b.what, b.amount(b.set), spent, budgetKey, b.key, b.raised())
	} else {
		message = fmt.Sprintf("%s budget of %s does not allow another model call: %s. It starts afresh at %s, in %s. To raise it: nanobot config set %s%s %s (0 is no limit)",
			b.what, b.amount(b.set), spent, b.reset.Format("Mon 2 Jan 15:04"), span(b.reset.Sub(now)), budgetKey, b.key, b.raised())
	}

	return &llm.Error{Kind: llm.BudgetExceeded, Code: b.key, Message: message}
}

// amount writes an amount in the unit of the limit.
func (b *bound) amount(n int64) string {
	if b.money {
		return Dollars(fromNano(n))
	}
	return shortCount(n) + " tokens"
}

// raised proposes twice the limit.
func (b *bound) raised() string { return b.number(2) }

// number is a multiple of the limit, as the setting takes it.
func (b *bound) number(times int64) string {
	if b.money {
		return strconv.FormatFloat(float64(times)*fromNano(b.set), 'f', -1, 64)
	}
	return strconv.FormatInt(times*b.set, 10)
}

// notices says, once per period and threshold, how far limits are used up.
func (l *Ledger) notices(bounds []bound, source string) []string {
	if llm.IsGuest(source) {
		return nil // the owner's money is not for guests to hear of
	}

	// Work in the background has marks of its own: a notice that went there
	// must not be missing where the user reads.
	side := ""
	if background(source) {
		side = "/background"
	}

	var out []string
	fresh := false
	for i := range bounds {
		b := &bounds[i]
		share, top := float64(b.used)/float64(b.set), 0.0
		for _, at := range append(slices.Clone(l.limits.WarnAt), 1) {
			mark := fmt.Sprintf("%s@%g%s%s", b.key, at, b.whose, side)
			if at <= 0 || share < at || b.usual && at < 1 || b.marks[mark] == b.period {
				continue
			}
			b.marks[mark] = b.period
			fresh = fresh || !b.reset.IsZero()
			top = max(top, at)
		}

		if top > 0 {
			out = append(out, b.notice(share))
		}
	}

	if fresh {
		l.checkpoint()
	}
	return out
}

// notice says how far a limit is used up and what happens there, in whole
// sentences, which package phrase recognizes.
func (b *bound) notice(share float64) string {
	percent := int(share * 100)
	used, limit, setting := b.amount(b.used), b.amount(b.set), budgetKey+b.key
	switch {
	case share >= 1 && b.stops:
		return fmt.Sprintf("%d %% of %s budget is used: %s of %s. The next call will be stopped. See: nanobot usage", percent, b.what, used, limit)
	case b.usual:
		return fmt.Sprintf("%d %% of %s budget is used: %s of %s. Work goes on, because this limit is a default that your configuration does not set. To stop calls there: nanobot config set %s %s; 0 turns this warning off",
			percent, b.what, used, limit, setting, b.number(1))
	case share >= 1:
		return fmt.Sprintf("%d %% of %s budget is used: %s of %s. Work goes on, because %sonExceed allows it. See: nanobot usage", percent, b.what, used, limit, budgetKey)
	case b.stops:
		return fmt.Sprintf("%d %% of %s budget is used: %s of %s. At the limit calls are stopped; raise it with: nanobot config set %s %s",
			percent, b.what, used, limit, setting, b.raised())
	}

	return fmt.Sprintf("%d %% of %s budget is used: %s of %s. See: nanobot usage", percent, b.what, used, limit)
}

// span writes a duration for people, in hours and minutes.
func span(d time.Duration) string {
	d = max(d.Round(time.Minute), time.Minute)
	switch h := int(d.Hours()); {
	case h >= 48:
		return fmt.Sprintf("%d days", h/24)
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}
