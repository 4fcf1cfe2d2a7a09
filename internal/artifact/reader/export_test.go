package reader

// Known are the functions that are calculated.
var Known = known
