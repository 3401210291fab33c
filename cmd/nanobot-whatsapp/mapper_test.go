package main

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"go.mau.fi/whatsmeow/proto/waCommon"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"
	"google.golang.org/protobuf/proto"
)

var (
	bot   = types.NewJID("4915100000001", types.DefaultUserServer)
	botID = types.NewJID("555000111", types.HiddenUserServer)
	ann   = types.NewJID("4917600000042", types.DefaultUserServer)
	annID = types.NewJID("123456789012345", types.HiddenUserServer)
	crowd = types.NewJID("120363000000000001", types.GroupServer)
	me    = self{phone: bot, lid: botID}
)

// said is a message of Ann in a direct chat.
func said(m *waE2E.Message) *events.Message {
	return &events.Message{
		Info: types.MessageInfo{
			MessageSource: types.MessageSource{Chat: annID, Sender: types.JID{User: annID.User, Server: annID.Server, Device: 7}, SenderAlt: ann},
			ID:            "A1", PushName: "Ann", Timestamp: time.Unix(1700000000, 0),
		},
		Message: m,
	}
}

func inGroup(e *events.Message) *events.Message {
	e.Info.Chat, e.Info.IsGroup = crowd, true
	return e
}

func plain(s string) *waE2E.Message { return &waE2E.Message{Conversation: proto.String(s)} }

func about(s string, c *waE2E.ContextInfo) *waE2E.Message {
	return &waE2E.Message{ExtendedTextMessage: &waE2E.ExtendedTextMessage{Text: proto.String(s), ContextInfo: c}}
}

func envelope(m *waE2E.Message) *waE2E.FutureProofMessage {
	return &waE2E.FutureProofMessage{Message: m}
}

func TestMapper(t *testing.T) {
	const head = `"type":"message","id":"A1","sender":"123456789012345@lid","pn":"4917600000042@s.whatsapp.net"`
	const tail = `"timestamp":1700000000,"participant":"123456789012345@lid","participantAlt":"4917600000042@s.whatsapp.net","name":"Ann"`
	const group = `"type":"message","id":"A1","sender":"120363000000000001@g.us"`
	const members = `"participant":"123456789012345@lid","participantAlt":"4917600000042@s.whatsapp.net","name":"Ann"`
	voice := &waE2E.Message{AudioMessage: &waE2E.AudioMessage{PTT: proto.Bool(true), Mimetype: proto.String("audio/ogg; codecs=opus"), FileLength: proto.Uint64(9), DirectPath: proto.String("/v"), Waveform: []byte{1}}}
	kept := &waE2E.Message{AudioMessage: &waE2E.AudioMessage{PTT: proto.Bool(true), Mimetype: proto.String("audio/ogg; codecs=opus"), FileLength: proto.Uint64(9), DirectPath: proto.String("/v")}}
	ref, err := proto.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	edit := &waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{
		Type: waE2E.ProtocolMessage_MESSAGE_EDIT.Enum(), Key: &waCommon.MessageKey{ID: proto.String("A0")}, EditedMessage: plain("better"),
	}}
	for name, c := range map[string]struct {
		evt  *events.Message
		want string // JSON, "" is nothing
	}{
		"message":   {said(plain("hi")), head + `,"content":"hi",` + tail},
		"ephemeral": {said(&waE2E.Message{EphemeralMessage: envelope(plain("hi"))}), head + `,"content":"hi",` + tail},
		"view once": {said(&waE2E.Message{ViewOnceMessageV2: envelope(&waE2E.Message{EphemeralMessage: envelope(plain("hi"))})}), head + `,"content":"hi",` + tail},
		"edited": {
			said(&waE2E.Message{EditedMessage: envelope(edit)}),
			`"type":"message","id":"A0","sender":"123456789012345@lid","pn":"4917600000042@s.whatsapp.net","content":"better",` + tail + `,"edited":true`,
		},
		"voice": {
			said(voice),
			head + `,` + tail + `,"files":[{"kind":"voice","name":"voice.ogg","mimetype":"audio/ogg; codecs=opus","size":9,"ref":"` + base64.StdEncoding.EncodeToString(ref) + `"}]`,
		},
		"group": {
			inGroup(said(about("@555000111 what?", &waE2E.ContextInfo{MentionedJID: []string{"555000111@lid"}}))),
			group + `,"content":"what?","timestamp":1700000000,"isGroup":true,"wasMentioned":true,` + members,
		},
		"reply": {
			inGroup(said(about("no", &waE2E.ContextInfo{StanzaID: proto.String("Q"), Participant: proto.String("4915100000001@s.whatsapp.net"), QuotedMessage: plain("yes?")}))),
			group + `,"content":"no","timestamp":1700000000,"isGroup":true,` + members + `,"replyTo":{"id":"Q","participant":"4915100000001@s.whatsapp.net","text":"yes?","ours":true}`,
		},
		"forwarded": {said(about("rules", &waE2E.ContextInfo{IsForwarded: proto.Bool(true)})), head + `,"content":"rules",` + tail + `,"forwarded":true`},
		"place": {
			said(&waE2E.Message{LocationMessage: &waE2E.LocationMessage{DegreesLatitude: proto.Float64(1.5), DegreesLongitude: proto.Float64(2)}}),
			head + `,` + tail + `,"notes":["[location: 1.5, 2]"]`,
		},
		"contact": {
			said(&waE2E.Message{ContactMessage: &waE2E.ContactMessage{DisplayName: proto.String("Eve"), Vcard: proto.String("BEGIN:VCARD\nTEL;type=CELL:+1 2\nEND:VCARD")}}),
			head + `,` + tail + `,"notes":["[contact: Eve, +1 2]"]`,
		},
		"reaction": {said(&waE2E.Message{ReactionMessage: &waE2E.ReactionMessage{Text: proto.String("👍")}}), ""},
		"deletion": {said(&waE2E.Message{ProtocolMessage: &waE2E.ProtocolMessage{Type: waE2E.ProtocolMessage_REVOKE.Enum()}}), ""},
		"empty":    {said(&waE2E.Message{}), ""},
		"nothing":  {said(nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mapper{sent: func(string) bool { return false }}
			f := m.frame(c.evt, me)
			if c.want == "" {
				if f != nil {
					t.Errorf("got %+v", f)
				}
				return
			}
			got, err := json.Marshal(f)
			if err != nil || string(got) != "{"+c.want+"}" {
				t.Errorf("got  %s\nwant {%s} (%v)", got, c.want, err)
			}
		})
	}
}

// What the account writes itself is handed over only from its own chat, and not
// what this program sent.
func TestOwnMessages(t *testing.T) {
	for name, c := range map[string]struct {
		chat     types.JID
		selfChat bool
		id       string
		want     bool
	}{
		"off":        {bot, false, "A", false},
		"own chat":   {bot, true, "A", true},
		"by the LID": {botID, true, "A", true},
		"other chat": {ann, true, "A", false},
		"by us":      {bot, true, "ours", false},
		"in a group": {crowd, true, "A", false},
		"status":     {types.StatusBroadcastJID, true, "A", false},
	} {
		m := &mapper{selfChat: c.selfChat, sent: func(id string) bool { return id == "ours" }}
		e := said(plain("hi"))
		e.Info.Chat, e.Info.Sender, e.Info.IsFromMe, e.Info.ID = c.chat, bot, true, c.id
		if f := m.frame(e, me); (f != nil) != c.want || f != nil && !f.Self {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
