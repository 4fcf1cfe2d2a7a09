package relay

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/relay/wire"
)

// reason is why a request did not succeed, in a word of the ledger. Those of
// package wire are reasons as well.
type reason string

// The reasons.
const (
	notAllowed     reason = "endpoint_not_allowed"
	wrongToken     reason = "wrong_token"
	queryRefused   reason = "query_not_allowed"
	bodyEncoding   reason = "body_encoding"
	bodyTooLarge   reason = "body_too_large"
	bodyCut        reason = "body_incomplete"
	budgetSpent    reason = "budget"
	agentLeft      reason = "agent_left"
	providerFailed reason = "provider_failed"
	providerReject reason = "provider_rejected"
	providerError  reason = "provider_error"
	responseCut    reason = "response_incomplete"
	responseLong   reason = "response_too_long"
	attemptEnded   reason = "attempt_ended"
)

// refusal is an answer of the relay's own, in place of the provider's.
type refusal struct {
	status  int
	reason  reason
	message string
}

// refuse makes a refusal with the status that makes agents stop: Codex repeats
// a request after every status but 400 and 429, Claude Code after 400 and 429
// but not after 403.
func (a *Attempt) refuse(why reason, message string) *refusal {
	status := http.StatusBadRequest
	if a.relay.messages() {
		status = http.StatusForbidden
	}
	return &refusal{status, why, message}
}

// refuseBody turns the error of a check into a refusal.
func (a *Attempt) refuseBody(r *wire.Refusal) *refusal {
	return a.refuse(reason(r.Reason), r.Message)
}

// write answers with a refusal in the provider's form.
func (a *Attempt) write(w http.ResponseWriter, r *refusal) {
	type detail struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   *int   `json:"param"`
		Code    reason `json:"code"`
	}
	var body []byte
	message := "securebench: " + r.message
	if a.relay.messages() {
		kind := "permission_error"
		switch r.status {
		case http.StatusBadRequest:
			kind = "invalid_request_error"
		case http.StatusRequestEntityTooLarge:
			kind = "request_too_large"
		}
		body, _ = json.Marshal(map[string]any{
			"type":  "error",
			"error": map[string]string{"type": kind, "message": message + " (" + string(r.reason) + ")"},
		}, json.Deterministic(true))
	} else {
		body, _ = json.Marshal(map[string]detail{"error": {message, "invalid_request_error", nil, r.reason}})
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Should-Retry", "false") // the providers' client libraries honour it
	w.WriteHeader(r.status)
	_, _ = w.Write(body) // the agent may have left
}
