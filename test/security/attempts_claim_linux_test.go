package security_test

import (
	"maps"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
	"github.com/nanobot-go/nanobot/internal/chat/platform/mattermost/mattermosttest"
)

// claimAttempts are by somebody who says in their own words who they are: in the
// lines of a mail, in the request for a socket, by a name that an owner's list has.
func claimAttempts() []attempt {
	list := mailClaims()
	list = append(list, socketClaims()...)
	return append(list, listedNames()...)
}

// strangerProof is what the provider's server writes on top of a stranger's own mail:
// it is really from there.
const strangerProof = "Authentication-Results: mx.example.org; dmarc=pass (p=reject) header.from=evil.example\n" +
	"Received: from out.evil.example (out.evil.example [192.0.2.66])\n by mx.example.org with ESMTPS id 2; Sun, 15 Nov 2026 08:00:00 +0000\n"

// mailClaims are mails of a stranger whose own address is proven, and whose other
// lines are the owner's.
func mailClaims() []attempt {
	var list []attempt
	for _, c := range []struct {
		what string
		from string // the line, and further ones
		home bool   // sent from the owner's own domain
	}{
		{"the owner's address for a name", `From: "` + mailOwner + `" <eve@evil.example>`, false},
		{"the owner's address for a name, in encoded words", "From: =?utf-8?q?ada=40friends=2Eexample?= <eve@evil.example>", false},
		{"the owner's address in brackets in the name", `From: "Ada <` + mailOwner + `>" <eve@evil.example>`, false},
		{"the owner's address as a comment", "From: eve@evil.example (" + mailOwner + ")", false},
		{"the owner's address to answer to", "From: eve@evil.example\nReply-To: " + mailOwner, false},
		{"the owner as the sender for another one", "From: eve@evil.example\nSender: Ada <" + mailOwner + ">\nReturn-Path: <" + mailOwner + ">", false},
		{"a second line with the owner as the author", "From: eve@evil.example\nFrom: Ada <" + mailOwner + ">", false},
		{"the owner as the second of two authors", "From: eve@evil.example, Ada <" + mailOwner + ">", false},
		{"the owner's address in the place of the name of the mailbox", `From: "` + mailOwner + `"@evil.example`, false},
		{"the owner's mailbox at another domain", "From: Ada <ada@evil.example>", false},
		{"the owner's domain before another one", "From: Ada <" + mailOwner + ".evil.example>", false},
		{"the owner's address as the name of a group of people", "From: \"" + mailOwner + "\": eve@evil.example;", false},
		{"a letter of another script in the owner's mailbox", "From: Ada <\u0430da@friends.example>", true},
		{"full-width letters in the owner's mailbox", "From: Ada <\uff41\uff44\uff41@friends.example>", true},
		{"a letter that nobody sees in the owner's mailbox", "From: Ada <ada\u200b@friends.example>", true},
		{"a tag at the owner's mailbox", "From: Ada <ada+eve@friends.example>", true},
	} {
		list = append(list, attempt{
			route: "mail: a stranger's mail, rightly signed, has " + c.what, expect: keptOff, kept: true,
			run: func(a *trial) {
				m := a.mail()
				a.starts()
				proof := strangerProof
				if c.home {
					proof = mailProof
				}
				m.put(proof + c.from + "\nTo: " + mailBot + "\nSubject: hello\nDate: Sun, 15 Nov 2026 08:00:00 +0000\nMessage-ID: <{{n}}@evil.example>\n" + plainBody(words))
				a.gate.until("the mail is passed over", func() bool {
					log := a.gate.out.String()
					return strings.Contains(log, `msg="a message was refused" channel=email `) || strings.Contains(log, "a mail without one clear sender is passed over") || a.told() > 0
				})
				m.deliver(letter(mailProof, "later", plainBody("thank you")))
			},
		})
	}
	return list
}

// claim is a request for a socket by a program that has no token, or not the right
// one.
type claim struct {
	what     string
	query    string
	header   http.Header
	protocol []string
	section  object // settings of the channel
}

// socketClaims are by programs that call themselves the owner.
func socketClaims() []attempt {
	var list []attempt
	for _, c := range []claim{
		{what: "is called what the owner's is called", query: "client_id=me"},
		{what: "is called the owner's token", query: "client_id=" + wsToken},
		{what: "is called a name of `allowFrom`", query: "client_id=me", section: object{"allowFrom": []string{"me"}}},
		{what: "has the token and almost a name of `allowFrom`, in capitals", query: "client_id=ME&token=" + wsToken, section: object{"allowFrom": []string{"me"}}},
		{what: "has the token and almost a name of `allowFrom`, with a letter that nobody sees", query: "client_id=me%E2%80%8B&token=" + wsToken, section: object{"allowFrom": []string{"me"}}},
		{what: "has the token and two names, the second of `allowFrom`", query: "client_id=eve&client_id=me&token=" + wsToken, section: object{"allowFrom": []string{"me"}}},
		{what: "has the token in other letters", query: "client_id=me&token=" + strings.ToUpper(wsToken)},
		{what: "has the token in full-width letters", query: "client_id=me&token=" + fullWidth(wsToken)},
		{what: "has the beginning of the token", query: "client_id=me&token=" + wsToken[:len(wsToken)-1]},
		{what: "has an empty token in every place", query: "client_id=me&token=", header: http.Header{"Authorization": {"Bearer "}}, protocol: []string{"nanobot.token."}},
		{what: "says that it is signed in as the owner, as a proxy does", query: "client_id=me", header: http.Header{"X-Forwarded-User": {"owner"}, "Remote-User": {"owner"}, "X-Forwarded-For": {"127.0.0.1"}}},
		{what: "says that it is signed in as the owner by the header of a proxy that is elsewhere", query: "client_id=me", header: http.Header{"X-Signed-In": {"owner"}}, section: object{
			"trustedProxyAuth": object{"trustedPeerCidrs": []string{"192.0.2.1/32"}, "assertionHeader": "X-Signed-In"},
		}},
	} {
		list = append(list, attempt{
			route: "WebSocket: a program " + c.what, expect: "refused at the handshake, and " + keptOff, kept: true,
			config: func(a *trial) {
				a.chats()
				channels, _ := a.config["channels"].(map[string]any)
				delete(channels, "telegram")
				section, _ := channels["websocket"].(map[string]any)
				maps.Copy(section, c.section)
			},
			run: func(a *trial) { a.claims(c) },
		})
	}
	return list
}

