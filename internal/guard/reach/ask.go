package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// The answers to a question about a host.
const (
	answerTurn    = "turn"
	answerSession = "session"
	answerAlways  = "always"
	answerNo      = "no"
	answerYes     = "yes"
)

// maxCommand is how much of a command a question shows, in characters.
const maxCommand = 4000

// askHost asks whether a host may be reached, and remembers a yes.
func (u *user) askHost(r httpsafe.HostRequest, entry string) error {
	no := func(reason string) error { return &httpsafe.BlockedError{Target: entry, Reason: reason} }
	how := u.howTo(entry)
	switch {
	case limited(u.c):
		return no("commands of this chat only reach package hosts and what the owner lists in tools.exec.allowedHosts")
	case u.c.Ask == nil:
		return no("this host is not allowed for commands, and no question can be asked here; " + how)
	}

	options := []string{answerTurn, answerSession}
	if u.p.o.Keep != nil {
		options = append(options, answerAlways)
	}

	answer, err := u.ask(bus.Question{Text: u.hostQuestion(r, options), Options: append(options, answerNo), Detail: u.detail(r.Host)})
	if err != nil {
		return u.unasked(err, entry, "this host is not allowed for commands; "+how)
	}

	u.p.o.Log.InfoContext(u.life, "host for commands", "host", entry, "answer", answer, "session", u.c.SessionKey, "turn", u.c.TurnID)
	switch answer {
	case answerTurn, answerYes:
		u.allowInTurn(entry)
	case answerSession:
		u.p.allowInTalk(u.c, entry)
	case answerAlways:
		u.save(r, entry)
	default:
		return no("the user said no to this host. Do not try it again in this turn, and do not look for another way to it")
	}

	return nil
}

func (u *user) allowInTurn(entry string) {
	u.turn.mu.Lock()
	defer u.turn.mu.Unlock()
	if len(u.turn.allowed) < maxHosts {
		u.turn.allowed[entry] = true
	}
}

// save adds a host to the configuration. What cannot be written holds until the end
// of the conversation.
func (u *user) save(r httpsafe.HostRequest, entry string) {
	if u.p.o.Keep == nil {
		return
	}

	if err := u.p.o.Keep(u.life, entry); err != nil {
		u.p.o.Log.WarnContext(u.life, "cannot save an allowed host in the configuration", "host", entry, "err", err)
		u.p.allowInTalk(u.c, entry)
		return
	}

	u.p.mu.Lock()
	defer u.p.mu.Unlock()
	u.p.kept = append(u.p.kept, httpsafe.RuleFor(r))
}

// howTo says how the owner allows a host.
func (u *user) howTo(entry string) string {
	u.p.mu.Lock()
	n := len(u.p.o.Allowed) + len(u.p.kept)
	u.p.mu.Unlock()
	return fmt.Sprintf("the owner can allow it with: nanobot config set tools.exec.allowedHosts.%d %s", n, entry)
}

// ask puts a question and reads its answer.
func (u *user) ask(q bus.Question) (string, error) {
	q.Expires = u.p.o.Now().Add(u.p.o.Timeout)
	// Ask keeps the time itself; twice as much is for one that does not.
	ctx, cancel := context.WithTimeout(u.life, 2*u.p.o.Timeout)
	defer cancel()
	said, err := u.c.Ask(ctx, q)
	if err != nil {
		return "", err
	}
	return parse(said, q.Options), nil
}

// unasked is a refusal because there was no answer. The end of a command is
// not an answer that the turn would remember.
func (u *user) unasked(err error, target, why string) error {
	if u.life.Err() != nil && !errors.Is(err, tool.ErrNoAnswer) {
		return context.Cause(u.life)
	}
	return &httpsafe.BlockedError{Target: target, Reason: "the question about it was not answered: " + why}
}

// parse understands the words of the options, their first letter, and their
// number. Everything else is a no.
func parse(said string, options []string) string {
	word := strings.ToLower(strings.TrimFunc(said, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) }))
	for i, o := range options {
		if word == o || word == o[:1] || word == fmt.Sprint(i+1) {
			return o
		}
	}

	switch word {
	case "yes", "y", "ok":
		return answerYes
	}
	return answerNo
}

