package policy

// Fnmatch lets tests reach the matcher of patterns.
func Fnmatch(pattern, name string) bool { return fnmatch(pattern, name) }
