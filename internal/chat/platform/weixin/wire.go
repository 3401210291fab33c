package weixin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// ident is a number that may be larger than any type of ours, or a text.
type ident string

// UnmarshalJSON implements json.Unmarshaler.
func (i *ident) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*i = ident(s)
		return nil
	}

	if *i = ident(data); *i == "null" || *i == "0" {
		*i = ""
	}
	return nil
}

func (i ident) number() int64 {
	n, err := strconv.ParseInt(string(i), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// The types of items.
const (
	itemText  = 1
	itemImage = 2
	itemVoice = 3
	itemFile  = 4
	itemVideo = 5
	itemTool  = 11 // a tool was started; only sent
)

// message is one that a person wrote.
type message struct {
	Seq     ident  `json:"seq"`
	ID      ident  `json:"message_id"`
	From    string `json:"from_user_id"`
	GroupID string `json:"group_id"`
	Created ident  `json:"create_time_ms"`
	Type    int    `json:"message_type"` // 2 is ours
	Items   []item `json:"item_list"`
	Context string `json:"context_token"`
}

const ownMessage = 2

func (m *message) id() string {
	return string(cmp.Or(m.ID, m.Seq, ident(m.From)+"_"+m.Created))
}

func (m *message) at() time.Time {
	if n := m.Created.number(); n > 0 {
		return time.UnixMilli(n)
	}
	return time.Time{}
}

// item is a piece of a message.
type item struct {
	Type  int       `json:"type"`
	Ref   *refer    `json:"ref_msg"`
	Text  *textItem `json:"text_item"`
	Image *fileItem `json:"image_item"`
	Voice *fileItem `json:"voice_item"`
	File  *fileItem `json:"file_item"`
	Video *fileItem `json:"video_item"`
}

type textItem struct {
	Text string `json:"text"`
}

// fileItem is what items with a file have, each its own part of it.
type fileItem struct {
	Media  *cdnFile `json:"media"`
	Thumb  *cdnFile `json:"thumb_media"`
	AESKey string   `json:"aeskey"` // of images, in hex
	Text   string   `json:"text"`   // of voices: what WeChat understood
	Coding int      `json:"encode_type"`
	Name   string   `json:"file_name"`
	Length ident    `json:"len"`
}

// cdnFile says where a file is.
type cdnFile struct {
	Param   string `json:"encrypt_query_param"`
	Key     string `json:"aes_key"`
	FullURL string `json:"full_url"`
}

func (m *cdnFile) there() bool { return m != nil && (m.Param != "" || m.FullURL != "") }

// refer is what a message answers.
type refer struct {
	Title   string   `json:"title"`
	Item    *item    `json:"message_item"`
	ID      ident    `json:"svr_id"`
	Partial *partial `json:"partial_text"`
}

// partial is the piece of a message that was chosen for an answer.
type partial struct {
	Start      string `json:"start"`
	End        string `json:"end"`
	StartIndex int    `json:"startindex"`
	EndIndex   int    `json:"endindex"`
	MD5        string `json:"quotemd5"`
}

// updates is the answer of a poll. Each message is read by itself, so that one
// that cannot be read does not take the others with it.
type updates struct {
	Messages []json.RawMessage `json:"msgs"`
	Cursor   string            `json:"get_updates_buf"`
	Timeout  ident             `json:"longpolling_timeout_ms"`
}

// object is a JSON object that is sent.
type object = map[string]any

func isGroupID(id string) bool { return strings.HasSuffix(id, "@chatroom") }
