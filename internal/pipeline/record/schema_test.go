package record

import (
	"reflect"
	"testing"

	"securebench/internal/schemas/schematest"
)

// TestPublishedSchemas: the published schemas describe what this package writes.
func TestPublishedSchemas(t *testing.T) {
	schematest.Agrees(t, "record", reflect.TypeFor[wire]())
	schematest.Agrees(t, "run", reflect.TypeFor[Manifest]())
}
