package dingtalk

import "testing"

// Administrators choose staff ids. One of another organisation, or one that looks
// like an id that DingTalk gives out, says nothing.
func TestStaffIDsOfOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m    message
		want bool
	}{
		"of ours":         {message{StaffID: "boss", SenderCorp: "a", BotCorp: "a"}, true},
		"of nobody knows": {message{StaffID: "boss"}, true},
		"of others":       {message{StaffID: "boss", SenderCorp: "b", BotCorp: "a"}, false},
		"like another id": {message{StaffID: "$:LWCP_v1:$x", SenderCorp: "a", BotCorp: "a"}, false},
		"none":            {message{SenderCorp: "a", BotCorp: "a"}, false},
	} {
		if got := c.m.ownStaff(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
