package npm

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestParse compares with what the npm client's own reader, ini 5, makes of the
// same text.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string]string{
		"//r.example/:_authToken=abc=def==":      {"//r.example/:_authToken": "abc=def=="},
		"a = b ; comment":                        {"a": "b"},
		"a = b # comment":                        {"a": "b"},
		`a=b\;c\#d`:                              {"a": "b;c#d"},
		`a="x ; y"`:                              {"a": "x ; y"},
		`a='x ; y'`:                              {"a": "x ; y"},
		`a="bad`:                                 {"a": `"bad`},
		`a='it''s'`:                              {"a": "it''s"},
		`a="q\nr"`:                               {"a": "q\nr"},
		"a":                                      {"a": "true"},
		"a =":                                    {"a": ""},
		"; a=b":                                  {},
		"  # a=b":                                {},
		`a=\\x`:                                  {"a": `\x`},
		`a=x\y`:                                  {"a": `x\y`},
		"@scope:registry = https://r.example/p/": {"@scope:registry": "https://r.example/p/"},
		`"quoted key"=v`:                         {"quoted key": "v"},
		"ca[]=one":                               {"ca": "one"},
		`a=b\`:                                   {"a": `b\`},
		`a='"x"'`:                                {"a": "x"},
		`a="x" ; y`:                              {"a": `"x"`},
		"[a=b":                                   {"[a": "b"},
		"a]=b":                                   {"a]": "b"},
		"\ta\t=\tb\t":                            {"a": "b"},
		"a==b":                                   {"a": "=b"},
		"a=''":                                   {"a": ""},
		`a=""`:                                   {"a": ""},
		"=b":                                     {},
		"a;b=c":                                  {"a": "c"},
		"ca[]=1\nca[]=2\nca=3":                   {"ca": "1,2,3"},
		"a[]=1\na=2":                             {"a": "1,2"},
		"a=1\na=2":                               {"a": "2"},
		"a=1\r\nb=2\rc=3":                        {"a": "1", "b": "2", "c": "3"},
		"[s]\na=1":                               {},
	} {
		got := map[string]string{}
		for key, settings := range parse(text) {
			var texts []string
			for _, s := range settings {
				texts = append(texts, s.text)
			}
			got[key] = strings.Join(texts, ",")
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
}

func TestParseCountsLines(t *testing.T) {
	t.Parallel()
	got := parse("# one\r\n\r\na=1\nb=2")
	if got["a"][0].line != 3 || got["b"][0].line != 4 {
		t.Errorf("got %v", got)
	}
}

// TestExpand compares with the npm client's own replacement of variables.
func TestExpand(t *testing.T) {
	t.Parallel()
	c := &Config{getenv: func(name string) string { return map[string]string{"A": "v", "A B": "w"}[name] }}
	for text, want := range map[string]string{
		"${A}": "v", "x${A}y${A}": "xvyv", `\${A}`: "${A}", `\\${A}`: `\v`, `\\\${A}`: `\${A}`,
		"${B?}": "", "${": "${", "${}": "${}", "${A": "${A", "$A": "$A", "a}${A}": "a}v", "${A B}": "w", "${x${A}": "${xv",
	} {
		if got, err := c.expand(text, "f:1", false); err != nil || got.text != want {
			t.Errorf("%s becomes %q, %v, want %q", text, got.text, err, want)
		}
	}
	if _, err := c.expand("${B}", "f:7", false); err == nil || err.Error() != "f:7: the variable B is not set" {
		t.Errorf("an unset variable: %v", err)
	}
}

// FuzzParse: no text makes the reader fail, and every key and value is one that
// is in the text.
func FuzzParse(f *testing.F) {
	f.Add("//r/:_authToken=${X}\nca[]=\"-----BEGIN\\n\"\n[s]\na=b")
	f.Add(`a='\u0000' ; "`)
	f.Fuzz(func(t *testing.T, text string) {
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1
		for key, settings := range parse(text) {
			if key == "" && !strings.Contains(text, `""`) && !strings.Contains(text, "''") && !strings.ContainsAny(text, ";#") {
				t.Errorf("a key without a name in %q", text)
			}
			if !slices.IsSortedFunc(settings, func(a, b setting) int { return a.line - b.line }) || settings[len(settings)-1].line > lines {
				t.Errorf("lines of %q: %v", key, settings)
			}
		}
	})
}
