// Package upstream says what the answers of a provider of models mean: whether to
// wait, to give up, or to blame the configuration.
package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// statusOverloaded is Anthropic's "overloaded".
const statusOverloaded = 529

// Overloaded reports whether a status says that the provider has too much to do.
func Overloaded(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == statusOverloaded
}

// Temporary reports whether a request with this status may succeed later.
func Temporary(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// RetryAfter returns how long a provider asks to wait, at most a limit; 0 if it
// does not say.
func RetryAfter(h http.Header, limit time.Duration) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, float64(limit/time.Millisecond)) * float64(time.Millisecond))
	}
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, limit.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), limit)
	}
	return 0
}

// RetryDelay is how long Google's APIs ask to wait, which is in their errors; 0 if that is
// not said.
func RetryDelay(body []byte, limit time.Duration) time.Duration {
	var e struct {
		Error struct {
			Details []struct {
				Delay Text `json:"retryDelay"`
			} `json:"details"`
		} `json:"error"`
	}
	if Decode(body, &e) != nil {
		return 0
	}
	for _, d := range e.Error.Details {
		if asked, err := time.ParseDuration(string(d.Delay)); err == nil && asked > 0 {
			return min(asked, limit)
		}
	}
	return 0
}

// The codes of errors that say that no request can succeed, or not this one.
const (
	NoCredit = "insufficient_quota"
	NoModel  = "model_not_found"
	NoKey    = "api_key_invalid"
	TooMuch  = "request_too_large" // for the account's rate, however long one waits
)

// Code returns what an error says about the account, the model or the size of
// the request, "" if nothing.
func Code(body []byte) string {
	type form struct {
		Error struct {
			Type    jsontext.Value `json:"type"`
			Code    jsontext.Value `json:"code"`
			Message jsontext.Value `json:"message"`
			Details jsontext.Value `json:"details"` // of Google's
		} `json:"error"`
	}
	var e form
	var list []form // as Gemini's compatible API has it
	switch {
	case Decode(body, &e) == nil:
	case Decode(body, &list) == nil && len(list) > 0:
		e = list[0]
	default:
		return ""
	}
	words, message := string(e.Error.Type)+string(e.Error.Code), string(e.Error.Message)
	switch {
	case strings.Contains(words, NoCredit), strings.Contains(words, "billing_error"),
		strings.Contains(message, "credit balance is too low"):
		return NoCredit
	case strings.Contains(words, NoModel), strings.Contains(words, "DeploymentNotFound"), strings.HasPrefix(message, `"Unknown Model`):
		return NoModel
	case strings.Contains(string(e.Error.Details), `"API_KEY_INVALID"`), // which comes with the status 400
		strings.HasPrefix(message, `"API key not valid`), strings.Contains(words, "invalid_api_key"):
		return NoKey
	case strings.HasPrefix(message, `"Request too large for `), strings.Contains(message, "required for long context requests"):
		return TooMuch
	}
	return ""
}

// Rejects reports whether an answer says that the configuration is wrong.
func Rejects(status int, code string) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound:
		return true
	}
	return code == NoCredit || code == NoModel || code == NoKey
}

// Complaint says what the provider rejects. Its own words may repeat a part of
// the key.
func Complaint(status int, code, model string) string {
	switch {
	case code == NoCredit || status == http.StatusPaymentRequired:
		return "the account of the key has no credit"
	case status == http.StatusNotFound && code == "":
		return fmt.Sprintf("it does not know the model %q, or has nothing at this address: check the model and the base URL", model)
	case code == NoModel || status == http.StatusNotFound:
		return fmt.Sprintf("it does not know the model %q", model)
	case status == http.StatusForbidden:
		return fmt.Sprintf("the key may not use the model %q", model)
	}
	return "the key is not accepted"
}
