package classeval_test

import (
	"strings"
	"testing"

	"securebench/internal/importer/classeval"
)

// TestConvert: what a row's tests need decides whether it is split, shared or left out.
func TestConvert(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		source            classeval.Source
		containment, left string
	}{
		"split":             {classeval.Source{ID: "ClassEval_1", Imports: []string{"import math"}}, "", ""},
		"shared":            {classeval.Source{ID: "ClassEval_2"}, "shared", ""},
		"a day of its own":  {classeval.Source{ID: "ClassEval_17"}, "", "its tests expect the data set's day"},
		"a package":         {classeval.Source{ID: "ClassEval_200", Imports: []string{"import json", "import numpy as np"}}, "", "it needs the package numpy"},
		"a part of it":      {classeval.Source{ID: "ClassEval_201", Imports: []string{"from docx.shared import Pt"}}, "", "it needs the package docx"},
		"only in the tests": {classeval.Source{ID: "ClassEval_202", Test: "class T:\n    def test(self):\n        import reportlab\n"}, "", "it needs the package reportlab"},
		"a like name":       {classeval.Source{ID: "ClassEval_203", Imports: []string{"import numpyro"}, Test: "# import numpy\n"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.source.Solution = "class A:\n    pass\n"
			got, left := classeval.Convert(tt.source)
			if got.Tests.Containment != tt.containment || !strings.HasPrefix(left, tt.left) || (left == "") != (tt.left == "") {
				t.Errorf("containment %q, left out %q, want %q and %q", got.Tests.Containment, left, tt.containment, tt.left)
			}
			imports := strings.Join(tt.source.Imports, "\n")
			if !strings.HasPrefix(got.Tests.Code, imports) || !strings.HasSuffix(got.Tests.Code, tt.source.Test) || got.Reference != imports+"\n\n"+tt.source.Solution {
				t.Errorf("tests %q, reference %q", got.Tests.Code, got.Reference)
			}
		})
	}
}
