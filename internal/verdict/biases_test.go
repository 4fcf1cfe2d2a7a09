package verdict_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/verdict"
)

func TestBiasesOf(t *testing.T) {
	long := strings.Repeat("x", 65)
	for text, want := range map[string]map[string]bool{
		`{"position": true, "length": false}`: {"position": true, "length": false}, `{}`: {}, ``: nil, `{"position": 1}`: nil, `[true]`: nil, `null`: nil,
		`{"` + long + `": true}`: nil, `{"a":true,"b":true,"c":true,"d":true,"e":true,"f":true,"g":true,"h":true,"i":true}`: nil,
	} {
		if got := verdict.BiasesOf(verdict.Metadata{verdict.BiasesKey: jsontext.Value(text)}); !maps.Equal(got, want) {
			t.Errorf("%.40s has %v, want %v", text, got, want)
		}
	}
	if got := verdict.BiasesOf(nil); got != nil {
		t.Errorf("nothing has %v", got)
	}
}
