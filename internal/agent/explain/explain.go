// Package explain puts what happens in a turn into one line for people: why a
// model call failed and what to do about it, and which tools are about to run.
package explain

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nanobot-go/nanobot/internal/llm"
)

// Error turns a failed model call into what the user should read: what is
// wrong, in one line, and what to do about it.
func Error(err error, model string) string { return explain(err, model, "") }

// Kept is Error in a conversation that can be gone on with: failures that may
// be over in a moment say how.
func Kept(err error, model string) string {
	return explain(err, model, " Your message is kept; send \"continue\" to try again.")
}

func explain(err error, model, hint string) string {
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		return "The turn failed: " + err.Error()
	}
	who := e.Provider
	if who == "" {
		who = "the model provider"
	}
	said := ""
	if e.Message != "" && e.Kind != llm.BudgetExceeded {
		said = "\n" + who + " said: " + strings.TrimSpace(e.Message)
	}
	switch e.Kind {
	case llm.Overloaded, llm.ServerError, llm.Timeout, llm.StreamTruncated:
	default:
		hint = ""
	}
	return cause(e, who, model) + hint + said
}

func cause(e *llm.Error, who, model string) string {
	switch e.Kind {
	case llm.Auth:
		return fmt.Sprintf("%s rejected the API key. Check it with: nanobot config explain providers.%s.apiKey", who, who)
	case llm.Permission:
		return fmt.Sprintf("The key for %s is not allowed to use %s. Choose another model or ask for access.", who, model)
	case llm.Billing:
		return fmt.Sprintf("The account at %s is out of credit or over its quota. Top it up, or switch with --model.", who)
	case llm.RateLimited:
		wait := "Wait a little and try again."
		if e.RetryAfter > 0 {
			wait = fmt.Sprintf("Try again in %s.", e.RetryAfter.Round(time.Second))
		}
		return fmt.Sprintf("%s is limiting requests. %s", who, wait)
	case llm.Overloaded, llm.ServerError:
		return fmt.Sprintf("%s has trouble answering right now.", who)
	case llm.NotFound:
		return fmt.Sprintf("%s does not know the model %q. Check the name in agents.defaults.model or --model.", who, model)
	case llm.Timeout:
		return fmt.Sprintf("%s did not answer in time.", who)
	case llm.Connection:
		return fmt.Sprintf("%s cannot be reached. Check the network, the proxy and the base URL.", who)
	case llm.StreamTruncated:
		return fmt.Sprintf("The answer of %s broke off.", who)
	case llm.ContextLength:
		return "The conversation is too long for the model even after shortening it. Start a new one with /new, or set agents.defaults.contextWindowTokens to the model's real window."
	case llm.UnsupportedImage:
		return fmt.Sprintf("%s cannot read images. Choose a model that can, or describe the picture.", model)
	case llm.ContentFilter, llm.Refused:
		return "The provider's filter stopped this request."
	case llm.Configuration:
		return "No usable model is configured. Run: nanobot onboard"
	case llm.BudgetExceeded: // our own words, which name the limit and the way on
		if e.Message == "" {
			return "A spending limit is reached. See what was spent with: nanobot usage"
		}
		return "Stopped by a spending limit: " + strings.TrimSpace(e.Message)
	case llm.Empty:
		return fmt.Sprintf("%s answered with nothing.", who)
	case llm.InvalidRequest, llm.UnsupportedParam:
		return fmt.Sprintf("%s did not accept the request.", who)
	}
	return "The model call failed."
}
