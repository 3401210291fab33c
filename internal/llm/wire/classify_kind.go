package wire

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// shortDelay is the longest announced delay under which a quota error is
// taken for an ordinary rate limit: free tiers say "quota" and mean a minute.
const shortDelay = 60 * time.Second

// kindOf decides what went wrong. text is the lower-case message.
func kindOf(e *llm.Error, text string) llm.Kind {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	token := func(words ...string) bool {
		return slices.Contains(words, e.Code) || slices.Contains(words, e.Type)
	}
	shape := e.Status == 0 || e.Status == 400 || e.Status == 413 || e.Status == 422 || e.Status == 500
	switch {
	case shape && isOverflow(e, text):
		return llm.ContextLength
	case e.Status == 402, (e.Status == 0 || e.Status == 400 || e.Status == 403 || e.Status == 429) && isBilling(e, text):
		if e.Status == 429 && e.RetryAfter > 0 && e.RetryAfter <= shortDelay {
			return llm.RateLimited
		}
		return llm.Billing

	case token("1113"):
		return llm.Billing
	case token("1302", "1303", "1305", "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"):
		return llm.RateLimited
	case token("content_filter", "content_policy_violation", "data_inspection_failed", "1301", "responsibleaipolicyviolation"):
		return llm.ContentFilter
	case token("overloaded_error", "overloaded", "engine_overloaded_error"):
		return llm.Overloaded
	}

	switch e.Status {
	case 401, 407:
		return llm.Auth
	case 403:
		return llm.Permission
	case 404:
		if has("image input", "support image") {
			return llm.UnsupportedImage
		}
		return llm.NotFound

	case 408, 504, 524:
		return llm.Timeout
	case 429:
		if has("overloaded") {
			return llm.Overloaded
		}
		return llm.RateLimited

	case 503, 529:
		return llm.Overloaded
	case 409, 425:
		return llm.ServerError
	case 415:
		return llm.UnsupportedImage
	}

	if e.Status >= 500 {
		return llm.ServerError
	}

	if e.Status == 0 {
		if k := kindWithoutStatus(token, has); k != "" {
			return k
		}
	}
	return requestKind(e, text)
}

// kindWithoutStatus reads the type of an error inside a stream or a 200
// answer, and only then its words: "max_tokens 5000" must not look like a 500.
func kindWithoutStatus(token, has func(...string) bool) llm.Kind {
	switch {
	case token("authentication_error", "invalid_api_key", "unauthorized"):
		return llm.Auth
	case token("permission_error", "permission_denied"):
		return llm.Permission
	case token("not_found_error", "model_not_found"):
		return llm.NotFound
	case token("timeout_error", "timeout"):
		return llm.Timeout
	case token("server_error", "api_error", "internal_error", "internal_server_error", "internal"):
		return llm.ServerError
	case token("invalid_request_error", "invalid_argument"):
		return ""
	case has("429", "rate limit", "rate_limit", "too many requests", "速率限制", "访问量过大"):
		return llm.RateLimited
	case has("overloaded", "temporarily unavailable"):
		return llm.Overloaded
	case has("timeout", "timed out"):
		return llm.Timeout
	case has("500", "502", "503", "504", "server error", "server_error"):
		return llm.ServerError
	case has("connection"):
		return llm.Connection
	}
	return ""
}

// requestKind classifies errors that are about the request itself.
func requestKind(e *llm.Error, text string) llm.Kind {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case strings.HasPrefix(e.Code, "invalid_image"), strings.HasPrefix(e.Code, "image_"), e.Code == "unsupported_image_media_type",
		has("image", "vision", "multimodal", "multi-modal") && has("support", "invalid", "unable", "cannot", "not a", "could not", "unknown variant"):
		return llm.UnsupportedImage
	case e.Code == "invalid_api_key", has("api key not valid", "invalid api key", "incorrect api key", "api_key_invalid"):
		return llm.Auth
	case e.Code == "model_not_found", has("model not found", "model does not exist", "not a valid model"):
		return llm.NotFound
	case has("content management policy", "content policy", "safety system", "content filter"):
		return llm.ContentFilter
	case has("temperature") && has("only", "must be", "invalid", "default"):
		return llm.UnsupportedParam
	case e.Code == "unsupported_parameter", e.Code == "unsupported_value", e.Code == "unknown_parameter",
		has("unsupported parameter", "unsupported value", "unknown parameter", "unrecognized request argument", "extra inputs are not permitted",
			"extra fields not permitted", "unknown field", "unknown name", "unexpected keyword", "is not supported", "not supported with", "does not support",
			"unsupported field", "cannot be used with", "not allowed", "property '"):
		return llm.UnsupportedParam
	}

	return llm.InvalidRequest
}

