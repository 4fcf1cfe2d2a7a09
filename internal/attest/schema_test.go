package attest

import (
	"reflect"
	"testing"

	"securebench/internal/schemas/schematest"
)

// TestPublishedSchema: the published schema describes what is signed.
func TestPublishedSchema(t *testing.T) {
	schematest.Agrees(t, "statement", reflect.TypeFor[Statement]())
}
