package matrixtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// timeline is how many events of a room one sync has; older ones are a gap.
const timeline = 20

func position(seq int) string { return "s" + strconv.Itoa(seq) }

func number(s string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(s, "s"))
	return n
}

// sync answers at once with what is new, else when something comes.
func (h *Home) sync(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since := number(q.Get("since"))
	wait, _ := strconv.Atoi(q.Get("timeout"))
	limit := time.NewTimer(time.Duration(wait) * time.Millisecond)
	defer limit.Stop()

	for over := false; ; {
		h.mu.Lock()
		who, ok := h.tokens[bearer(r)]
		if !ok {
			h.mu.Unlock()
			refuse(w, http.StatusUnauthorized, "M_UNKNOWN_TOKEN", "Invalid access token passed.")
			return
		}

		body, some := h.news(who, since, q.Get("since") == "")
		changed, hung := h.changed, h.hung
		h.mu.Unlock()

		if !hung && (some || over || since == 0) {
			answer(w, http.StatusOK, body)
			return
		}

		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-limit.C:
			over = true
		}
	}
}

// news is what happened for a person after a position.
func (h *Home) news(who session, since int, first bool) (Object, bool) {
	join, invite, leave := Object{}, Object{}, Object{}
	for id, r := range h.rooms {
		mine := r.state["m.room.member\x00"+who.user]
		switch membership(mine.Content) {
		case "join":
			if part := r.news(who.user, since, mine.seq); part != nil {
				join[id] = part
			}
		case "invite":
			if mine.seq > since {
				invite[id] = Object{"invite_state": Object{"events": r.stripped(who.user)}}
			}
		case "leave", "ban":
			if mine.seq > since && !first {
				leave[id] = Object{"timeline": Object{"events": []Event{mine.Event}}}
			}
		}
	}

	out := Object{"next_batch": position(h.seq), "rooms": Object{"join": join, "invite": invite, "leave": leave}}
	some := len(join)+len(invite)+len(leave) > 0

	a := h.accounts[who.user]
	var private []Object
	for kind, d := range a.data {
		if d.seq > since {
			private = append(private, Object{"type": kind, "content": d.Object})
		}
	}

	if len(private) > 0 {
		out["account_data"], some = Object{"events": private}, true
	}

	var changed []string
	for user, seq := range a.lists {
		if seq > since && !first {
			changed = append(changed, user)
		}
	}

	if len(changed) > 0 {
		out["device_lists"], some = Object{"changed": changed, "left": []string{}}, true
	}

	if d := a.devices[who.device]; d != nil {
		d.box = slices.DeleteFunc(d.box, func(s stamped) bool { return s.seq <= since })
		list := []Object{}
		for _, s := range d.box {
			list = append(list, s.Object)
		}
		out["to_device"] = Object{"events": list}
		out["device_one_time_keys_count"] = Object{"signed_curve25519": len(d.once)}
		some = some || len(list) > 0
	}

	return out, some
}

// news is what happened in a room after a position. A person who joined since
// gets the latest of what was said before, and all of the state.
func (r *room) news(user string, since, joined int) Object {
	if joined > since {
		since = 0
	}

	var events []placed
	for _, e := range r.events {
		if e.seq > since {
			events = append(events, e)
		}
	}

	if len(events) == 0 {
		return nil
	}

	limited := len(events) > timeline
	events = events[max(0, len(events)-timeline):]
	shown := make([]Event, len(events))
	for i, e := range events {
		shown[i] = e.Event
		if e.Sender != user {
			shown[i].Unsigned = nil
		}
	}

	known := []Event{}
	for _, e := range r.state {
		if e.seq < events[0].seq && e.seq > since {
			known = append(known, e.Event)
		}
	}
	return Object{
		"state":    Object{"events": known},
		"timeline": Object{"events": shown, "limited": limited, "prev_batch": position(events[0].seq - 1)},
		"summary":  Object{}, "ephemeral": Object{"events": []any{}}, "account_data": Object{"events": []any{}},
		"unread_notifications": Object{},
	}
}

// stripped is what a person who is invited sees of a room.
func (r *room) stripped(user string) []Object {
	var out []Object
	for key, e := range r.state {
		if e.Type == "m.room.member" && !strings.HasSuffix(key, "\x00"+user) && *e.StateKey != r.state["m.room.member\x00"+user].Sender {
			continue
		}
		out = append(out, Object{"type": e.Type, "state_key": *e.StateKey, "sender": e.Sender, "content": e.Content})
	}
	return out
}

