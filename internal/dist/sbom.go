package dist

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Materials returns a bill of materials of a program, in the format of CycloneDX: the
// modules that the program itself names as those it was linked from.
func Materials(program []byte, version string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, fmt.Errorf("reading what the program was built from: %w", err)
	}
	bom := cdx.NewBOM()
	self := "pkg:golang/securebench@" + version
	bom.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: self, Type: cdx.ComponentTypeApplication, Name: "securebench", Version: version, PackageURL: self}}
	std := component("std", strings.TrimPrefix(info.GoVersion, "go"), "")
	parts, uses := []cdx.Component{std}, []string{std.BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		part := component(m.Path, m.Version, m.Sum)
		parts, uses = append(parts, part), append(uses, part.BOMRef)
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: self, Dependencies: &uses}}
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("encoding the bill of materials: %w", err)
	}
	return b.Bytes(), nil
}

// component is a module. sum is what go.sum calls its hash.
func component(path, version, sum string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}}
	}
	return c
}
