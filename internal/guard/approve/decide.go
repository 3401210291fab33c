package approve

import (
	"cmp"
	"errors"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/tool"
)

// verdict is a decision and its reason, worded to follow "because".
type verdict struct {
	action Action
	reason phrase.Sentence
	// byOutside says that it is asked only because the command runs files from
	// outside. It is contained in any case, so without a person it runs.
	byOutside bool
}

func allow() verdict { return verdict{action: ActionAllow} }

func asks(reason string, args ...any) verdict {
	return verdict{action: ActionAsk, reason: phrase.Later(reason, args...)}
}

// leaks finds a registered secret in what leaves the process. It applies in
// every mode.
func (p *Policy) leaks(s *subject) (name string, found bool) {
	if p.Leaks == nil || !s.outgoing() {
		return "", false
	}
	if name, found = p.Leaks(string(s.call.Input)); found {
		return name, true
	}

	var all strings.Builder // a value may be cut in two by the arguments
	for t := range s.texts() {
		if name, found = p.Leaks(t); found {
			return name, true
		}
		all.WriteString(t)
	}

	if cmd := s.command(); cmd != "" { // quotes inside a word hide it
		for _, words := range parseCommand(cmd).simple {
			if name, found = p.Leaks(strings.Join(words, " ")); found {
				return name, true
			}
		}
	}

	return p.Leaks(all.String())
}

// decide applies rules, mode and table.
func (p *Policy) decide(s *subject) verdict {
	switch r, m := p.rule(s); {
	case m == Surely:
		return verdict{action: r.Action, reason: phrase.Later("a rule of tools.approval (%s)", ruleText(r))}
	case m == Perhaps && p.Jail == nil: // nothing can be tied to a yes here
		return verdict{action: ActionDeny, reason: phrase.Later("a rule of tools.approval (%s) that the command may break when it runs", ruleText(r))}
	case m == Perhaps:
		return asks("its text does not show whether it does what a rule of tools.approval is about (%s)", ruleText(r))
	}

	switch {
	case p.Mode == Off:
		return allow()
	case s.tool.ReadOnly:
		return p.read(s)
	case s.quiet():
		return allow()
	case p.Mode == Ask:
		return asks("every change needs a yes (tools.approval.mode is ask)")
	}

	v := p.bySink(s)
	if v.action == ActionAsk && s.call.Tainted {
		v.reason = phrase.Later(afterOutside, v.reason)
	}
	return v
}

func ruleText(r Rule) string {
	if r.Match == "" {
		return r.Tool
	}
	return r.Tool + ": " + r.Match
}

// afterOutside begins the reason of what is asked only because of taint, or
// more readily. It names the way out, as the taint lasts.
const afterOutside = "content from outside is in this conversation (until /new), and %s"

// bySink returns the table of mode auto.
func (p *Policy) bySink(s *subject) verdict {
	tainted := s.call.Tainted
	switch s.tool.Sink {
	case tool.SinkWrite:
		return p.write(s)
	case tool.SinkCommand:
		return p.commandVerdict(s)
	case tool.SinkMessage:
		return p.message(s)
	case tool.SinkSchedule:
		return whenTainted(tainted, "the call makes something happen later")
	case tool.SinkMemory:
		return whenTainted(tainted, "the call changes what the agent remembers or how it behaves")
	case tool.SinkSpawn:
		return whenTainted(tainted, "the call starts another agent")
	case tool.SinkRemote:
		return whenTainted(tainted, "the call does something on a server that is not ours")
	}

	return whenTainted(tainted, "it is not known what the call does")
}

func whenTainted(tainted bool, reason string) verdict {
	if tainted {
		return asks(reason)
	}
	return allow()
}

// read asks only about addresses that can carry data away: long ones that the
// model was not given as they are, to hosts that neither the user nor a search
// of this turn has named.
func (p *Policy) read(s *subject) verdict {
	if !s.call.Tainted || p.Suspicious == nil {
		return allow()
	}

	for t := range s.texts() {
		u, err := url.Parse(t)
		switch {
		case err != nil, u.Host == "":
			continue // not an address
		case !p.Suspicious(t), seenHost(s.call, u.Hostname()):
			continue
		case p.Known != nil && p.Known(s.call, t):
			continue // the model was given it as it is
		}

		return asks(afterOutside, phrase.Later("a long address at an unfamiliar host can carry text away"))
	}

	return allow()
}

func (p *Policy) write(s *subject) verdict {
	paths := s.paths()
	if len(paths) == 0 {
		return whenTainted(s.call.Tainted, "it is not known which files the call changes")
	}

	for _, name := range paths {
		f := p.file(name)
		switch {
		case errors.Is(f.err, fs.ErrNotExist), f.err == nil:
		default:
			continue // the tool refuses it
		}

		if !p.inWorkspace(f.abs) && !s.inProject(f.abs) {
			return asks("the file %s is outside the workspace", text.Reveal(name, ""))
		}
		if !s.call.Tainted {
			continue
		}
		if kind := special(p.relative(f.abs)); kind != "" {
			return asks(kind, text.Reveal(name, ""))
		}
	}

	return allow()
}

