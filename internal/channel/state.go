package channel

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nanobot-go/nanobot/internal/store"
)

// State keeps the small facts of one channel, such as how far it has read, in
// one document. Writers must not overlap.
type State struct {
	store store.Store
	name  string
}

// OpenState names the document; nothing is read yet.
func OpenState(s store.Store, name string) *State { return &State{s, name} }

// Load fills a struct with what was saved. Nothing saved leaves it as it is.
func (s *State) Load(into any) error {
	data, version, err := s.store.Doc(context.Background(), s.name)
	if err != nil {
		return fmt.Errorf("read the state of the channel: %w", err)
	}
	if version == store.Missing {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s is damaged (%w); move it away to reset the state", s.store.Where(s.name), err)
	}
	return nil
}

// Save replaces what was saved. It is on disk when Save returns.
func (s *State) Save(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.store.Put(context.Background(), s.name, append(data, '\n'), store.Any, true)
	return err
}
