package access

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
)

const pairingUsage = "Use /pairing list, /pairing approve CODE, /pairing deny CODE or USER, /pairing revoke USER or /pairing revoke CHANNEL USER."

// PairingCommand is the slash command that channels answer by themselves.
const PairingCommand = "pairing"

// Command runs the words after /pairing and says what happened. The caller has
// made sure that an owner wrote them.
func (b *Book) Command(ctx context.Context, args string) string {
	words := strings.Fields(args)
	if len(words) == 0 {
		words = []string{"list"}
	}

	var reply string
	var err error
	switch verb := strings.ToLower(words[0]); {
	case verb == "list" && len(words) == 1:
		reply, err = b.describe(ctx)
	case (verb == "approve" || verb == "deny") && len(words) == 2:
		var who PairingRequest
		if verb == "approve" {
			who, err = b.Approve(ctx, words[1])
			reply = phrase.Of(ctx, "%s may now talk to me on %s.", who.Sender, who.Channel)
		} else {
			who, err = b.Deny(ctx, words[1])
			reply = phrase.Of(ctx, "Denied the request of %s on %s.", who.Sender, who.Channel)
		}

	case verb == "revoke" && (len(words) == 2 || len(words) == 3):
		channel, sender := "", words[len(words)-1]
		if len(words) == 3 {
			channel = words[1]
		}

		var from []string
		from, err = b.Revoke(ctx, channel, sender)
		reply = phrase.Of(ctx, "%s may no longer talk to me on %s.", sender, strings.Join(from, ", "))
		if len(from) == 0 {
			reply = phrase.Of(ctx, "%s was not paired. /pairing list shows who is.", sender)
		}

	default:
		return phrase.Of(ctx, pairingUsage)
	}

	if err != nil {
		return phrase.Of(ctx, "That did not work: %v.", err)
	}
	return reply
}

func (b *Book) describe(ctx context.Context) (string, error) {
	waiting, approved, err := b.List()
	if err != nil {
		return "", err
	}

	var text strings.Builder
	for _, r := range waiting {
		text.WriteString(phrase.Of(ctx, "waiting: %s on %s, until %s; approve with their code\n", r.Sender, r.Channel, r.Expires.Format("15:04")))
	}

	for _, name := range slices.Sorted(maps.Keys(approved)) {
		text.WriteString(phrase.Of(ctx, "approved on %s: %s\n", name, strings.Join(approved[name], ", ")))
	}

	if text.Len() == 0 {
		return phrase.Of(ctx, "No people are paired or waiting."), nil
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}
