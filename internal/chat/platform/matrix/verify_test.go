package matrix

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nanobot-go/nanobot/internal/chat/platform/matrix/matrixtest"
)

// request is what another client sends to begin a verification.
func request(at time.Time) map[string]any {
	return map[string]any{
		"msgtype": verifyRequest, "body": "please verify", "to": matrixtest.Bot, "from_device": "PHONE", "methods": []string{methodSAS, "m.qr_code.scan.v1"},
		"timestamp": at.UnixMilli(), "transaction_id": "t1",
	}
}

func cancels(t *testing.T, list []matrixtest.Event) []proof {
	t.Helper()
	out := make([]proof, len(list))
	for i, e := range list {
		if err := json.Unmarshal(e.Content, &out[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A verification that nobody can confirm is declined with a hint. A stranger and
// an old request get no answer, and the agent hears of none.
func TestVerificationDeclined(t *testing.T) {
	t.Parallel()
	fake := home(t)
	r := newRig(t, fake, map[string]any{"e2eeEnabled": false})
	defer r.begin()()
	now := time.Now().Add(time.Second) // not before the start
	fake.Say(matrixtest.Event{ID: "$mal", Room: malRoom, Sender: mallory}, request(now))
	r.say("req1", request(now))
	r.say("req2", request(now))
	other := request(now)
	other["to"] = mallory
	r.say("req3", other)
	r.say("last", matrixtest.Text("hello"))
	if in := r.receive(1); in[0].Text != "hello" {
		t.Errorf("the agent got %q", in[0].Text)
	}

	rooms := fake.Events(verifyPrefix+"cancel", matrixtest.Bot)
	got := cancels(t, rooms)
	if len(got) != 2 || got[0].Code != "m.user" || !strings.Contains(got[0].Reason, "nanobot channels login matrix") || got[0].Relates.Event != "$req1" || got[1].Relates.Event != "$req2" || rooms[0].Room != annRoom {
		t.Errorf("the room got %+v", got)
	}
	said := fake.Messages(matrixtest.Bot)
	if len(said) != 1 || !strings.Contains(said[0].Body, "nanobot channels login matrix") || said[0].Kind != "m.notice" {
		t.Errorf("the bot said %+v, want one notice", said)
	}

	person := newRig(t, fake, map[string]any{"userId": ann, "password": "ann's", "e2eeEnabled": false})
	defer person.begin()()
	old := request(time.Now().Add(-time.Hour))
	old["transaction_id"] = "old"
	for _, content := range []map[string]any{old, {"from_device": 7}, request(now)} {
		if err := person.sendEvent(t.Context(), talk{user: matrixtest.Bot, device: "*", txn: "t1"}, "request", content); err != nil {
			t.Fatal(err)
		}
	}
	r.Await("an answer to the device", func() bool { return len(fake.Told(verifyPrefix+"cancel", matrixtest.Bot)) > 0 })
	told := fake.Told(verifyPrefix+"cancel", matrixtest.Bot)
	if c := cancels(t, told)[0]; c.Code != "m.user" || c.Txn != "t1" || told[0].Room != ann+"/PHONE" || len(told) != 1 {
		t.Errorf("the device was told %+v", told)
	}
}
