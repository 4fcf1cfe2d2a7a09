package provider

import "time"

// Hurry shortens the time for an answer.
func (c *Client) Hurry(limit time.Duration) { c.limit = limit }
