package results

import "fmt"

// Text reads the report of a runner without a driver: go, junit or tap. Errors
// hold nothing of the text.
func Text(runner string, text []byte) (*Report, error) {
	return &Report{}, fmt.Errorf("runner %s: %w", runner, ErrForm)
}
