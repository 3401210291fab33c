package matrixtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
)

const backupAlgorithm = "m.megolm_backup.v1.curve25519-aes-sha2"

// keyBackup is a backup of keys.
type keyBackup struct {
	auth Object
	keys map[string]Object // by room and session
}

// Told returns what was said to devices, with "user/device" instead of the
// room. "" is any.
func (h *Home) Told(kind, sender string) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Event
	for _, e := range h.told {
		if e.Type == kind && (sender == "" || e.Sender == sender) {
			out = append(out, e)
		}
	}
	return out
}

// HoldKeys keeps the keys of rooms that devices send each other, until it is
// called with false.
func (h *Home) HoldKeys(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.holding = on
	if on {
		return
	}

	for _, deliver := range h.late {
		deliver()
	}

	h.late = nil
	h.wake()
}

// Backup returns how many keys the backup of an account has.
func (h *Home) Backup(user string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, b := h.accounts[user].backup()
	if b == nil {
		return 0
	}
	return len(b.keys)
}

// DropBackup replaces the backup of an account by an empty one, as another client
// does that resets it.
func (h *Home) DropBackup(user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.accounts[user]
	a.backups = append(a.backups, &keyBackup{auth: Object{"public_key": "bm90IHlvdXJz"}, keys: map[string]Object{}})
}

// Signed reports whether the account vouches for a device, or for the key of
// another account.
func (h *Home) Signed(by, user, what string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	raw := h.accounts[user].signing["master_key"]
	if d := h.accounts[user].devices[what]; d != nil {
		raw = d.keys
	}

	var own struct{ Keys map[string]string }
	use := map[bool]string{true: "self_signing_key", false: "user_signing_key"}[by == user]
	_ = json.Unmarshal(h.accounts[by].signing[use], &own) // without keys it signs nothing
	var signed struct {
		Signatures map[string]map[string]string
	}
	_ = json.Unmarshal(raw, &signed)

	for name := range own.Keys {
		if signed.Signatures[by][name] != "" {
			return true
		}
	}
	return false
}

// signaturesUpload adds signatures to the keys that are there.
func signaturesUpload(q *request) (int, any) {
	failures := Object{}
	for user, list := range q.data {
		a := q.h.accounts[user]
		things, _ := list.(Object)
		for name, thing := range things {
			var place *json.RawMessage
			raw := json.RawMessage(nil)
			if a != nil && a.devices[name] != nil {
				place = &a.devices[name].keys
			} else if a != nil && a.signing["master_key"] != nil {
				raw = a.signing["master_key"]
				place = &raw
			}

			given, _ := thing.(Object)
			if place == nil || *place == nil {
				failures[user] = Object{name: Object{"errcode": "M_NOT_FOUND", "error": "No such key"}}
				continue
			}

			*place = withSignatures(*place, given["signatures"])
			if raw != nil {
				a.signing["master_key"] = raw
			}
		}
	}

	q.h.wake()
	return http.StatusOK, Object{"failures": failures}
}

func withSignatures(raw json.RawMessage, more any) json.RawMessage {
	var keys Object
	if json.Unmarshal(raw, &keys) != nil {
		return raw
	}

	all, _ := keys["signatures"].(Object)
	if all == nil {
		all = Object{}
	}

	given, _ := more.(Object)
	for by, list := range given {
		old, _ := all[by].(Object)
		if old == nil {
			old = Object{}
		}
		signatures, _ := list.(Object)
		maps.Copy(old, signatures)
		all[by] = old
	}

	keys["signatures"] = all
	return encode(keys)
}

func (a *account) backup() (version string, b *keyBackup) {
	if len(a.backups) == 0 {
		return "", nil
	}
	return strconv.Itoa(len(a.backups)), a.backups[len(a.backups)-1]
}

func backupVersion(q *request) (int, any) {
	version, b := q.h.accounts[q.who.user].backup()
	if b == nil {
		return bad(http.StatusNotFound, "M_NOT_FOUND", "No current backup version")
	}
	return http.StatusOK, Object{"version": version, "algorithm": backupAlgorithm, "auth_data": b.auth, "count": len(b.keys), "etag": "0"}
}

func backupMake(q *request) (int, any) {
	auth, _ := q.data["auth_data"].(Object)
	if q.data["algorithm"] != backupAlgorithm || auth["public_key"] == nil {
		return bad(http.StatusBadRequest, "M_BAD_JSON", "not a backup")
	}
	a := q.h.accounts[q.who.user]
	a.backups = append(a.backups, &keyBackup{auth: auth, keys: map[string]Object{}})
	version, _ := a.backup()
	return http.StatusOK, Object{"version": version}
}

// current is the backup that a request names, or what is wrong with it.
func (q *request) current() (b *keyBackup, status int, body any) {
	version, b := q.h.accounts[q.who.user].backup()
	switch asked := q.r.URL.Query().Get("version"); {
	case b == nil:
		status, body = bad(http.StatusNotFound, "M_NOT_FOUND", "Unknown backup version")
	case asked == "":
		status, body = bad(http.StatusBadRequest, "M_MISSING_PARAM", "Missing string query parameter version")
	case asked != version && q.r.Method == http.MethodPut:
		status, body = http.StatusForbidden, Object{"errcode": "M_WRONG_ROOM_KEYS_VERSION", "error": "Wrong backup version", "current_version": version}
	case asked != version:
		status, body = bad(http.StatusNotFound, "M_NOT_FOUND", "Unknown backup version")
	}

	return b, status, body
}

func backupPut(q *request) (int, any) {
	b, status, body := q.current()
	if status != 0 {
		return status, body
	}

	var in struct {
		Rooms map[string]struct{ Sessions map[string]Object }
	}
	if json.Unmarshal(q.body, &in) != nil || len(in.Rooms) == 0 {
		return bad(http.StatusBadRequest, "M_BAD_JSON", "not keys")
	}

	for room, r := range in.Rooms {
		for session, key := range r.Sessions {
			for _, part := range []string{"first_message_index", "forwarded_count", "is_verified", "session_data"} {
				if key[part] == nil {
					return bad(http.StatusBadRequest, "M_BAD_JSON", part+" is missing")
				}
			}
			b.keys[room+"/"+session] = key
		}
	}

	return http.StatusOK, Object{"etag": "1", "count": len(b.keys)}
}

func backupGet(q *request) (int, any) {
	b, status, body := q.current()
	if status != 0 {
		return status, body
	}
	if key, ok := b.keys[q.r.PathValue("room")+"/"+q.r.PathValue("session")]; ok {
		return http.StatusOK, key
	}
	return bad(http.StatusNotFound, "M_NOT_FOUND", "No room_keys found")
}
