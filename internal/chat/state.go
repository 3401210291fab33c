package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/store"
)

// State keeps the small facts of one channel, such as how far it has read, in
// one document. Writers must not overlap.
type State struct {
	store store.Store
	name  string
	log   *slog.Logger
}

// OpenState names the document; nothing is read yet. A nil log is silent.
func OpenState(s store.Store, name string, log *slog.Logger) *State {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &State{s, name, log}
}

// Load fills a struct with what was saved. Nothing saved leaves it as it is, and
// so does a damaged document: the platform tells again what is in it, or it is
// made again, and a channel that stays off would be worse. The damaged one is
// kept beside it.
func (s *State) Load(into any) error {
	data, version, err := s.store.Doc(context.Background(), s.name)
	if err != nil {
		return fmt.Errorf("read the state of the channel: %w", err)
	}
	if version == store.Missing {
		return nil
	}

	fresh := reflect.New(reflect.TypeOf(into).Elem())
	fresh.Elem().Set(reflect.ValueOf(into).Elem())
	damage := json.Unmarshal(data, fresh.Interface())
	if damage == nil {
		reflect.ValueOf(into).Elem().Set(fresh.Elem())
		return nil
	}

	aside, err := store.SaveDamaged(context.Background(), s.store, s.name, data, time.Now())
	if err != nil {
		return err
	}

	s.log.Warn("the state of the channel is damaged and begins again", "file", s.store.Where(s.name), "kept", s.store.Where(aside), "err", damage)
	return s.store.Remove(context.Background(), s.name)
}

// Save replaces what was saved. It is on disk when Save returns.
func (s *State) Save(v any) error { return s.save(v, true) }

// SaveSoon is Save without waiting for the disk: a power loss may bring back
// what was there before.
func (s *State) SaveSoon(v any) error { return s.save(v, false) }

func (s *State) save(v any, sync bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = s.store.Put(context.Background(), s.name, append(data, '\n'), store.Any, sync)
	return err
}

// Beside is another document of the channel, next to this one.
func (s *State) Beside(what string) *State {
	other := *s
	other.name += "." + what
	return &other
}

// Log opens a log of the channel, next to the document.
func (s *State) Log(ctx context.Context, what string) (store.Log, error) {
	return s.store.Log(ctx, strings.TrimSuffix(s.name, ".json")+"."+what+".jsonl")
}
