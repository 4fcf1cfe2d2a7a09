package harness

import "securebench/internal/lazyregexp"

// knownPrices are the vendors' standard prices of some models, in USD per million
// tokens, as of November 2026. Anything special, such as a surcharge for long requests, is left out:
// harness.config.prices is what the operator says instead.
func knownPrices() map[string]Price {
	return map[string]Price{
		"gpt-6-astra":       {10, 1, 12.5, 50},
		"gpt-5.6-sol":       {4, 0.4, 4, 20},
		"gpt-5.6-terra":     {2, 0.2, 2, 12},
		"gpt-5.6-luna":      {0.2, 0.02, 0.2, 1.2},
		"gpt-5.5":           {5, 0.5, 5, 30},
		"gpt-5.4":           {2.5, 0.25, 2.5, 15},
		"gpt-5.4-mini":      {0.75, 0.075, 0.75, 4.5},
		"gpt-5.4-nano":      {0.2, 0.02, 0.2, 1.25},
		"claude-fable-5-1":  {10, 0.25, 12.5, 50},
		"claude-opus-5-5":   {4, 0.2, 5, 20},
		"claude-opus-5":     {5, 0.5, 6.25, 25},
		"claude-opus-4-8":   {5, 0.5, 6.25, 25},
		"claude-opus-4-7":   {5, 0.5, 6.25, 25},
		"claude-opus-4-6":   {5, 0.5, 6.25, 25},
		"claude-opus-4-5":   {5, 0.5, 6.25, 25},
		"claude-sonnet-5-5": {2, 0.1, 2.5, 10},
		"claude-sonnet-4-6": {3, 0.3, 3.75, 15},
		"claude-sonnet-4-5": {3, 0.3, 3.75, 15},
		"claude-haiku-4-5":  {1, 0.1, 1.25, 5},
	}
}

// dated is the date that names a release of a model.
var dated = lazyregexp.New(`-20[0-9]{2}-?[0-9]{2}-?[0-9]{2}$`)

// knownPrice returns what a vendor's model costs, by its name with or without the
// date of a release.
func knownPrice(model string) (Price, bool) {
	p, ok := knownPrices()[dated.ReplaceAllString(model, "")]
	return p, ok
}
