package slack

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// event is something that arrived, as it is kept until it is handled.
type event struct {
	Message *message     `json:"message,omitempty"`
	Tap     *interaction `json:"tap,omitempty"`
	Command *command     `json:"command,omitempty"`
	Bot     string       `json:"bot"`               // who we were
	Backlog bool         `json:"backlog,omitempty"` // read from a history
}

// message is what we read of an event of the types message and app_mention, and
// of a message in a history.
type message struct {
	Type        string       `json:"type"`
	SubType     string       `json:"subtype,omitempty"`
	Channel     string       `json:"channel,omitempty"`
	User        string       `json:"user,omitempty"`
	BotID       string       `json:"bot_id,omitempty"`
	Text        string       `json:"text,omitempty"`
	TS          string       `json:"ts"`
	Thread      string       `json:"thread_ts,omitempty"`
	ThreadOf    string       `json:"parent_user_id,omitempty"`
	Edited      *edited      `json:"edited,omitempty"`
	Files       []file       `json:"files,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
	Changed     *message     `json:"message,omitempty"`          // of message_changed
	Before      *message     `json:"previous_message,omitempty"` // of message_changed
}

type edited struct {
	TS string `json:"ts"`
}

// file is one that came with a message.
type file struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MIME     string `json:"mimetype,omitempty"`
	SubType  string `json:"subtype,omitempty"` // slack_audio is a voice message
	Mode     string `json:"mode,omitempty"`
	Size     int64  `json:"size,omitempty"`
	URL      string `json:"url_private,omitempty"`
	Download string `json:"url_private_download,omitempty"`
}

// attachment is a message that was shared, or what Slack shows of an address.
type attachment struct {
	Shared   bool   `json:"is_share,omitempty"`
	Unfurled bool   `json:"is_msg_unfurl,omitempty"`
	Author   string `json:"author_name,omitempty"`
	Text     string `json:"text,omitempty"`
	Fallback string `json:"fallback,omitempty"`
}

// interaction is a press of a button.
type interaction struct {
	Type    string `json:"type"`
	Trigger string `json:"trigger_id"`
	User    struct {
		ID string `json:"id"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Message struct {
		TS     string          `json:"ts"`
		Thread string          `json:"thread_ts"`
		Text   string          `json:"text"`
		Blocks json.RawMessage `json:"blocks"`
	} `json:"message"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
		TS    string `json:"action_ts"`
	} `json:"actions"`
}

// command is a slash command.
type command struct {
	Name    string `json:"command"`
	Text    string `json:"text"`
	User    string `json:"user_id"`
	Channel string `json:"channel_id"`
	Trigger string `json:"trigger_id"`
}

// callback is the outer part of an event.
type callback struct {
	Type      string          `json:"type"`
	Challenge string          `json:"challenge"`
	Event     json.RawMessage `json:"event"`
}

// when returns the time in a time stamp; zero if there is none.
func when(ts string) time.Time {
	sec, _, _ := strings.Cut(ts, ".")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}