// What follows exchanges the keys of devices.

func keysUpload(q *request) (int, any) {
	var in struct {
		Keys     json.RawMessage            `json:"device_keys"`
		Once     map[string]json.RawMessage `json:"one_time_keys"`
		Fallback map[string]json.RawMessage `json:"fallback_keys"`
	}
	if json.Unmarshal(q.body, &in) != nil {
		return bad(http.StatusBadRequest, "M_BAD_JSON", "not keys")
	}

	d := q.h.accounts[q.who.user].devices[q.who.device]
	if len(in.Keys) > 0 {
		d.keys = in.Keys
		seq := q.h.next()
		for _, a := range q.h.accounts {
			a.lists[q.who.user] = seq
		}
		q.h.wake()
	}

	for k, v := range in.Once {
		if old, ok := d.once[k]; ok && string(old) != string(v) {
			return bad(http.StatusBadRequest, "M_UNKNOWN", "One time key "+k+" already exists.")
		}
		d.once[k] = v
	}

	maps.Copy(d.fallback, in.Fallback)
	return http.StatusOK, Object{"one_time_key_counts": Object{"signed_curve25519": len(d.once)}}
}

func keysQuery(q *request) (int, any) {
	asked, _ := q.data["device_keys"].(Object)
	devices, signing := Object{}, map[string]Object{}
	for user := range asked {
		a := q.h.accounts[user]
		if a == nil {
			continue
		}

		list := Object{}
		for id, d := range a.devices {
			if d.keys != nil {
				list[id] = d.keys
			}
		}

		devices[user] = list
		for use, key := range a.signing {
			if signing[use] == nil {
				signing[use] = Object{}
			}
			signing[use][user] = key
		}
	}

	out := Object{"device_keys": devices, "failures": Object{}}
	for use, keys := range signing {
		out[use+"s"] = keys
	}
	return http.StatusOK, out
}

func keysClaim(q *request) (int, any) {
	var in struct {
		Keys map[string]map[string]string `json:"one_time_keys"`
	}
	if json.Unmarshal(q.body, &in) != nil {
		return bad(http.StatusBadRequest, "M_BAD_JSON", "not a claim")
	}

	out := Object{}
	for user, devices := range in.Keys {
		list := Object{}
		for id := range devices {
			if a := q.h.accounts[user]; a != nil && a.devices[id] != nil {
				d := a.devices[id]
				for k, v := range d.once {
					list[id] = Object{k: v}
					delete(d.once, k)
					break
				}

				if list[id] == nil && len(d.fallback) > 0 {
					list[id] = d.fallback
				}
			}
		}

		out[user] = list
	}

	return http.StatusOK, Object{"one_time_keys": out, "failures": Object{}}
}

func toDevice(q *request) (int, any) {
	var in struct {
		Messages map[string]map[string]Object
	}
	if json.Unmarshal(q.body, &in) != nil {
		return bad(http.StatusBadRequest, "M_BAD_JSON", "not messages")
	}

	for user, devices := range in.Messages {
		a := q.h.accounts[user]
		for id, content := range devices {
			q.h.told = append(q.h.told, Event{Type: q.r.PathValue("type"), Room: user + "/" + id, Sender: q.who.user, Content: encode(content)})
			if a == nil {
				continue
			}

			for own, d := range a.devices {
				if id == own || id == "*" {
					what := Object{"type": q.r.PathValue("type"), "sender": q.who.user, "content": content}
					deliver := func() { d.box = append(d.box, stamped{q.h.next(), what}) }
					if q.h.holding && what["type"] == "m.room.encrypted" {
						q.h.late = append(q.h.late, deliver)
					} else {
						deliver()
					}
				}
			}
		}
	}

	q.h.wake()
	return http.StatusOK, Object{}
}

// signingUpload wants the password, as servers do for a second set of keys.
func signingUpload(q *request) (int, any) {
	a := q.h.accounts[q.who.user]
	auth, _ := q.data["auth"].(Object)
	if auth == nil || auth["password"] != a.password {
		return http.StatusUnauthorized, Object{"session": "uia", "flows": []Object{{"stages": []string{"m.login.password"}}}, "params": Object{}}
	}

	for _, use := range []string{"master_key", "self_signing_key", "user_signing_key"} {
		if key, ok := q.data[use]; ok {
			a.signing[use] = encode(key)
		}
	}
	return http.StatusOK, Object{}
}
