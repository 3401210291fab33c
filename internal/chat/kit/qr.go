package kit

import (
	"context"
	"errors"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/wait"
	"github.com/nanobot-go/nanobot/internal/chat"
)

// slower is added to the pause when a platform wants fewer questions.
const slower = 5 * time.Second

// ErrExpired is the end of a sign-in whose codes were all not used in time.
var ErrExpired = errors.New("the QR code expired before it was confirmed; try again")

// Scan is how far a person has come with a code.
type Scan int

// What Code.Poll may find.
const (
	ScanWaits     Scan = iota // nothing has happened, or it is not known
	ScanSeen                  // the phone has it, the person must still confirm
	ScanSlower                // as ScanWaits, and the platform wants to be asked less often
	ScanExpired               // another code is needed
	ScanConfirmed             // the sign-in is done
)

// QR is a sign-in by codes that a person scans. A code is shown, the platform is asked what became
// of it until it is confirmed or too old, and another code takes its place, a few times.
type QR struct {
	Dialog chat.Dialog
	Now    func() time.Time
	Codes  int    // that are shown one after the other
	Seen   string // what the person reads, once for each code, after it was scanned; "": nothing
	// Show gets a code; n counts them from 0.
	Show func(ctx context.Context, n int) (Code, error)
}

// Code is one code.
type Code struct {
	Step  chat.Step     // what the person sees; if it Expires, the code ends then
	Every time.Duration // between two questions
	// Poll asks what became of the code. An error ends the sign-in, so it returns none for
	// what may be better next time.
	Poll func(ctx context.Context) (Scan, error)
}

// Run returns nil when a code was confirmed, ErrExpired if none was in time, and the cause of ctx if
// that ends first.
func (q QR) Run(ctx context.Context) error {
	for n := range q.Codes {
		code, err := q.Show(ctx, n)
		if err != nil {
			return err
		}

		q.Dialog.Tell(code.Step)
		confirmed, err := q.follow(ctx, code)
		if confirmed || err != nil {
			return err
		}
	}
	return ErrExpired
}

// follow reports whether a code was confirmed. Without an error it has expired otherwise.
func (q QR) follow(ctx context.Context, code Code) (confirmed bool, err error) {
	every := code.Every
	told := q.Seen == ""
	for code.Step.Expires.IsZero() || q.Now().Before(code.Step.Expires) {
		if wait.For(ctx, every) != nil {
			return false, context.Cause(ctx)
		}

		scan, err := code.Poll(ctx)
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			return false, err
		}

		switch scan {
		case ScanWaits:
		case ScanSeen:
			if !told {
				told = true
				q.Dialog.Tell(chat.Step{Note: q.Seen, Expires: code.Step.Expires})
			}

		case ScanSlower:
			every += slower
		case ScanExpired:
			return false, nil
		case ScanConfirmed:
			return true, nil
		}
	}

	return false, nil
}

// Seconds returns a time that a platform gives in seconds, or the usual one if it says none or more than
// the most that makes sense.
func Seconds(n int, usual, most time.Duration) time.Duration {
	if d := time.Duration(n) * time.Second; n > 0 && n <= int(most/time.Second) {
		return d
	}
	return usual
}
