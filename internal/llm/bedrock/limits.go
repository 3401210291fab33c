package bedrock

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// limits holds what a model turned out not to take. The many vendors behind
// the service differ, ids of private profiles hide who it is, and the service
// says in words what it refused; so the driver learns, once per model and
// process.
type limits struct {
	noStream      bool // answers only as a whole (with tools)
	noCache       bool
	noTemperature bool
	noForce       bool // no tool choice
	apart         bool // no text beside tool results
	maxTokens     int  // 0: unknown
}

func (d *driver) limitsOf(model string) limits {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limits[model]
}

// adaptLimits learns from a refusal and reports whether another try makes
// sense. It never learns the same thing twice, which ends the tries.
func (d *driver) adaptLimits(ctx context.Context, model string, tried limits, e *llm.Error) bool {
	next := tried.after(e)
	if next == tried {
		return false
	}
	d.mu.Lock()
	d.limits[model] = next
	d.mu.Unlock()
	d.log.InfoContext(ctx, "request adapted to the model", "model", model, "reason", e.Message)
	return true
}

// after is l with what the error teaches.
func (l limits) after(e *llm.Error) limits {
	if e.Status < 400 || e.Status >= 500 || e.Kind == llm.Auth || e.Kind == llm.RateLimited {
		return l
	}

	low := strings.ToLower(strings.ReplaceAll(e.Message, "’", "'"))
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(low, w) {
				return true
			}
		}
		return false
	}

	refuses := has("support", "not allow", "not permitted", "deprecated", "extraneous key", "cannot be", "invalid")
	switch {
	case has("streaming") && refuses:
		l.noStream = true
	case has("prompt caching", "cachepoint", "cache point") && refuses:
		l.noCache = true
	case has("temperature") && refuses:
		l.noTemperature = true
	case has("toolchoice", "tool choice") && refuses:
		l.noForce = true
	case has("tool result blocks cannot be provided in the same turn"):
		l.apart = true
	default:
		if m := tokenLimit().FindStringSubmatch(low); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n > 0 && (l.maxTokens == 0 || n < l.maxTokens) {
				l.maxTokens = n
			}
		}
	}

	return l
}

// tokenLimit finds how long an answer may be in the refusal of a longer one.
var tokenLimit = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`maximum tokens you requested exceeds the model limit of (\d{1,9})`)
})
