package session

import (
	"context"
	"errors"
	"strings"
)

// Terminal is the channel of the conversations at a terminal of this machine.
const Terminal = "cli"

// Split divides the key of a conversation into its channel and the chat there. A key
// without a colon, as Python nanobot wrote for terminals, has no chat.
func Split(key string) (channel, chat string) {
	channel, chat, _ = strings.Cut(key, ":")
	return channel, chat
}

// Unattended reports whether people take no part in a conversation: those of jobs,
// triggers, the heartbeat and Dream.
func Unattended(key string) bool {
	switch channel, _ := Split(key); channel {
	case "cron", "trigger", "dream":
		return channel != key
	}
	return key == "heartbeat"
}

// Find returns the key of the stored conversation that a person means by a name: the
// key itself, or the name of a conversation at the terminal. If there is neither, the
// error is ErrNotFound and the key the one that such a conversation had.
func (s *Store) Find(ctx context.Context, name string) (key string, err error) {
	_, err = s.Metadata(ctx, name)
	if !errors.Is(err, ErrNotFound) || strings.Contains(name, ":") {
		return name, err
	}
	key = Terminal + ":" + name
	_, err = s.Metadata(ctx, key)
	return key, err
}
