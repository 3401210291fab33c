package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

const (
	verifyWait   = 10 * time.Minute // for a person with another device
	verifyErrors = 5                // syncs in a row that fail
	keyTries     = 3

	recoveryAsk = "Recovery key of the bot's account, to sign its device and to use the key backup (empty: go on without)"
	backupAsk   = "Keep a backup of the encryption keys on the homeserver? nanobot makes a recovery key that opens it (yes or no)"
	recoveryNew = "The recovery key is\n\n    %s\n\nKeep it in a safe place: it is not shown again. Press Enter when you have noted it"
	verifyAsk   = "Verify this device by comparing emoji with another client now (yes or no)"
	verifyNote  = "Start the verification in the other client now. In Element: the picture of the bot in your chat with it, Verify; or, as the bot's account, Settings, Sessions, this device, Verify session."
)

// setup is a login with a person: what encryption needs of them.
type setup struct {
	bot    *bot
	desk   desk
	dialog chat.Dialog
}

// login logs in, and lets a person open the key backup and verify the device.
// None of it is needed to talk.
func login(ctx context.Context, d chat.Deps, section json.RawMessage, p chat.Dialog, _ bool) (chat.Result, error) {
	d.Refine = nil // the channel does not run
	ch, err := newChannel(d, section)
	if err != nil {
		return chat.Result{}, err
	}

	b := ch.(*bot) //nolint:errcheck // it is what newChannel makes
	defer b.polls.rest.Client.CloseIdleConnections()
	defer b.client.rest.Client.CloseIdleConnections()
	if err := b.start(ctx); err != nil {
		return chat.Result{}, err
	}

	result := chat.Result{Identity: b.o.UserID}
	if !b.o.E2EEEnabled {
		return result, nil
	}

	c, err := newCrypt(ctx, b)
	if err != nil {
		return chat.Result{}, fmt.Errorf("encryption: %w", err)
	}

	b.vault.set(c, nil)
	defer b.closeCrypt()
	s := &setup{bot: b, desk: c, dialog: p}
	if err := s.recover(ctx); err != nil {
		return chat.Result{}, err
	}

	answer, err := p.Ask(ctx, chat.Question{Text: verifyAsk})
	if err != nil {
		return chat.Result{}, err
	}

	if yes(answer) {
		err = s.verify(ctx)
	}
	return result, err
}

// recover opens the backup of the account, or makes one.
func (s *setup) recover(ctx context.Context) error {
	r, err := s.desk.recovery(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("ask for the key backup: %w", err)
	case r.ours && r.signed:
		s.dialog.Tell(chat.Step{Note: "The device is signed, and the key backup is in use."})
		return nil
	case r.storage || r.backup:
		return s.enter(ctx)
	}

	answer, err := s.dialog.Ask(ctx, chat.Question{Text: backupAsk})
	if err != nil || !yes(answer) {
		return err
	}

	key, err := s.desk.enroll(ctx)
	if err != nil {
		return fmt.Errorf("make a key backup: %w", err)
	}

	_, err = s.dialog.Ask(ctx, chat.Question{Text: fmt.Sprintf(recoveryNew, key)})
	return err
}

// enter asks for the recovery key until it is right.
func (s *setup) enter(ctx context.Context) error {
	ask := recoveryAsk
	for range keyTries {
		key, err := s.dialog.Ask(ctx, chat.Question{Text: ask, Hidden: true})
		if err != nil || strings.TrimSpace(key) == "" {
			return err
		}
		if err = s.desk.unlock(ctx, key); err == nil {
			s.dialog.Tell(chat.Step{Note: "The recovery key is right: the device is signed, and the key backup is in use if there is one."})
			return nil
		}
		if !errors.Is(err, errRecoveryKey) {
			return fmt.Errorf("use the recovery key: %w", err)
		}
		ask = err.Error() + ". " + recoveryAsk
	}

	return errRecoveryKey
}

// verify waits for another device that wants to compare emoji. What else is said
// meanwhile is read by the channel, when it goes on.
func (s *setup) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, verifyWait)
	defer cancel()
	sync, err := newSyncer(s.bot, nil)
	if err != nil {
		return err
	}

	s.dialog.Tell(chat.Step{Note: verifyNote, Expires: s.bot.deps.Now().Add(verifyWait)})
	c := &comparison{bot: s.bot, keys: s.desk, dialog: s.dialog}
	for up, failed := false, 0; ; up = true {
		got, err := sync.poll(ctx, up)
		switch {
		case ctx.Err() != nil:
			return errors.New("no device has finished a verification in time; start it again with: " + s.bot.fix())
		case err != nil && (loggedOut(err) || failed == verifyErrors):
			return err
		case err != nil:
			failed++
			_ = wait.For(ctx, troubleWait)
			continue
		}

		failed = 0
		for _, e := range s.events(ctx, got, sync.since) {
			if done, err := c.step(ctx, e); done || err != nil {
				if err == nil {
					s.dialog.Tell(chat.Step{Note: "The verification is done: both sides trust each other."})
				}
				return err
			}
		}

		sync.since = got.Next
	}
}

// events returns what others said to the device or in a room.
func (s *setup) events(ctx context.Context, got news, since string) []event {
	s.desk.sync(ctx, got.cryptNews, since)
	list := s.bot.decodeAll(ctx, "", got.toDevice())
	for id, r := range got.Rooms.Join {
		timeline := s.bot.decodeAll(ctx, id, r.Timeline.Events)
		s.bot.rooms.update(id, timeline)
		for _, e := range timeline {
			if e.Type == "m.room.encrypted" {
				e, _ = s.desk.decrypt(ctx, e) // what cannot be read is not for us
			}
			if e.Sender != s.bot.o.UserID && since != "" {
				list = append(list, e)
			}
		}
	}

	return list
}