func isOverflow(e *llm.Error, text string) bool {
	switch e.Code {
	case "context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded":
		return true
	}

	if e.Status == 413 || e.Type == "exceed_context_size_error" || e.Type == "request_too_large" {
		return true
	}
	return slices.ContainsFunc([]string{
		"maximum context length", "prompt is too long", "context window exceeds", "exceeds the context window", "input token count",
		"exceed_context_size", "exceeds the available context", "input is too long", "range of input length", "context length exceeded",
		"context_length_exceeded", "reduce the length of the messages", "model's context length", "too many tokens", "exceeds model's maximum",
		"exceeds the model's", "exceeded model token limit", "maximum prompt length", "larger than the context", "longer than the context",
		"上下文长度", "输入长度",
	}, func(w string) bool { return strings.Contains(text, w) })
}

func isBilling(e *llm.Error, text string) bool {
	words := []string{
		"insufficient_quota", "quota_exceeded", "quota_exhausted", "billing_hard_limit_reached", "insufficient_balance",
		"credit_balance_too_low", "billing_not_active", "payment_required", "billing_error",
	}
	if slices.Contains(words, e.Code) || slices.Contains(words, e.Type) {
		return true
	}
	return slices.ContainsFunc([]string{
		"insufficient_quota", "insufficient quota", "quota exceeded", "quota exhausted", "billing hard limit", "billing_hard_limit_reached",
		"billing not active", "insufficient balance", "insufficient_balance", "credit balance too low", "credit balance is too low",
		"payment required", "out of credits", "out of quota", "exceeded your current quota", "余额不足",
	}, func(w string) bool { return strings.Contains(text, w) })
}

// contextLimit finds the window in the text of an overflow error. The texts
// name two numbers, the window and what was asked for; the word beside the
// number tells them apart.
func contextLimit(text string) int {
	text = strings.ReplaceAll(text, ",", "")
	for _, re := range limitPatterns() {
		if m := re.FindStringSubmatch(text); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n >= 256 && n <= 100_000_000 {
				return n
			}
		}
	}
	return 0
}

var limitPatterns = sync.OnceValue(func() []*regexp.Regexp {
	var res []*regexp.Regexp
	for _, p := range []string{
		`(?:maximum|max|allowed|supported)[^.0-9]{0,60}(?:context|prompt|input|token|length|window|size)[^.0-9]{0,40}?(\d{3,9})`,
		`(\d{3,9})\s*(?:tokens?\s*)?(?:maximum|max\b)`,
		`>\s*(\d{3,9})`,
		`range of input length should be \[\d+ *(\d{3,9})\]`,
		`(?:n_ctx|context (?:size|length|window)|available context)[^.0-9]{0,30}(\d{3,9})`,
		`(?:limit|limited to|up to|at most)[^.0-9]{0,30}(\d{3,9})`,
	} {
		res = append(res, regexp.MustCompile(p))
	}

	return res
})

// paramName finds which parameter the server refuses.
func paramName(param, message string) string {
	if param != "" {
		if i := strings.LastIndexByte(param, '.'); i >= 0 && strings.HasPrefix(param, "body.") {
			param = param[i+1:]
		}
		return param
	}

	for _, p := range []string{
		// Longest first: max_tokens is part of other names' advice texts.
		"parallel_tool_calls", "max_completion_tokens", "prompt_cache_key", "reasoning_effort", "reasoning_content", "stream_options",
		"cache_control", "tool_choice", "tool_stream", "enable_thinking", "reasoning_split", "temperature", "max_tokens", "thinking", "reasoning",
	} {
		if at := strings.Index(message, p); at >= 0 {
			// "Unsupported parameter: 'max_tokens' ... Use 'max_completion_tokens' instead."
			if p == "max_completion_tokens" {
				if first := strings.Index(message, "max_tokens"); first >= 0 && first < at {
					return "max_tokens"
				}
			}
			return p
		}
	}

	return ""
}

