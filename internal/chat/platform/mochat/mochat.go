// Package mochat is the chat platform Mochat, for people and agents. It hides its
// two ways of delivery: Socket.IO on a WebSocket, and requests that wait for
// messages while there is none; and how far sessions and panels were read.
package mochat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/httpsafe"
	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/base/recent"
	"github.com/nanobot-go/nanobot/internal/base/socket"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
	"github.com/nanobot-go/nanobot/internal/chat/kit"
)

const memory = 2000 // messages of a chat, and causes, that are remembered

// bot is the channel.
type bot struct {
	deps chat.Deps
	o    *options
	caps chat.Caps
	api  *client
	run  sync.Mutex // one Run at a time

	silence time.Duration // longest time without a sign of the socket
	calls   atomic.Int64  // on the socket

	mu     sync.Mutex
	chats  map[string]bool             // known ones: whether it is a panel
	groups *recent.Map[string, string] // of panels
	sent   *recent.Map[string, int]    // texts of ours that come back, if we do not know our own id
	asked  *recent.Map[string, string] // codes of questions in panels
	logged *kit.Once                   // logs trouble
}

// Driver returns the platform.
func Driver() chat.Driver {
	return chat.Driver{
		Title:         "Mochat",
		Options:       func() any { return defaults() },
		New:           newChannel,
		Probe:         probe,
		Login:         login,
		LoginOptional: true,
		Language:      phrase.Chinese,
		Folder:        "mochat",
	}
}

// newChannel makes the channel of a section.
func newChannel(d chat.Deps, section json.RawMessage) (chat.Channel, error) {
	b, err := newBot(d, section)
	if err != nil {
		return nil, err
	}

	rules := access.Rules{ForUs: func(v access.Visitor) bool { return v.Mentioned }} // see accept
	if b.o.ReplyDelayMode == delayed && b.o.GroupHistory == 0 {
		rules.History = collected
	}

	d.Gate.SetRules(rules)
	return b, nil
}

func newBot(d chat.Deps, section json.RawMessage) (*bot, error) {
	o, err := decode(section)
	if err != nil {
		return nil, err
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return nil, err
	}

	if d.Now == nil {
		d.Now = time.Now
	}

	b := &bot{
		deps:    d,
		o:       o,
		api:     newClient(o, h, d.Now),
		silence: time.Minute,
		chats:   map[string]bool{},
		groups:  recent.New[string, string](memory),
		sent:    recent.New[string, int](memory),
		asked:   recent.New[string, string](memory),
		logged:  kit.NewOnce(d.Log),
	}

	b.caps = b.limits()
	return b, nil
}

// Name implements chat.Channel.
func (b *bot) Name() string { return b.deps.Name }

// Caps implements chat.Channel.
func (b *bot) Caps() chat.Caps { return b.caps }

// account returns what tells two agents apart.
func (b *bot) account() string {
	return cmp.Or(b.o.AgentUserID, fingerprint(b.o.ClawToken.Reveal()))
}

// Run implements chat.Channel.
func (b *bot) Run(ctx context.Context, submit chat.Submit) error {
	if !b.run.TryLock() {
		return errors.New("the channel runs already")
	}

	defer b.run.Unlock()

	defer b.api.rest.Client.CloseIdleConnections()
	if err := b.deps.Claim(b.account()); err != nil {
		return err
	}

	if b.o.AgentUserID == "" {
		b.deps.Log.WarnContext(ctx, "agentUserId is empty: mentions by id are not seen, and messages of the agent itself are known only by their text", "channel", b.deps.Name)
	}

	marks, err := b.openMarks(ctx)
	if err != nil {
		return err
	}

	panels, err := kit.OpenCursors(b.deps, b.account())
	if err != nil {
		return err
	}

	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in, err := kit.NewIntake(running, b.deps, (&receiver{bot: b, submit: submit}).handle)
	if err != nil {
		return err
	}

	defer in.Wait()
	defer cancel(nil)
	l := newLine(b, in, marks, panels)
	l.seed()
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{l.connect, l.poll, l.refresh, marks.saveChanges} {
		parts.Go(func() {
			if err := contained(running, part); err != nil {
				cancel(err)
			}
		})
	}

	parts.Wait()
	if ctx.Err() == nil {
		err = context.Cause(running)
	}
	return errors.Join(err, marks.save(), panels.Flush())
}

// contained makes a panic of a part an error, after which the channel begins
// again.
func contained(ctx context.Context, part func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return part(ctx)
}

