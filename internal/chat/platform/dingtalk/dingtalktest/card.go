package dingtalktest

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Templates of AI cards that the server knows, and the variables in them that
// can be streamed.
const (
	Template    = "0a1b2c3d-nanobot.schema" // its variable is content
	SDKTemplate = "382e4302-551d-4880-bf29-a30acfab2e71.schema"

	cardMost   = 20000 // bytes of a card's text
	streamMost = 20    // calls in a second
)

// Card is an AI card, as people see it.
type Card struct {
	ID      string
	Chat    string // "": it was not delivered
	Text    string
	Flow    string   // 1 processing, 2 writing, 3 finished, 4 executing, 5 failed
	At      []string // people who are mentioned
	Streams int      // texts that were streamed
	Begins  string   // the first text that people saw

	key   string
	guids map[string]bool
}

// Cards are those the bot made, in order.
func (s *Server) Cards() (out []Card) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cards {
		out = append(out, *c)
	}
	return out
}

// NoScope takes a permission about cards away, such as Card.Streaming.Write.
func (s *Server) NoScope(scope string) { s.locked(func() { s.noScope = scope }) }

// Unpublish makes the template one that cannot be used.
func (s *Server) Unpublish() { s.locked(func() { s.unpublished = true }) }

func (s *Server) cardRoutes(handle func(pattern string, do func(b Object) (any, *refusal))) {
	handle("POST /v1.0/card/instances", func(b Object) (any, *refusal) {
		_, no := s.createCard(b)
		return Object{"success": true, "result": b["outTrackId"]}, no
	})
	handle("POST /v1.0/card/instances/deliver", func(b Object) (any, *refusal) {
		c := s.card(b)
		if c == nil {
			return nil, bad("param.outTrackIdNotExist")
		}
		results, no := s.deliverCard(c, b)
		return Object{"success": true, "result": results}, no
	})

	handle("POST /v1.0/card/instances/createAndDeliver", func(b Object) (any, *refusal) {
		c, no := s.createCard(b)
		if no != nil {
			return nil, no
		}
		results, no := s.deliverCard(c, b)
		return Object{"success": true, "result": Object{"outTrackId": c.ID, "deliverResults": results}}, no
	})

	handle("PUT /v1.0/card/instances", func(b Object) (any, *refusal) { return Object{"success": true, "result": true}, s.updateCard(b) })
	handle("PUT /v1.0/card/streaming", func(b Object) (any, *refusal) { return Object{"success": true, "result": true}, s.streamCard(b) })
}

func bad(code string) *refusal {
	return &refusal{status: http.StatusBadRequest, code: code, text: code}
}

// lacks refuses a call for which the app lacks a permission.
func (s *Server) lacks(scope string) *refusal {
	if s.noScope != scope {
		return nil
	}
	return &refusal{status: http.StatusForbidden, code: "Forbidden.AccessDenied.AccessTokenPermissionDenied", text: "no permission", scopes: []string{scope}}
}

func (s *Server) card(b Object) *Card {
	for _, c := range s.cards {
		if c.ID == b["outTrackId"] {
			return c
		}
	}
	return nil
}

// params are the variables of a card in a request. All are strings.
func params(b Object) (map[string]string, *refusal) {
	data, _ := b["cardData"].(Object)
	list, ok := data["cardParamMap"].(Object)
	if !ok {
		return nil, bad("param.empty")
	}

	out := map[string]string{}
	for k, v := range list {
		if out[k], ok = v.(string); !ok {
			return nil, bad("param.cardParamMapInvalid")
		}
	}

	if flow, ok := out["flowStatus"]; ok && !slices.Contains([]string{"1", "2", "3", "4", "5"}, flow) {
		return nil, bad("param.flowStatusInvalid")
	}
	return out, nil
}

func (s *Server) createCard(b Object) (*Card, *refusal) {
	id, _ := b["outTrackId"].(string)
	values, no := params(b)
	switch no2 := s.lacks("Card.Instance.Write"); {
	case no2 != nil:
		return nil, no2
	case no != nil:
		return nil, no
	case id == "" || b["callbackType"] != "STREAM":
		return nil, bad("param.empty")
	case b["cardTemplateId"] != Template && b["cardTemplateId"] != SDKTemplate:
		return nil, bad("param.templateNotExist")
	case s.unpublished:
		return nil, bad("param.templateUnpublished")
	case s.card(b) != nil:
		return nil, bad("param.outTrackIdDuplicated")
	}

	c := &Card{ID: id, Flow: "1", key: "content", guids: map[string]bool{}}
	if b["cardTemplateId"] == SDKTemplate {
		c.key = "msgContent"
	}
	if flow := values["flowStatus"]; flow != "" {
		c.Flow = flow
	}

	c.Text = values[c.key]
	s.cards = append(s.cards, c)
	return c, nil
}

// deliverCard shows a card in the chat that the request names.
func (s *Server) deliverCard(c *Card, b Object) ([]Object, *refusal) {
	space, _ := b["openSpaceId"].(string)
	place, ok := strings.CutPrefix(space, "dtv1.card//")
	kind, id, _ := strings.Cut(place, ".")
	group, _ := b["imGroupOpenDeliverModel"].(Object)
	robot, _ := b["imRobotOpenDeliverModel"].(Object)
	result := Object{"spaceId": id, "spaceType": kind, "success": true, "errorMsg": ""}
	switch {
	case !ok || id == "" || b["userIdType"] != nil && b["userIdType"] != 1.0:
		return nil, bad("param.openSpaceIdInvalid")
	case kind == "IM_GROUP" && group["robotCode"] == s.client:
		c.Chat = "group:" + id
		at, _ := group["atUserIds"].(Object)
		for who := range at {
			c.At = append(c.At, who)
		}

	case kind == "IM_ROBOT" && robot["spaceType"] == "IM_ROBOT":
		if c.Chat = id; !s.people[id] {
			c.Chat, result["success"], result["errorMsg"] = "", false, "the user is not known"
		}
	default:
		return nil, bad("param.deliverModelInvalid")
	}

	if c.Chat != "" {
		s.own = append(s.own, Message{Chat: c.Chat, Way: "card", Key: c.ID, Param: Object{"text": c.Text}, At: c.At})
	}
	return []Object{result}, nil
}

