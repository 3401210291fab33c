package turn

import (
	"context"
	"fmt"
	"time"

	"github.com/nanobot-go/nanobot/internal/core/turn/owntool"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// open finds the model and the folder, names the conversation, and keeps the message
// with the mark of an open turn. It returns what the model is to answer.
func (t *Turn) open(ctx context.Context) (asked llm.Message, err error) {
	rt, err := t.chooseModel(ctx)
	if err != nil {
		return asked, err
	}

	t.rt = rt
	t.enterProject(ctx)

	if err = t.beginRun(); err != nil {
		return asked, err
	}
	if err = t.keepTitle(); err != nil {
		return asked, fmt.Errorf("keep the title: %w", err)
	}

	rec, asked := t.question(ctx)
	if err = t.sess.BeginTurn(t.id, rec); err != nil {
		return asked, fmt.Errorf("keep the message: %w", err)
	}

	t.tell(RuntimeEvent{Kind: InputAccepted})
	t.tell(RuntimeEvent{Kind: TurnStarted})
	return asked, nil
}

// chooseModel is the model that answers: what the message or the conversation asks for.
func (t *Turn) chooseModel(ctx context.Context) (Runtime, error) {
	var preset string
	t.sess.Meta(owntool.PresetKey, &preset)
	if t.msg.In.Preset != "" {
		preset = t.msg.In.Preset
	}

	rt, err := t.engine.runtimeFor(ctx, preset, t.msg.Extra)
	if err != nil && preset != "" && t.msg.In.Preset == "" && t.msg.Extra.ModelName == "" {
		// The preset is gone or unusable; the conversation goes on with the default.
		t.engine.log.WarnContext(ctx, "model preset unusable", "session", t.key, "preset", preset, "err", err)
		rt, err = t.engine.runtimeFor(ctx, "", t.msg.Extra)
	}
	return rt, err
}

// groupCommit is how long the sync of a user's message may be put off, in the
// hope that the sync at the end of a quick turn serves for both.
const groupCommit = 20 * time.Millisecond

// syncSoon makes what was written durable within groupCommit, beside the turn.
// The returned func waits for that, or calls it off because the end of the
// turn syncs anyway.
func (t *Turn) syncSoon(ctx context.Context) (wait func() error) {
	over := make(chan struct{})
	synced := make(chan error, 1) // the goroutine never blocks on it
	go func() {
		timer := time.NewTimer(groupCommit)
		defer timer.Stop()
		select {
		case <-timer.C:
			synced <- t.sess.Sync(context.WithoutCancel(ctx))
		case <-over:
			synced <- nil
		}
	}()
	return func() error { close(over); return <-synced }
}
