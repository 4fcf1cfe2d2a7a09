package importer

import (
	"strings"
	"testing"
)

// TestClassEval: what a row's tests need decides whether it is split, shared or left out.
func TestClassEval(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		id, imports, test, containment, left string
	}{
		"split":             {"ClassEval_1", "import math", "", "", ""},
		"shared":            {"ClassEval_2", "", "", "shared", ""},
		"a day of its own":  {"ClassEval_17", "", "", "", "its tests expect the data set's day"},
		"a package":         {"ClassEval_200", "import json\nimport numpy as np", "", "", "it needs the package numpy"},
		"a part of it":      {"ClassEval_201", "from docx.shared import Pt", "", "", "it needs the package docx"},
		"only in the tests": {"ClassEval_202", "", "class T:\n    def test(self):\n        import reportlab\n", "", "it needs the package reportlab"},
		"a like name":       {"ClassEval_203", "import numpyro", "# import numpy\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			solution := "class A:\n    pass\n"
			got, left := classEvalOf(tt.id, tt.imports, solution, tt.test)
			if got.Tests.Containment != tt.containment || !strings.HasPrefix(left, tt.left) || (left == "") != (tt.left == "") {
				t.Errorf("containment %q, left out %q, want %q and %q", got.Tests.Containment, left, tt.containment, tt.left)
			}
			if !strings.HasPrefix(got.Tests.Code, tt.imports) || !strings.HasSuffix(got.Tests.Code, tt.test) || got.Reference != tt.imports+"\n\n"+solution {
				t.Errorf("tests %q, reference %q", got.Tests.Code, got.Reference)
			}
		})
	}
}
