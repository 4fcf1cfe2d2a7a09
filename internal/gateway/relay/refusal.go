package relay

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
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
	status  int // 0 is the one that makes agents of the API stop
	reason  reason
	message string
}

// refuse makes a refusal.
func refuse(why reason, message string) *refusal { return &refusal{0, why, message} }

// write answers with a refusal in the provider's form.
func (d *dialect) write(w http.ResponseWriter, r *refusal) {
	body, _ := json.Marshal(d.refusal(r.status, r.reason, "securebench: "+r.message), json.Deterministic(true))
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Should-Retry", "false") // the providers' client libraries honour it
	w.WriteHeader(r.status)
	_, _ = w.Write(body) // the agent may have left
}
