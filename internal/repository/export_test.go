package repository

// Wildmatch lets tests reach the matcher of patterns.
func Wildmatch(pattern, text string) bool { return wildmatch(pattern, text) }
