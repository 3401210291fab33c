package subject_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// A refusal names itself and its values, over HTTP and as an error.
func TestRefusalDetail(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	code, body := get(t, h.Desk, "/api/sessions?limit="+strings.Repeat("é", 2000))
	var got struct {
		Error struct {
			Status        int
			Code, Message string
			Params        map[string]any
		}
	}
	must(t, json.Unmarshal([]byte(body), &got))
	value, _ := got.Error.Params["value"].(string)
	if code != 400 || got.Error.Status != 400 || got.Error.Code != "not_a_number" || got.Error.Params["field"] != "limit" || len(value) != 1000 {
		t.Errorf("refusal = %d %.300s", code, body)
	}
	if _, body := get(t, h.Desk, "/api/sessions/websocket:none/webui-thread"); !strings.Contains(body, `"code":"session_missing"`) {
		t.Errorf("no such conversation: %s", body)
	}
}
