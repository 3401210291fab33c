package telegram

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// albumWait is how long the next part of an album may take.
const albumWait = 600 * time.Millisecond

// job is what is handed over at once: an update, or the parts of an album.
type job struct {
	Bot     int64    `json:"bot"` // the number in the token that it came for
	Updates []update `json:"updates"`

	whole bool // no part of the album is missing
}

// chat tells the intake what must keep its order.
func (j job) chat() string { return strconv.FormatInt(j.Updates[0].chatID(), 10) }

// key tells an update from all others, also of another bot.
func (j job) key() string {
	return strconv.FormatInt(j.Bot, 10) + ":" + strconv.FormatInt(j.Updates[0].ID, 10)
}

// Joins implements what kit.NewIntake asks for.
func (j job) Joins() time.Duration {
	if j.whole || j.Updates[0].album() == "" {
		return 0
	}
	return albumWait
}

// Join adds the next part of an album.
func (j job) Join(next job) (job, bool) {
	if next.Updates[0].album() != j.Updates[0].album() {
		return j, false
	}
	j.Updates = slices.Concat(j.Updates, next.Updates)
	return j, true
}

// run handles a job, unless it was held for the bot that was here before.
func (rc *receiver) run(ctx context.Context, j job) error {
	if len(j.Updates) == 0 || j.Bot != rc.bot.o.bot() {
		return nil
	}
	return rc.handle(ctx, j.Updates)
}
