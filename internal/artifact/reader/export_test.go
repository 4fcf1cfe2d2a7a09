package reader

// Known are the functions that are calculated.
var Known = known

// DateCode says whether a number format shows a date.
var DateCode = dateCode
