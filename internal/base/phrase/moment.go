package phrase

import (
	"context"
	"time"
)

type zoneKey struct{}

// InZone returns a context whose work speaks to a person in this time zone.
func InZone(ctx context.Context, zone *time.Location) context.Context {
	if zone == nil || zone == zoneOf(ctx) {
		return ctx
	}
	return context.WithValue(ctx, zoneKey{}, zone)
}

// zoneOf returns the zone of a context, that of this machine if it has none.
func zoneOf(ctx context.Context) *time.Location {
	if zone, ok := ctx.Value(zoneKey{}).(*time.Location); ok {
		return zone
	}
	return time.Local
}

// Moment returns a day and a time to the minute, as the person reads it.
func Moment(ctx context.Context, t time.Time) string {
	return t.In(zoneOf(ctx)).Format("2006-01-02 15:04")
}

// Clock returns a time of a day to the minute, as the person reads it.
func Clock(ctx context.Context, t time.Time) string { return t.In(zoneOf(ctx)).Format("15:04") }
