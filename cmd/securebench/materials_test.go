package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"securebench/internal/dist"
)

// TestMaterials: the bill of materials of the shipped binary names the modules that it
// is linked from, and nothing that would differ between two equal builds.
func TestMaterials(t *testing.T) {
	t.Parallel()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := dist.Materials(program, version)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Purl string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	urls := map[string]string{}
	for _, c := range bom.Components {
		urls[c.Name] = c.Purl
	}
	for _, name := range []string{"std", "github.com/spf13/cobra", "github.com/moby/moby/client"} {
		if !strings.HasPrefix(urls[name], "pkg:golang/"+name+"@") {
			t.Errorf("%s is %q", name, urls[name])
		}
	}
	if bom.Format != "CycloneDX" || urls["github.com/CycloneDX/cyclonedx-go"] != "" {
		t.Errorf("%q; the program is linked from the tool: %v", bom.Format, urls)
	}
	for _, varies := range []string{"timestamp", "serialNumber"} {
		if strings.Contains(string(text), varies) {
			t.Errorf("it has a %s", varies)
		}
	}
	if _, err := dist.Materials([]byte("no program"), "1"); err == nil {
		t.Error("a text has materials")
	}
}
