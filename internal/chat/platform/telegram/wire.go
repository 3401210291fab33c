package telegram

import "encoding/json"

// The parts of the Bot API's objects that we read.

type update struct {
	ID       int64          `json:"update_id"`
	Message  *message       `json:"message,omitempty"`
	Edited   *message       `json:"edited_message,omitempty"`
	Callback *callbackQuery `json:"callback_query,omitempty"`
}

// readUpdate reads an update. One that is not as we know them keeps its
// number, so that it can be acknowledged: it would come again for ever, and
// hold up all others.
func readUpdate(raw []byte) (update, error) {
	var u update
	err := json.Unmarshal(raw, &u)
	if err == nil {
		return u, nil
	}

	var only struct {
		ID int64 `json:"update_id"`
	}
	if e := json.Unmarshal(raw, &only); e != nil {
		return update{}, e
	}
	return update{ID: only.ID}, err
}

// chatID returns the chat an update belongs to, 0 if it belongs to none.
func (u *update) chatID() int64 {
	switch {
	case u.Message != nil:
		return u.Message.Chat.ID
	case u.Edited != nil:
		return u.Edited.Chat.ID
	case u.Callback != nil && u.Callback.Message != nil:
		return u.Callback.Message.Chat.ID
	}
	return 0
}

// album returns the id of the album the update is a part of, "" if none.
func (u *update) album() string {
	if u.Message == nil {
		return ""
	}
	return u.Message.MediaGroupID
}

type user struct {
	ID        int64  `json:"id"`
	IsBot     bool   `json:"is_bot"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name,omitempty"`
	Username  string `json:"username,omitempty"`
	Language  string `json:"language_code,omitempty"`
}

// shown returns the name that people see of a user.
func (u *user) shown() string {
	switch {
	case u == nil:
		return ""
	case u.FirstName != "" && u.LastName != "":
		return u.FirstName + " " + u.LastName
	case u.FirstName != "":
		return u.FirstName
	}
	return u.Username
}

type chatInfo struct {
	ID      int64  `json:"id"`
	Type    string `json:"type"` // private, group, supergroup, channel
	Title   string `json:"title,omitempty"`
	IsForum bool   `json:"is_forum,omitempty"`
}

type entity struct {
	Type   string `json:"type"`
	Offset int    `json:"offset"` // in UTF-16 units
	Length int    `json:"length"` // in UTF-16 units
	User   *user  `json:"user,omitempty"`
}

type message struct {
	ID              int64     `json:"message_id"`
	ThreadID        int64     `json:"message_thread_id,omitempty"`
	From            *user     `json:"from,omitempty"`
	SenderChat      *chatInfo `json:"sender_chat,omitempty"`
	Chat            chatInfo  `json:"chat"`
	Date            int64     `json:"date"`
	EditDate        int64     `json:"edit_date,omitempty"`
	IsTopic         bool      `json:"is_topic_message,omitempty"`
	AutoForward     bool      `json:"is_automatic_forward,omitempty"`
	ForwardOrigin   *origin   `json:"forward_origin,omitempty"`
	ViaBot          *user     `json:"via_bot,omitempty"` // an inline bot wrote the text
	ReplyTo         *message  `json:"reply_to_message,omitempty"`
	Quote           *quote    `json:"quote,omitempty"`
	MediaGroupID    string    `json:"media_group_id,omitempty"`
	Text            string    `json:"text,omitempty"`
	Entities        []entity  `json:"entities,omitempty"`
	Caption         string    `json:"caption,omitempty"`
	CaptionEntities []entity  `json:"caption_entities,omitempty"`
	Photo           []file    `json:"photo,omitempty"`
	Voice           *file     `json:"voice,omitempty"`
	Audio           *file     `json:"audio,omitempty"`
	Document        *file     `json:"document,omitempty"`
	Video           *file     `json:"video,omitempty"`
	VideoNote       *file     `json:"video_note,omitempty"`
	Animation       *file     `json:"animation,omitempty"`
	Sticker         *sticker  `json:"sticker,omitempty"`
	Location        *location `json:"location,omitempty"`
	Venue           *venue    `json:"venue,omitempty"`
	Contact         *contact  `json:"contact,omitempty"`
	Poll            *poll     `json:"poll,omitempty"`
	Dice            *dice     `json:"dice,omitempty"`
	MigrateTo       int64     `json:"migrate_to_chat_id,omitempty"`
	MigrateFrom     int64     `json:"migrate_from_chat_id,omitempty"`
	ReplyMarkup     *keyboard `json:"reply_markup,omitempty"`
	TopicCreated    *struct{} `json:"forum_topic_created,omitempty"`

	typed bool // whoever sent it wrote its words: nothing in it says or may say otherwise
}

