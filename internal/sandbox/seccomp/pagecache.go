package seccomp

import "strings"

// Sandboxes share the pages of their images' layers in memory. A call that drops such
// a page without writing to it leaves a note there, and one that asks whether it is
// there reads it. What only drops pages does nothing here, and what asks does not
// exist: both are hints that programs do without.
const (
	// fadviseCalls have their advice at a place of its own in each architecture. All
	// that they advise is a hint.
	fadviseCalls = "fadvise64 fadvise64_64 arm_fadvise64_64"
	// askingCalls tell which pages are there. The operations of aio are in memory where
	// no filter sees them; one of their flags asks as well.
	askingCalls = "mincore cachestat io_setup io_submit io_getevents io_pgetevents io_pgetevents_time64 io_cancel io_destroy"

	adviceCold     = 20
	advicePageout  = 21
	adviceCollapse = 25 // joins pages of a file, which shows in other sandboxes' maps
	adviceBits     = 7  // of more than there are

	flagNoWait    = 0x08 // of preadv2: fails if the page is not there
	flagDontCache = 0x80 // drops it afterwards
	flagsUnknown  = 0xffffff00
)

func pageCacheRules() []rule {
	none, nosys := uint(0), uint(errnoNOSYS)
	rules := []rule{
		{Names: strings.Fields(fadviseCalls), Action: refuse, ErrnoRet: &none},
		{Names: strings.Fields(askingCalls), Action: refuse, ErrnoRet: &nosys},
	}
	madvise, vector := []string{"madvise"}, []string{"preadv2", "pwritev2"}
	rules = append(rules, each(allow, 0, madvise, others(2, adviceBits, adviceCold, advicePageout, adviceCollapse))...)
	rules = append(rules, each(refuse, 0, madvise, []condition{is(2, adviceCold), is(2, advicePageout)})...)
	rules = append(rules, each(refuse, errnoINVAL, madvise, []condition{is(2, adviceCollapse)})...)
	rules = append(rules, each(allow, 0, vector, []condition{masked(5, flagNoWait|flagDontCache|flagsUnknown, 0)})...)
	return append(rules, each(refuse, errnoOPNOTSUPP, vector, []condition{
		masked(5, flagNoWait, flagNoWait), masked(5, flagDontCache, flagDontCache)})...)
}