// once logs one cause of trouble once.
func (b *bot) once(ctx context.Context, cause string, args ...any) {
	b.logged.Warn(ctx, cause, "something that Mochat sent is ignored", append([]any{"cause", cause}, args...)...)
}

// probe asks for the sessions, and connects to the socket. People in the chats see nothing of it.
func probe(ctx context.Context, d chat.Deps, section json.RawMessage) (chat.Report, error) {
	b, err := newBot(d, section)
	if err != nil {
		return chat.Report{}, err
	}

	defer b.api.rest.Client.CloseIdleConnections()
	if _, err := b.api.post(ctx, callTime, listSessions, map[string]any{}); err != nil {
		if s := statusOf(err); s == http.StatusUnauthorized || s == http.StatusForbidden {
			err = b.badToken(err)
		}
		return chat.Report{}, err
	}

	report := chat.Report{Identity: b.o.AgentUserID, Checks: []chat.Check{{Name: "api", OK: true, Detail: b.o.BaseURL}}}
	if b.o.AgentUserID == "" {
		report.Checks = append(report.Checks, chat.Check{Name: "agentUserId", Detail: "it is empty: set the user id of the agent, so that it knows its own messages and mentions"})
	}

	l := newLine(b, nil, nil, nil)
	var reason error
	o := l.options()
	o.Open = func(ctx context.Context, c *socket.Conn) error {
		if err := l.talk.greet(ctx, c); err != nil {
			return err
		}
		return errReached
	}

	tries := 0
	o.Lost = func(err error) error {
		reason = err
		if tries++; errors.Is(err, errReached) || tries > 1 || !l.talk.swap() {
			return socket.Fatal(err)
		}
		return err
	}

	_ = socket.Run(ctx, o)
	check := chat.Check{Name: "socket", OK: errors.Is(reason, errReached), Detail: b.o.SocketURL + b.o.SocketPath}
	if !check.OK {
		check.Detail = fmt.Sprintf("%v; messages are polled for instead", reason)
	}

	report.Checks = append(report.Checks, check)
	return report, nil
}

// errReached ends a probe.
var errReached = errors.New("reached")

// login registers an agent and makes it known to its owner.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, force bool) (chat.Result, error) {
	o, err := chat.Read(section, defaults())
	if err != nil {
		return chat.Result{}, err
	}
	if !o.ClawToken.IsZero() && !force {
		return chat.Result{}, fmt.Errorf("channels.%s.clawToken is set: use --force to register another agent", d.Name)
	}

	h, err := d.Client(o.Proxy)
	if err != nil {
		return chat.Result{}, err
	}

	defer h.CloseIdleConnections()
	o.ClawToken = httpsafe.Secret{}
	c := newClient(o, h, d.Now)

	name, err := p.Ask(ctx, chat.Question{Text: "Name of the agent on Mochat"})
	if err != nil {
		return chat.Result{}, err
	}

	email, err := p.Ask(ctx, chat.Question{Text: "Email address of your account on Mochat"})
	if err != nil {
		return chat.Result{}, err
	}

	raw, err := c.post(ctx, callTime, registerAgent, map[string]any{"name": cmp.Or(name, "nanobot")})
	if err != nil {
		return chat.Result{}, err
	}

	var agent struct {
		Token str `json:"token"`
		User  str `json:"botUserId"`
	}
	object(raw, &agent)
	if agent.Token == "" {
		return chat.Result{}, errors.New("Mochat gave the new agent no token") //nolint:staticcheck // a name
	}

	result := chat.Result{
		Identity: string(agent.User),
		Patch:    map[string]any{"clawToken": string(agent.Token), "agentUserId": string(agent.User)},
	}
	for key, list := range map[string][]string{"sessions": o.Sessions, "panels": o.Panels} {
		if len(list) == 0 {
			result.Patch[key] = []string{any1}
		}
	}

	c.rest.Token = kit.Static(httpsafe.NewSecret(string(agent.Token)))
	if _, err := c.post(ctx, callTime, bindOwner, map[string]any{"email": email, "greeting_msg": phrase.In(cmp.Or(string(o.Language), phrase.Chinese), greeting)}); err != nil {
		p.Tell(chat.Step{Note: fmt.Sprintf("The agent is registered, but does not know its owner (%v). Add it on Mochat by its id %s.", err, agent.User)})
	}
	return result, nil
}

// greeting is what an owner reads from a new agent.
const greeting = "Hello, I am your nanobot. Write to me, and approve the code that I answer with."

var (
	_ chat.Planner   = (*bot)(nil)
	_ chat.Addresser = (*bot)(nil)
)
