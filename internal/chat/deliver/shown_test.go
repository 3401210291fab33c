package deliver

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nanobot-go/nanobot/internal/base/store/disk"
	"github.com/nanobot-go/nanobot/internal/bus"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// A channel is told what is wanted besides answers: by its section, else by
// the settings of all channels.
func TestShown(t *testing.T) {
	t.Parallel()
	got := map[string]chat.Filters{}
	factory := func(d chat.Deps, _ json.RawMessage) (chat.Channel, error) {
		got[d.Name] = d.Shown
		return nil, errors.New("only asked")
	}
	_, err := NewManager(Options{
		Queue: silent{}, Store: disk.Open(t.TempDir(), nil), DataDir: t.TempDir(), Drivers: map[string]chat.Driver{"x": {New: factory}},
		Defaults: chat.Filters{SendProgress: true},
		Sections: map[string]json.RawMessage{
			"x": json.RawMessage(`{"enabled":true}`), "x.b": json.RawMessage(`{"enabled":true,"sendProgress":false,"sendToolHints":true}`),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]chat.Filters{"x": {SendProgress: true}, "x.b": {SendToolHints: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

// silent is a queue that nothing is put into.
type silent struct{ bus.Queue }

func (silent) Publish(context.Context, bus.Outbound) error { return nil }
