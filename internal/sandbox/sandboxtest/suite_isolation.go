package sandboxtest

import "testing"

func (s *suite) isolation(t *testing.T) {}
