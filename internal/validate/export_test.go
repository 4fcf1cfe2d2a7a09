package validate

// PassesByChance lets tests check the distribution.
func PassesByChance(chances []float64) []float64 { return passesByChance(chances) }
