package model

import "time"

// Hurry makes the waits that no provider asks for short.
func (c *Client) Hurry() { c.firstWait = 2 * time.Millisecond }

// Left is how long all questions wait.
func (c *Client) Left() time.Duration { return c.pace.Left() }

// Len is the number of answers.
func (j *Journal) Len() int { return len(j.at) }

// Most is how many tokens one request has at most.
func (c *Client) Most(q Question) int64 { return c.most(q).Input }

// Weigh reads an answer about how likely a text is, after a context of so many tokens.
func Weigh(body []byte, context int) (*Likelihood, error) {
	a, ok := wholeCompletion(body)
	if !ok {
		return nil, &likelihoodError{"it is none"}
	}
	a, err := a.weighed(Question{Context: context})
	return a.Likelihood, err
}
