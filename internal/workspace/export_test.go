package workspace

import "securebench/internal/source"

// Encode lets tests compare single values.
func Encode(n *source.Node) string { return string(encodeValue(n)) }