// UnmarshalJSON reads a message and whether its words are its sender's own.
func (m *message) UnmarshalJSON(raw []byte) error {
	type plain message
	var got plain
	if err := json.Unmarshal(raw, &got); err != nil {
		return err
	}

	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}

	// Who writes as the group itself comes with the name of a bot.
	masked := got.SenderChat != nil && got.SenderChat.ID == got.Chat.ID
	got.typed = got.From != nil && (!got.From.IsBot || masked)
	for name := range members {
		got.typed = got.typed && (ownMember(name) || masked && (name == "sender_chat" || name == "author_signature"))
	}

	*m = message(got)
	return nil
}

// MarshalJSON writes a message so that UnmarshalJSON finds the same. A message
// with a member that it does not know is not typed.
func (m message) MarshalJSON() ([]byte, error) {
	type plain message
	return json.Marshal(struct {
		plain
		NotTyped bool `json:"nanobot_not_typed,omitempty"`
	}{plain(m), !m.typed})
}

// ownMember lists the members of messages that leave it to the sender to have
// written the words. With any other one, such as via_bot, forward_origin,
// sender_chat or one that we do not know, another sender may have.
func ownMember(name string) bool {
	switch name {
	case "message_id", "message_thread_id", "from", "chat", "date", "edit_date", "is_topic_message", "media_group_id",
		"has_protected_content", "is_from_offline", "effect_id", "sender_boost_count", "paid_star_count", "link_preview_options",
		"text", "entities", "caption", "caption_entities", "show_caption_above_media", "has_media_spoiler",
		"reply_to_message", "external_reply", "quote", "reply_to_story",
		"photo", "voice", "audio", "document", "video", "video_note", "animation", "sticker", "location", "venue", "contact", "poll", "dice":
		return true
	}
	return false
}

// words returns what was written, with the entities that belong to it.
func (m *message) words() (string, []entity) {
	if m.Text != "" {
		return m.Text, m.Entities
	}
	return m.Caption, m.CaptionEntities
}

// topic returns the forum topic, 0 if none. Other message threads are only chains
// of replies and would be refused as a place to send to.
func (m *message) topic() int64 {
	if m.IsTopic {
		return m.ThreadID
	}
	return 0
}

type origin struct {
	Type       string    `json:"type"`
	SenderUser *user     `json:"sender_user,omitempty"`
	SenderName string    `json:"sender_user_name,omitempty"`
	SenderChat *chatInfo `json:"sender_chat,omitempty"`
	Chat       *chatInfo `json:"chat,omitempty"`
}

type quote struct {
	Text string `json:"text"`
}

type file struct {
	ID       string `json:"file_id"`
	UniqueID string `json:"file_unique_id"`
	Size     int64  `json:"file_size,omitempty"`
	MIME     string `json:"mime_type,omitempty"`
	Name     string `json:"file_name,omitempty"`
	Width    int    `json:"width,omitempty"`
	Height   int    `json:"height,omitempty"`
	Path     string `json:"file_path,omitempty"` // only of getFile
}

type sticker struct {
	file
	Emoji    string `json:"emoji,omitempty"`
	Animated bool   `json:"is_animated,omitempty"`
	Video    bool   `json:"is_video,omitempty"`
}

type location struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

type venue struct {
	Location location `json:"location"`
	Title    string   `json:"title"`
	Address  string   `json:"address"`
}

type contact struct {
	Phone     string `json:"phone_number"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name,omitempty"`
}

type poll struct {
	Question string `json:"question"`
	Options  []struct {
		Text string `json:"text"`
	} `json:"options"`
}

type dice struct {
	Emoji string `json:"emoji"`
	Value int    `json:"value"`
}

type callbackQuery struct {
	ID      string   `json:"id"`
	From    *user    `json:"from"`
	Message *message `json:"message,omitempty"`
	Data    string   `json:"data,omitempty"`
}

type keyboard struct {
	Rows [][]button `json:"inline_keyboard"`
}

type button struct {
	Text string `json:"text"`
	Data string `json:"callback_data,omitempty"`
}
