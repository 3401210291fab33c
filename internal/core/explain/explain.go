// Package explain hides the wording of what happens in a turn, for people: why a
// model call failed and what to do about it (Error; In and Kept for a Reader with a
// language), how a tool call ended (Outcome), and which tools are about to run
// (Hint). It keeps no state and makes no calls.
package explain

import (
	"errors"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/base/phrase"
	"github.com/nanobot-go/nanobot/internal/llm"
)

// Reader is who reads a line.
type Reader struct {
	Language string // of package phrase
	Page     bool   // on the web page, where there is no command line
}

// Error turns a failed model call into what the user should read: what is
// wrong, in one line, and what to do about it.
func Error(err error, model string) string { return explain(Reader{}, err, model, "") }

// In is Error for a reader.
func In(r Reader, err error, model string) string { return explain(r, err, model, "") }

// Kept is In for a conversation that can be gone on with: failures that may
// be over in a moment say how.
func Kept(r Reader, err error, model string) string {
	return explain(r, err, model, phrase.In(r.Language, " Your message is kept; send \"continue\" to try again."))
}

func explain(r Reader, err error, model, hint string) string {
	language := r.Language
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return phrase.In(language, "The turn failed: %v", err)
	}

	who := e.Provider
	if who == "" {
		who = phrase.In(language, "the model provider")
	}

	said := ""
	if e.Message != "" && e.Kind != llm.BudgetExceeded {
		said = "\n" + phrase.In(language, "%s said: %s", who, phrase.Recognize(language, strings.TrimSpace(e.Message)))
	}

	switch e.Kind {
	case llm.Overloaded, llm.ServerError, llm.Timeout, llm.StreamTruncated:
	default:
		hint = ""
	}
	return cause(r, e, who, model) + hint + said
}

func cause(r Reader, e *llm.Error, who, model string) string {
	language := r.Language
	switch e.Kind {
	case llm.Auth:
		if r.Page {
			return phrase.In(language, "%s rejected the API key. Enter it again under Settings, Providers.", who)
		}
		return phrase.In(language, "%s rejected the API key. Check it with: nanobot config explain providers.%s.apiKey", who, who)

	case llm.Permission:
		return phrase.In(language, "The key for %s is not allowed to use %s. Choose another model or ask for access.", who, model)
	case llm.Billing:
		if r.Page {
			return phrase.In(language, "The account at %s is out of credit or over its quota. Top it up, or choose another model.", who)
		}
		return phrase.In(language, "The account at %s is out of credit or over its quota. Top it up, or switch with --model.", who)

	case llm.RateLimited:
		wait := phrase.In(language, "Wait a little and try again.")
		if e.RetryAfter > 0 {
			wait = phrase.In(language, "Try again in %s.", e.RetryAfter.Round(time.Second))
		}
		return phrase.In(language, "%s is limiting requests. %s", who, wait)

	case llm.Overloaded, llm.ServerError:
		return phrase.In(language, "%s has trouble answering right now.", who)
	case llm.NotFound:
		if r.Page {
			return phrase.In(language, "%s does not know the model %q. Choose another one under Settings, Models.", who, model)
		}
		return phrase.In(language, "%s does not know the model %q. Check the name in agents.defaults.model or --model.", who, model)

	case llm.Timeout:
		return phrase.In(language, "%s did not answer in time.", who)
	case llm.Connection:
		return phrase.In(language, "%s cannot be reached. Check the network, the proxy and the base URL.", who)
	case llm.StreamTruncated:
		return phrase.In(language, "The answer of %s broke off.", who)
	case llm.ContextLength:
		return phrase.In(language, "The conversation is too long for the model even after shortening it. Start a new one with /new, or set agents.defaults.contextWindowTokens to the model's real window.")
	case llm.UnsupportedImage:
		return phrase.In(language, "%s cannot read images. Choose a model that can, or describe the picture.", model)
	case llm.ContentFilter, llm.Refused:
		return phrase.In(language, "The provider's filter stopped this request.")
	case llm.Configuration:
		if r.Page {
			return phrase.In(language, "No usable model is configured. Add a provider under Settings, Providers.")
		}
		return phrase.In(language, "No usable model is configured. Run: nanobot onboard")

	case llm.BudgetExceeded: // our own words, which name the limit and the way on
		return limit(r, strings.TrimSpace(e.Message))
	case llm.Empty:
		return phrase.In(language, "%s answered with nothing.", who)
	case llm.InvalidRequest, llm.UnsupportedParam:
		return phrase.In(language, "%s did not accept the request.", who)
	}

	return phrase.In(language, "The model call failed.")
}

// limit says that a spending limit stopped the call; message names it.
func limit(r Reader, message string) string {
	said, _, raise := strings.Cut(message, ". To raise it: ")
	switch {
	case message == "" && r.Page:
		return phrase.In(r.Language, "A spending limit is reached. Usage shows what was spent.")
	case message == "":
		return phrase.In(r.Language, "A spending limit is reached. See what was spent with: nanobot usage")
	case raise && r.Page:
		return phrase.In(r.Language, "Stopped by a spending limit: %s. Settings has the limits.", said)
	}

	return phrase.In(r.Language, "Stopped by a spending limit: %s", phrase.Recognize(r.Language, message))
}
