package mattermost

import (
	"context"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

const (
	quoteMost  = 4000           // characters of a post that was passed on
	lineMost   = 500            // characters of an earlier post of a thread
	editWindow = 24 * time.Hour // a post that is edited later is not new
)

// receiver makes messages for the agent of the posts that come during one Run.
type receiver struct {
	bot    *bot
	submit chat.Submit
}

// handle turns a post into a message. An error means that it is not durable yet.
func (rc *receiver) handle(ctx context.Context, e event) error {
	b, p := rc.bot, &e.Post
	id := b.deps.Name + ":" + p.ID
	if e.Account != b.account() || b.deleted.Has(p.ID) || b.given.Has(p.ID) || b.deps.Known != nil && b.deps.Known(id) {
		return nil
	}

	where, err := b.known.where(ctx, &e, b.o.TeamID != "")
	if refusal(err).refused() {
		return nil // we are not in the channel any more
	}
	if err != nil {
		return err
	}
	if !b.o.serves(where) || e.Edited && (where.Type == "D" || !b.me.Load().named(p.Message) || b.deps.Now().Sub(time.UnixMilli(p.CreateAt)) > editWindow) {
		return nil
	}

	v, err := rc.visitor(ctx, &e, where)
	if err != nil {
		return err
	}

	pass, ok := b.deps.Gate.Admit(ctx, v)
	if !ok {
		return nil
	}
	return rc.written(ctx, &e, v, pass)
}

// visitor returns who wrote a post. The thread of the route is the one that the post
// was written in.
func (rc *receiver) visitor(ctx context.Context, e *event, where place) (access.Visitor, error) {
	b, p := rc.bot, &e.Post
	v := access.Visitor{
		IDs:       []string{p.UserID},
		Direct:    where.Type == "D",
		Mentioned: b.me.Load().named(p.Message),
		At:        e.Read,
		Backlog:   !e.Read.IsZero(),
		Route:     bus.Route{Channel: b.deps.Name, ChatID: p.ChannelID, ThreadID: p.RootID, MessageID: p.ID},
	}
	if e.Sender == "" || b.o.AllowFromMatchMode != matchID {
		who, err := b.known.person(ctx, p.UserID)
		if err != nil && !refusal(err).refused() {
			return v, err
		}
		e.Sender = who.Username
		v.Names = rc.names(who)
	}

	v.Name = text.Speaker(e.Sender)
	if v.Direct {
		return v, nil
	}

	v.Text = text.Valid(p.Message)
	if !v.Mentioned && p.RootID != "" && b.o.GroupPolicyInThread == access.Mention && b.deps.Gate.Knows(ctx, v) {
		ours, err := b.known.wrote(ctx, b.me.Load(), p.RootID)
		if err != nil {
			return v, err
		}
		v.Mentioned = ours
	}

	return v, nil
}

// names returns what the lists may know a person by besides their id, if the settings
// say so. An address of mail is one of these: a server need not check it.
func (rc *receiver) names(who user) []string {
	switch rc.bot.o.AllowFromMatchMode {
	case matchName:
		return []string{who.Username}
	case matchMail:
		return []string{who.Email}
	}
	return nil
}

// written hands over what a person wrote.
func (rc *receiver) written(ctx context.Context, e *event, v access.Visitor, pass access.Pass) error {
	b, p := rc.bot, &e.Post
	in := pass.Inbound(p.ID, "")
	rc.thread(&in, p.RootID, v.Direct)
	in.Meta = map[string]string{
		"message_id": p.ID, "post_id": p.ID, "root_id": p.RootID, "user_id": p.UserID, "username": e.Sender,
		"channel_type": channelType(v.Direct, e.Type), "is_group": boolWord(!v.Direct),
	}
	said := b.me.Load().withoutUs(text.Valid(p.Message))
	if in.Answer = rc.replied(p, said); in.Answer != nil {
		in.Text = said
		in.Untrusted = false
		in.Route.ThreadID = ""
		in.SessionKey = ""
		return rc.hand(ctx, in)
	}

	files := &files{bot: b}
	files.add(ctx, p.FileIDs)
	in.Media = files.media
	in.Text = said
	if !v.Direct && !strings.HasPrefix(said, "/") {
		in.Text = strings.TrimSpace("@" + v.Name + ": " + said)
	}

	in.Untrusted = e.Edited // who edited it is not known
	in.Quoted = append(passedOn(p), rc.earlier(ctx, p)...)
	if len(files.marks) > 0 {
		in.Quoted = append(in.Quoted, bus.Quote{About: "files", Text: strings.Join(files.marks, "\n")})
	}
	if said == "" && len(in.Quoted) == 0 {
		in.Text = strings.TrimSpace(in.Text + " [empty message]")
	}

	if err := pass.Submit(ctx, in, rc.hand); err != nil {
		return err
	}

	if p.RootID != "" {
		b.read.Put(p.RootID, true)
	}
	return nil
}

func (rc *receiver) hand(ctx context.Context, in bus.Inbound) error {
	if err := rc.submit(ctx, in); err != nil {
		return err
	}
	rc.bot.given.Put(in.Route.MessageID, true)
	return nil
}

// thread completes where a message belongs: every thread is a session. In a
// channel an answer begins one, if the settings say so.
func (rc *receiver) thread(in *bus.Inbound, root string, direct bool) {
	if root == "" && !direct && rc.bot.o.ReplyInThread {
		root = in.Route.MessageID
	}
	if in.Route.ThreadID = root; root != "" {
		in.SessionKey = in.Route.SessionKey() + ":" + root
	}
}

func boolWord(v bool) string {
	if v {
		return "true"
	}
	return "false"
}

func channelType(direct bool, code string) string {
	switch {
	case direct:
		return "dm"
	case code == "P":
		return "private"
	case code == "G":
		return "group"
	}
	return "public"
}

// knownBot reports whether another bot wrote that is on the lists by its id: two
// that answer each other do so all night.
func (o *options) knownBot(p *post) bool {
	return p.bot() && (slices.Contains(o.AllowFrom, p.UserID) || slices.Contains(o.Owners, p.UserID))
}

// serves reports whether a channel is one of the team that the settings name.
// Direct messages belong to no team.
func (o *options) serves(where place) bool {
	return o.TeamID == "" || where.TeamID == "" || where.TeamID == o.TeamID
}

// replied returns the answer that a post gives by being a reply to a question.
// Only a short word counts.
func (rc *receiver) replied(p *post, said string) *bus.Answer {
	q, ok := rc.bot.asked.Get(p.RootID)
	if !ok || p.RootID == "" || len(p.FileIDs) > 0 || p.machine() || strings.HasPrefix(said, "/") {
		return nil
	}
	word := strings.TrimSuffix(said, " "+q.Code)
	if _, remark, ok := q.Choose(word); !ok || remark != "" {
		return nil
	}
	return &bus.Answer{QuestionID: q.ID, Option: word}
}

// passedOn quotes the posts that a post links to, which people do to forward
// them.
func passedOn(p *post) []bus.Quote {
	var out []bus.Quote
	for _, e := range p.Metadata.Embeds {
		if e.Data.Post == nil {
			continue
		}
		if s := strings.TrimSpace(text.Ellipsis(text.Valid(e.Data.Post.Message), quoteMost)); s != "" {
			out = append(out, bus.Quote{About: "forwarded", Text: s})
		}
	}

	return out
}

// earlier returns what was said in a thread before, as far as the agent was not given
// it: all of it at first, and what followed our last answer after a restart.
func (rc *receiver) earlier(ctx context.Context, p *post) []bus.Quote {
	b := rc.bot
	if p.RootID == "" || !b.o.IncludeThreadContext || b.read.Has(p.RootID) {
		return nil
	}

	list, err := rc.threadBefore(ctx, p)
	if err != nil {
		b.deps.Log.WarnContext(ctx, "the earlier posts of a thread cannot be read", "chat", p.ChannelID, "err", err)
		return nil
	}

	var lines []string
	for _, q := range list {
		if q.UserID == b.me.Load().ID {
			lines = nil // the agent was given what it answered
			if q.ID == p.RootID {
				lines = []string{"you: " + text.Label(q.Message, lineMost)}
			}
			continue
		}

		said := text.Label(text.Valid(q.Message), lineMost)
		if said == "" || b.given.Has(q.ID) || b.deps.Known != nil && b.deps.Known(b.deps.Name+":"+q.ID) {
			continue
		}

		who, err := b.known.person(ctx, q.UserID)
		if err != nil {
			who.Username = "a person"
		}
		lines = append(lines, "@"+text.Speaker(who.Username)+": "+said)
	}

	if len(lines) == 0 {
		return nil
	}

	lines = lines[max(0, len(lines)-b.o.ThreadContextLimit):]
	return []bus.Quote{{About: "said before in the thread", Text: strings.Join(lines, "\n")}}
}

// threadBefore returns the posts of a thread before one of it, oldest first.
func (rc *receiver) threadBefore(ctx context.Context, p *post) ([]post, error) {
	var list posts
	path := "/posts/" + p.RootID + "/thread?direction=up&perPage=" + strconv.Itoa(rc.bot.o.ThreadContextLimit)
	if err := rc.bot.calls.call(ctx, http.MethodGet, path, nil, &list); err != nil {
		return nil, err
	}

	var out []post
	for _, q := range list.Posts {
		if q.ID != p.ID && q.CreateAt <= p.CreateAt && q.typed() {
			out = append(out, q)
		}
	}

	sort.SliceStable(out, func(i, j int) bool { return out[i].CreateAt < out[j].CreateAt })
	return out, nil
}