// say shows a text in a card.
func (s *Server) say(c *Card, words string) {
	if c.Text = words; c.Begins == "" {
		c.Begins = words
	}
	for i, m := range s.own {
		if m.Way == "card" && m.Key == c.ID {
			s.own[i].Param = Object{"text": words}
		}
	}
}

func (s *Server) updateCard(b Object) *refusal {
	c := s.card(b)
	values, no := params(b)
	options, _ := b["cardUpdateOptions"].(Object)

	switch no2 := s.lacks("Card.Instance.Write"); {
	case no2 != nil:
		return no2
	case no != nil:
		return no
	case c == nil:
		return bad("param.outTrackIdNotExist")
	}

	words, ok := values[c.key]
	if len(words) > cardMost {
		return bad("param.cardDataTooLong")
	}

	if ok || options["updateCardDataByKey"] != true { // else all variables are replaced
		s.say(c, words)
	}
	if flow := values["flowStatus"]; flow != "" {
		c.Flow = flow
	}
	return nil
}

func (s *Server) streamCard(b Object) *refusal {
	c := s.card(b)
	guid, _ := b["guid"].(string)
	words, ok := b["content"].(string)
	full, _ := b["isFull"].(bool)
	last, _ := b["isFinalize"].(bool)
	failed, _ := b["isError"].(bool)
	second := time.Now().Unix()
	if s.second != second {
		s.second, s.streams = second, 0
	}

	s.streams++
	switch no := s.lacks("Card.Streaming.Write"); {
	case no != nil:
		return no
	case s.streams > streamMost:
		return &refusal{status: http.StatusForbidden, code: "Forbidden.AccessDenied.QpsLimitForAppkeyAndApi", text: "too many calls"}
	case c == nil:
		return &refusal{status: http.StatusInternalServerError, code: "unknownError", text: "unknownError"}
	case guid == "" || c.guids[guid]:
		return bad("param.guidInvalid")
	case b["key"] != c.key:
		return bad("param.keyNotExist")
	case !full: // a variable of Markdown is always replaced
		return bad("param.isFullInvalid")
	case !ok || len(words) > cardMost:
		return bad("param.contentInvalid")
	case c.Flow == "3" || c.Flow == "5":
		return bad("param.cardFinished")
	}

	if c.Text == words && !last && !failed {
		s.idle++
	}

	c.guids[guid] = true
	c.Streams++
	s.say(c, words)

	switch {
	case failed:
		c.Flow = "5"
	case last:
		c.Flow = "3"
	default:
		c.Flow = "2"
	}

	return nil
}

// Scan says what becomes of the QR codes of a registration: what each question
// about one is answered with. The last answer stays. The words are wait, expired,
// refused, broken and success.
func (s *Server) Scan(states ...string) { s.locked(func() { s.scans = states }) }

// Codes is how many QR codes were made.
func (s *Server) Codes() (n int) { s.locked(func() { n = s.codes }); return n }

// Forget makes DingTalk know no program that it makes apps for.
func (s *Server) Forget() { s.locked(func() { s.unknown = true }) }

func (s *Server) registrationRoutes(handle func(pattern string, do func(b Object) (any, *refusal))) {
	handle("POST /app/registration/init", func(b Object) (any, *refusal) {
		if source, _ := b["source"].(string); source == "" || s.unknown {
			return nil, &refusal{status: 200, errcode: 400001, text: "source is not allowed"}
		}
		s.nonce = "nonce" + s.number()
		return Object{"errcode": 0, "errmsg": "ok", "nonce": s.nonce, "expires_in": 300}, nil
	})

	handle("POST /app/registration/begin", func(b Object) (any, *refusal) {
		if s.nonce == "" || b["nonce"] != s.nonce {
			return nil, &refusal{status: 200, errcode: 400002, text: "invalid nonce"}
		}

		s.nonce = "" // good for one code
		s.codes++
		s.device = "device" + s.number()
		page := "https://open-dev.dingtalk.com/registration?user_code=CODE" + s.number()
		return Object{
			"errcode": 0, "errmsg": "ok", "device_code": s.device, "user_code": "CODE", "verification_uri": page, "verification_uri_complete": page, "expires_in": 7200, "interval": 1,
		}, nil
	})

	handle("POST /app/registration/poll", s.poll)
}

func (s *Server) poll(b Object) (any, *refusal) {
	if s.device == "" || b["device_code"] != s.device {
		return nil, &refusal{status: 200, errcode: 400003, text: "invalid device_code"}
	}

	state := "wait"
	if len(s.scans) > 0 {
		state = s.scans[0]
	}
	if len(s.scans) > 1 {
		s.scans = s.scans[1:]
	}

	answer := Object{"errcode": 0, "errmsg": "ok", "status": "WAITING"}
	switch state {
	case "broken":
		return nil, &refusal{status: 502, garbage: true}
	case "expired":
		answer["status"], s.device = "EXPIRED", ""
	case "refused":
		answer["status"], answer["fail_reason"], s.device = "FAIL", "the user refused", ""
	case "success": // the secret is told once
		answer["status"], answer["client_id"], answer["client_secret"], s.device = "SUCCESS", s.client, ClientSecret, ""
	}

	return answer, nil
}
