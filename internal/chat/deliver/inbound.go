package deliver

import (
	"cmp"
	"context"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
	"github.com/nanobot-go/nanobot/internal/chat/access"
)

// submit takes a message of the channel. The message has a context of its own;
// what is shown about it lives as long as the channel.
func (s *supervisor) submit(ctx, life context.Context, in bus.Inbound) error {
	if s.closing.Load() || s.m.isEnding() {
		return chat.ErrStopping
	}

	if in.Route.Channel == "" {
		in.Route.Channel = s.name
	}

	in.Language = s.language(in.Language)
	if !s.caps.Whole {
		in.WantsStream = s.out.a.streamer != nil
	}

	if args, ok := pairingArgs(in.Text); ok {
		return s.pair(ctx, in, args)
	}
	if err := s.m.o.Queue.Submit(ctx, in); err != nil {
		return err
	}

	s.health.received()
	s.out.a.quotes.store(in.Route.ChatID, in.Route.MessageID, chat.Quoted{Text: in.Text, Media: in.Media, SenderID: in.SenderID})
	s.out.replies.open(in.Route, s.out.now())
	s.out.back(in.Route)  // what was deferred may be sent now
	if in.Answer == nil { // no turn of its own comes of an answer
		s.signals.show(life, in.Route)
	}
	return nil
}

// language returns the one that a person reads, by the section, their profile on the
// platform, and the platform.
func (s *supervisor) language(profile string) string {
	return cmp.Or(string(s.common.Language), phrase.Language(profile), s.usual)
}

func pairingArgs(text string) (string, bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "/"+access.PairingCommand)
	if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\n' {
		return "", false
	}
	return rest, true
}

// pair answers /pairing without the agent: it must work when no model does,
// and no model should see codes.
func (s *supervisor) pair(ctx context.Context, in bus.Inbound, args string) error {
	ctx = phrase.With(ctx, in.Language)
	text := phrase.Of(ctx, "Only an owner of this bot can do that, in a direct chat.")
	if in.Scope == "" && !in.Untrusted {
		text = s.m.book.Command(ctx, args)
	}
	return s.m.o.Queue.Publish(ctx, bus.Outbound{
		ID: "pairing:" + in.ID, Kind: bus.Final, Route: in.Route, ReplyTo: in.Route.MessageID, Text: text, Plain: true,
		Meta: in.Meta, Turn: &bus.Turn{SessionKey: in.SessionKey, StopReason: "completed"},
	})
}
