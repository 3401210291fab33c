package subject

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/text"
	"github.com/nanobot-go/nanobot/internal/web"
)

// stamp writes a moment for clients; "" if there is none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// stampMilli is a moment to the millisecond.
const stampMilli = "2006-01-02T15:04:05.000Z07:00"

// number reads a whole number of 0 or more from the query.
func number(r *http.Request, name string, def int) (int, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, web.Refuse(http.StatusBadRequest, "%s must be a whole number, not %.40q", name, s)
	}
	return n, nil
}

// moment reads a time from the query: a day in a zone, nil for that of this machine, or a
// time with an offset.
func moment(r *http.Request, name string, zone *time.Location) (time.Time, error) {
	s := r.URL.Query().Get(name)
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, cmp.Or(zone, time.Local)); err == nil {
		return t, nil
	}
	return time.Time{}, web.Refuse(http.StatusBadRequest, "%s must be a day such as 2026-05-04 or a time such as 2026-05-04T12:00:00Z, not %.40q", name, s)
}

// object reports whether data is a JSON object.
func object(data []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(data, &o) == nil && o != nil
}

// secretBytes is kept behind a cut until credentials are taken out, because one may
// lie across it.
const secretBytes = 4 << 10

// head returns the beginning of a long text, without holding on to the rest.
func head(s string, most int) string {
	if len(s) <= most+secretBytes {
		return s
	}
	return strings.Clone(s[:most+secretBytes])
}

// clip cuts a text between two characters and says so.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return text.CutBytes(s, most) + fmt.Sprintf("\n[cut here: only the first %d KiB are shown]", most>>10)
}

// lastingTime bounds what goes on without its client.
const lastingTime = 2 * time.Minute

// lasting is for a change of several steps, which must not end half-way because the
// connection is lost: the client asks again and gets the answer then.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), lastingTime)
}