// hostQuestion words the question about a host.
func (u *user) hostQuestion(r httpsafe.HostRequest, options []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A command wants to reach a host on the internet. May it?\n\nhost: %s\nport: %d\n", r.Host, r.Port)
	u.describe(&b)
	if strings.Contains(r.Host, "xn--") {
		b.WriteString("\nThe name stands for one with letters of another script, which may look like a name you know.\n")
	}
	if r.Exposes != "" {
		fmt.Fprintf(&b, "\nThis host serves code without a question, but not this request: %s.\n", r.Exposes)
	}

	switch {
	case named(u.c.UserText, r.Host):
	case u.tainted.Load():
		b.WriteString("\nYou did not name this host in this turn, and the turn has read content from outside: the wish may come from there. Whatever the command can read can be sent to the host.\n")
	default:
		b.WriteString("\nYou did not name this host in this turn.\n")
	}

	b.WriteString("\n\"turn\" allows it until this turn ends, \"session\" for this conversation")
	if len(options) > 2 {
		b.WriteString(", \"always\" adds it to tools.exec.allowedHosts")
	}

	b.WriteString(". Anything else is a no.")
	return b.String()
}

// askBudget asks whether a turn may send more.
func (u *user) askBudget(use httpsafe.Use) error {
	return u.askMore(use, more{
		stop:     "this turn has read content from outside and has sent as much as it may without a yes",
		question: fmt.Sprintf("This turn has read content from outside and has sent %s. Now it wants to send more to %s. May it go on?", u.turn.budget.String(), use.Host),
		yes:      "allows four times as much as so far",
		allow:    func() error { u.turn.budget.Extend(); return nil },
	})
}

// askDay asks whether turns may send more today.
func (u *user) askDay(use httpsafe.Use) error {
	return u.askMore(use, more{
		stop:     "turns that have read content from outside have sent as much today as they may without a yes",
		question: fmt.Sprintf("Turns that have read content from outside have sent as much today as they may without a yes. Now one wants to send more to %s. May it go on?", use.Host),
		yes:      "allows the amount of a day once more",
		allow:    func() error { return u.p.day.extend(u.life, u.party()) },
	})
}

// more is a question about sending more.
type more struct {
	stop     string // why it ends here without a yes
	question string
	yes      string // what a yes does
	allow    func() error
}

func (u *user) askMore(use httpsafe.Use, m more) error {
	no := func(reason string) error { return &httpsafe.BlockedError{Target: use.Host, Reason: reason} }
	if limited(u.c) || u.room != "" || u.c.Ask == nil {
		return no(m.stop + "; no question can be asked here. Go on without the network, or tell the user")
	}

	var b strings.Builder
	b.WriteString(m.question + "\n")
	u.describe(&b)
	fmt.Fprintf(&b, "\nMany requests can carry away what the command or the agent has read. \"yes\" %s. Anything else is a no.", m.yes)
	answer, err := u.ask(bus.Question{Text: b.String(), Options: []string{answerYes, answerNo}, Detail: u.detail(use.Host)})
	if err != nil {
		return u.unasked(err, use.Host, m.stop)
	}

	u.p.o.Log.InfoContext(u.life, "budget of a turn", "answer", answer, "host", use.Host, "session", u.c.SessionKey, "turn", u.c.TurnID)
	if answer != answerYes {
		return no(m.stop + ", and the user said no. Do not send anything more in this turn")
	}
	if err := m.allow(); err != nil {
		return no(m.stop + ", and the yes cannot be written down: " + err.Error())
	}
	return nil
}

// detail returns the call that wants to reach a host, part by part.
func (u *user) detail(host string) *bus.Detail {
	var in struct {
		Command string `json:"command"`
	}
	_ = json.Unmarshal(u.c.Input, &in) // another tool has none
	return &bus.Detail{Tool: u.c.Name, Call: u.c.ID, Command: in.Command, Host: host, Sandbox: true, Network: "proxy"}
}

// describe shows the command of the call, set apart so that nothing in it can
// pass for our own words.
func (u *user) describe(b *strings.Builder) {
	var in struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(u.c.Input, &in) != nil || in.Command == "" {
		if u.c.Name != "" {
			fmt.Fprintf(b, "tool: %s\n", text.Reveal(u.c.Name, ""))
		}
		return
	}

	b.WriteString("command:\n")
	command, note := in.Command, ""
	if n := utf8.RuneCountInString(command); n > maxCommand {
		command, note = string([]rune(command)[:maxCommand]), fmt.Sprintf("  [%d more characters are not shown]\n", n-maxCommand)
	}

	for line := range strings.SplitSeq(command, "\n") {
		b.WriteString("  | " + text.Reveal(line, "") + "\n")
	}
	b.WriteString(note)
}
