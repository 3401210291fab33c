package teamstest

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The kinds of chats.
const (
	Personal = "personal"
	Group    = "groupChat"
	Channel  = "channel"
)

// AddChat makes a chat known that the bot is in.
func (s *Server) AddChat(id, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chats[id] = kind
}

// AddThread makes a thread of a channel known.
func (s *Server) AddThread(chat, root string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.threads[chat+";messageid="+root] = true
}

// Activity is a message of a person in a personal chat, with changes.
func (s *Server) Activity(id, person, chat, text string, changes Object) Object {
	a := Object{
		"type": "message", "id": id, "timestamp": time.Now().UTC().Format(time.RFC3339Nano), "serviceUrl": s.ServiceURL(),
		"channelId": "msteams", "locale": "en-US", "textFormat": "plain", "text": text,
		"from":         Object{"id": "29:" + person, "name": "Ann", "aadObjectId": person},
		"conversation": Object{"conversationType": Personal, "tenantId": Tenant, "id": chat},
		"recipient":    Object{"id": "28:" + s.App, "name": BotName},
		"channelData":  Object{"tenant": Object{"id": Tenant}},
	}

	maps.Copy(a, changes)
	return a
}

// Claims are those of a token that Teams sends, with changes; nil removes one.
func (s *Server) Claims(changes Object) Object {
	now := time.Now().Unix()
	c := Object{"iss": "https://api.botframework.com", "aud": s.App, "nbf": now - 60, "exp": now + 3600, "serviceurl": s.ServiceURL()}
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// Sign makes the token that Teams sends along.
func (s *Server) Sign(key string, claims Object) string {
	s.mu.Lock()
	k := s.key[key]
	s.mu.Unlock()
	return signWith(k, key, claims)
}

func signWith(k *rsa.PrivateKey, id string, claims Object) string {
	t := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims(claims))
	t.Header["kid"], t.Header["x5t"] = id, id
	out, err := t.SignedString(k)
	if err != nil {
		panic(err)
	}
	return out
}

func pkcs1(k *rsa.PrivateKey) []byte { return x509.MarshalPKCS1PrivateKey(k) }

// Post sends an activity to the bot, signed, and again while the bot cannot be
// reached, as Teams does. It returns the status and the answer.
func (s *Server) Post(activity Object) (int, []byte) {
	chat, _ := activity["conversation"].(Object)
	if id, _ := chat["id"].(string); id != "" {
		kind, _ := chat["conversationType"].(string)
		base, root := splitThread(id)
		s.AddChat(base, kind)
		s.mu.Lock()
		s.people[base] = activity["from"]
		s.mu.Unlock()
		if root != "" {
			s.AddThread(base, root)
		}
	}

	body, err := json.Marshal(activity)
	if err != nil {
		panic(err)
	}

	for range 1500 {
		status, answer := s.Deliver(s.Sign(KeyID, s.Claims(nil)), body)
		if status != 0 && status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
			s.mu.Lock()
			s.accepted[fmt.Sprint(activity["id"])] = status == http.StatusOK
			s.mu.Unlock()
			return status, answer
		}

		select {
		case <-s.closed:
			return 0, nil
		case <-time.After(20 * time.Millisecond):
		}
	}

	return 0, nil
}

// Accepted reports whether the bot accepted an activity, so that it is not sent
// again.
func (s *Server) Accepted(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted[id]
}

// Deliver sends a body to the bot once. A status of 0 means that it could not be
// reached. An empty token is none.
func (s *Server) Deliver(token string, body []byte) (int, []byte) {
	s.mu.Lock()
	url := s.endpoint
	s.mu.Unlock()
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body)) //nolint:noctx // bounded by the client
	if err != nil {
		panic(err)
	}

	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}

	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		return 0, nil
	}

	defer res.Body.Close() //nolint:errcheck // read only
	data, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, data
}

// consent is what a person does about a file that is offered. The lock is held.
func (s *Server) consent(m *Message, card Object) {
	content, _ := card["content"].(Object)
	name, _ := card["name"].(string)
	action, value := "accept", Object{"type": "fileUpload", "context": content["acceptContext"]}
	if s.refusing {
		action, value["context"] = "decline", content["declineContext"]
	} else {
		id := s.now()
		s.uploads[id] = &File{Name: name}
		value["uploadInfo"] = Object{
			"contentUrl": s.http.URL + "/files/" + id, "name": name, "uploadUrl": s.http.URL + "/upload/" + id, "uniqueId": id, "fileType": "txt",
		}
	}

	value["action"] = action
	a := s.Activity(s.now(), "owner", m.Chat, "", Object{"type": "invoke", "name": "fileConsent/invoke", "replyToId": m.ID, "value": value, "from": s.people[m.Chat]})
	s.work.Go(func() { s.Post(a) })
}