// claims asks for a socket, and gives orders if it gets one.
func (a *trial) claims(c claim) {
	a.t.Helper()
	a.gate.start()
	owner, err := a.gate.connect(wsToken) // the channel is there, and the owner is heard
	a.shows(err == nil, "the owner has no socket: %v", err)

	address := strings.Replace(a.gate.base, "http://", "ws://", 1) + "/?" + c.query
	conn, res, err := websocket.Dial(a.t.Context(), address, &websocket.DialOptions{HTTPHeader: c.header, Subprotocols: c.protocol})
	switch {
	case err == nil:
		a.broke("the program was let in")
		_ = conn.CloseNow() // it is not used
	case res == nil:
		a.shows(false, "no answer to the handshake: %v", err)
	default:
		refused := res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden
		a.shows(refused, "the handshake is answered with %s", res.Status)
		if res.Body != nil {
			_ = res.Body.Close()
		}
	}
	if owner != nil {
		owner.asks("hello")
	}
}

// asks begins a chat and waits for the answer.
func (s *socket) asks(text string) {
	s.g.a.t.Helper()
	s.send(map[string]any{"type": "new_chat"})
	chat := s.attached()
	mark := s.g.a.model.beginMarked(nil)
	s.send(map[string]any{"type": "message", "chat_id": chat, "content": text, "turn_id": "t-" + random()})
	s.told(mark)
}

// listedNames are by somebody whose name is on a list of a platform with names: a
// guest at most.
func listedNames() []attempt {
	var list []attempt
	for _, c := range []struct {
		route string
		stage func(a *trial) *stage
		lists object
		worn  guise
	}{
		{"Discord: who has a user name of `owners` approves the code of a third person", stageDiscord, object{"owners": []string{"@ada"}}, guise{more: object{"author": discordPerson("66", "ada")}}},
		{"Discord: who has a user name of `allowFrom`, in capitals, approves the code of a third person", stageDiscord, object{"allowFrom": []string{"101", "@ADA"}}, guise{more: object{"author": discordPerson("66", "ada")}}},
		{"Discord: who has the owner's number for a user name, where all may write, approves the code of a third person", stageDiscord, object{"allowFrom": []string{"*"}}, guise{worn: "101", more: object{"author": discordPerson("66", "101")}}},
		{"Mattermost: who has a user name of `owners` approves the code of a third person", stageMattermost, object{"owners": []string{"@ada"}}, guise{worn: "ada"}},
		{"Mattermost: who has a user name of `allowFrom` approves the code of a third person", stageMattermost, object{"allowFrom": []string{"ada"}}, guise{worn: "ada"}},
		{"Mattermost: who has the owner's id for a user name, where all may write, approves the code of a third person", stageMattermost, object{"allowFrom": []string{"*"}}, guise{worn: mattermosttest.ID("owner1")}},
		{"WhatsApp: who has a hidden id with the digits of an entry of `owners`, where all may write, approves the code of a third person", stageWhatsApp, object{"allowFrom": []string{"*"}}, guise{as: whatsAppOwner + "@lid"}},
		{"NapCat: who is called the owner's number, where all may write, approves the code of a third person", stageNapCat, object{"allowFrom": []string{"*"}}, guise{worn: "10101"}},
		{"Slack: who is called the owner's id, where all may write, approves the code of a third person", stageSlack, object{"allowFrom": []string{"*"}}, guise{worn: "U0OWN1"}},
		{"Matrix: who has the owner's id in capitals, where all may write, approves the code of a third person", stageMatrix, object{"allowFrom": []string{"*"}}, guise{as: "@OWNER1:" + matrixtest.Server}},
	} {
		var s *stage
		list = append(list, attempt{
			route: c.route, expect: "refused: a name is no owner", either: true,
			config: func(a *trial) {
				s = c.stage(a)
				section := object{"groupPolicy": "open", "language": "en"}
				maps.Copy(section, s.section)
				maps.Copy(section, c.lists)
				a.enroll(s.name, &platform{owners: s.owners, section: section})
			},
			run: func(a *trial) {
				g := a.starts()
				s.pose("/pairing approve AAAA-BBBB", c.worn)
				g.until("an answer", func() bool {
					return strings.Contains(s.told(), "owner of this bot") || strings.Contains(s.told(), "did not work")
				})
				if strings.Contains(s.told(), "did not work") {
					a.broke("a name approves people: %q", s.told())
				}
			},
		})
	}
	return list
}