func (p *Policy) commandVerdict(s *subject) verdict {
	if p.CommandRisk != nil {
		if why, risky := p.CommandRisk(s.command()); risky {
			return asks("the command hides what it runs: %s", why)
		}
	}

	switch {
	case !p.Sandboxed && !s.call.Project.Only: // what is kept inside a folder is always in one
		return asks("commands run without a sandbox here")
	case s.call.Tainted && s.command() == "":
		return asks("what is typed reaches a command that may have been started before")
	}

	contained, also := s.call.Tainted, func(reason string) verdict { return asks(reason) }
	if p.Contained != nil && !contained {
		if why := p.Contained(s.call); why != "" {
			contained, also = true, func(reason string) verdict { return asks("%s, and %s", why, phrase.Later(reason)) }
		}
	}

	confined := p.Network == networkNone || p.Network == networkProxy || s.call.Project.Only
	switch {
	case !contained:
		return allow()
	case p.Exposed != nil && p.Exposed():
		return also("this machine cannot keep the command from changing the instructions of the agent")
	case !confined:
		return also("the command can reach any host")
	}

	if p.inspect(s); len(s.outside) == 0 || s.call.Ask == nil {
		return allow()
	}
	return verdict{action: ActionAsk, reason: phrase.Later("it runs or builds what came from outside"), byOutside: true}
}

// inspect finds out what a command is going to run that came from outside.
func (p *Policy) inspect(s *subject) {
	s.outside = nil
	cmd := s.command()
	if cmd == "" || p.Outside == nil || s.call.Ask == nil {
		return
	}

	if !s.call.Tainted {
		contained := p.Contained != nil && p.Contained(s.call) != ""
		if !contained {
			return // nothing from outside could have reached what it runs
		}
	}

	if !s.usualShell() {
		cmd = "" // in a language that we do not read
	}
	s.outside = p.Outside(s.call, cmd, p.file(s.directory()).abs)
}

func (p *Policy) message(s *subject) verdict {
	for name, here := range map[string]string{
		"channel": s.call.Route.Channel, "chat_id": s.call.Route.ChatID, "thread_id": s.call.Route.ThreadID,
		"to": s.call.Route.ChatID, "session_key": s.call.SessionKey,
	} {
		if (name == "channel" || name == "chat_id") && p.isTarget(s) {
			continue
		}
		if v, given := s.args[name]; given && v != nil && v != "" && v != here {
			return asks("the message goes to another chat")
		}
	}

	for _, name := range s.paths() {
		if f := p.file(name); f.err == nil && !p.inWorkspace(f.abs) && !s.inProject(f.abs) {
			return asks("the file %s is outside the workspace", text.Reveal(name, ""))
		}
	}
	return allow()
}

// isTarget reports whether a message goes to a chat that the user has allowed.
func (p *Policy) isTarget(s *subject) bool {
	to := cmp.Or(s.text("channel"), s.call.Route.Channel) + ":" + cmp.Or(s.text("chat_id"), s.call.Route.ChatID)
	return slices.Contains(p.Targets, to)
}

// rule returns the first rule that matches a call, else the first that may: what
// only the run decides does not outweigh a rule that names the call for sure.
// Without questions only rules that deny count.
func (p *Policy) rule(s *subject) (Rule, Match) {
	var maybe Rule
	found := Never
	for _, r := range p.Rules {
		if ok, _ := path.Match(r.Tool, s.tool.Name); !ok {
			continue
		}

		m := Surely
		if r.Match != "" {
			m = p.matches(r, s)
		}

		switch {
		case m == Surely && p.Mode == Off && r.Action == ActionAsk:
			return maybe, found
		case m == Surely:
			return r, m
		case m == Perhaps && found == Never && (p.Mode != Off || r.Action == ActionDeny):
			maybe, found = r, m
		}
	}

	return maybe, found
}

// matches reports whether a rule with a text applies. To allow something takes
// more than to contain the text, because the text can be added to any command.
func (p *Policy) matches(r Rule, s *subject) Match {
	cmd := s.command()
	allows := r.Action == ActionAllow
	switch {
	case allows && cmd != "":
		return sure(s.usualShell() && p.allowsCommand(r.Match, cmd))
	case allows && s.tool.Sink == tool.SinkCommand:
		return Never // what is typed into a running command is not a command
	case allows && s.tool.Sink == tool.SinkWrite && p.Jail != nil:
		paths := s.paths()
		return sure(len(paths) > 0 && !slices.ContainsFunc(paths, func(name string) bool {
			return !strings.Contains(filepath.ToSlash(p.relative(p.file(name).abs)), r.Match)
		}))

	case s.contains(r.Match):
		return Surely
	case cmd == "" || allows || p.CommandMatch == nil:
		return Never
	case !s.usualShell(): // the text is in a language that we do not read
		return Perhaps
	}

	return p.CommandMatch(cmd, r.Match)
}

func sure(ok bool) Match {
	if ok {
		return Surely
	}
	return Never
}

// usualShell reports whether the command is read by the shell that we know, with
// nothing read before it.
func (s *subject) usualShell() bool {
	shell, _ := s.args["shell"].(string)
	return (s.args["shell"] == nil || shell == "") && !s.flag("login")
}

// allowsCommand reports whether a command is what the text of a rule says: the
// very text, the same words, or harmless programs that the text names.
func (p *Policy) allowsCommand(match, cmd string) bool {
	match = strings.TrimSpace(match)
	if strings.TrimSpace(cmd) == match {
		return true
	}
	if have, want := parseCommand(cmd), parseCommand(match); have.plain && want.plain && slices.Equal(have.simple[0], want.simple[0]) {
		return true
	}
	if p.CommandPrefix == nil {
		return false
	}

	words, ok := p.CommandPrefix(cmd)
	return ok && !slices.ContainsFunc(words, func(w string) bool { return w != match && !strings.HasPrefix(w, match+" ") })
}