// retryAfter finds out how long the server wants us to wait; 0 if it does not say.
func retryAfter(h http.Header, body string) time.Duration {
	if d := headerDelay(h); d > 0 {
		return d
	}

	for i, re := range delayPatterns() {
		m := re.FindStringSubmatch(body)
		if m == nil {
			continue
		}

		if i == 0 {
			if d := parseDelay(m[1], ""); d > 0 {
				return d
			}
			continue
		}

		unit := ""
		if len(m) > 2 {
			unit = m[2]
		}

		if d := parseDelay(m[1], unit); d > 0 {
			return d
		}
	}

	return resetDelay(h)
}

func headerDelay(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e10 {
		return atLeast(time.Duration(ms * float64(time.Millisecond)))
	}

	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}

	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if s <= 0 || s > 1e9 {
			return 0
		}
		return atLeast(time.Duration(s * float64(time.Second)))
	}

	at, err := http.ParseTime(v)
	if err != nil {
		at, err = time.Parse("Mon, 02 Jan 2006 15:04:05", v)
	}

	if err != nil {
		return 0
	}
	return atLeast(time.Until(at))
}

// resetDelay reads the rate-limit windows. Only windows that are used up count.
func resetDelay(h http.Header) time.Duration {
	longest := time.Duration(0)
	for _, w := range [...][2]string{
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
		{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
		{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	} {
		reset := h.Get(w[1])
		if left := h.Get(w[0]); reset == "" || (left != "" && left != "0") {
			continue
		}

		if at, err := time.Parse(time.RFC3339, reset); err == nil {
			longest = max(longest, atLeast(time.Until(at)))
		} else {
			longest = max(longest, parseDelay(reset, ""))
		}
	}

	return longest
}

var delayPatterns = sync.OnceValue(func() []*regexp.Regexp {
	const num, unit = `(\d+(?:\.\d+)?)`, `\s*(milliseconds?|ms|minutes?|mins?|seconds?|secs?|hours?|h|m|s)?\b`
	return []*regexp.Regexp{
		regexp.MustCompile(`"retryDelay"\s*:\s*"([0-9hms.]+)"`),
		regexp.MustCompile(`(?i)(?:try again|retry)\s+in\s+((?:\d+(?:\.\d+)?(?:h|ms|m|s)){2,})`),
		regexp.MustCompile(`(?i)retry\s+after\s+` + num + unit),
		regexp.MustCompile(`(?i)(?:try again|retry)\s+in\s+` + num + unit),
		regexp.MustCompile(`(?i)wait\s+` + num + unit + `\s+before\s+retry`),
		regexp.MustCompile(`(?i)retry[_-]after["'\s:=]+` + num),
	}
})

// parseDelay reads a number with a unit (seconds if none) or a compound such
// as 6m0s or 1h2m.
func parseDelay(num, unit string) time.Duration {
	if d, err := time.ParseDuration(num); err == nil && unit == "" && d > 0 {
		return atLeast(d)
	}

	n, err := strconv.ParseFloat(num, 64)
	if err != nil || n <= 0 || n > 1e9 {
		return 0
	}

	scale := time.Second
	switch u := strings.ToLower(unit); {
	case u == "ms" || strings.HasPrefix(u, "milli"):
		scale = time.Millisecond
	case strings.HasPrefix(u, "m"):
		scale = time.Minute
	case strings.HasPrefix(u, "h"):
		scale = time.Hour
	}

	return atLeast(time.Duration(min(n*float64(scale), float64(365*24*time.Hour))))
}

// atLeast keeps a positive delay above 0.1 s, so that a server's "0" or a date
// in the past does not make a tight loop.
func atLeast(d time.Duration) time.Duration { return max(d, 100*time.Millisecond) }
