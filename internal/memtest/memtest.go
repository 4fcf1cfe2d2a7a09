// Package memtest measures what the code under test does with memory. The size of
// a process does not show it: it includes what the collector has not come to yet,
// which depends on how busy the machine is.
package memtest

import "runtime"

// Kept returns how many bytes are in use, of all goroutines, once what nothing refers to
// has been collected.
func Kept() int64 {
	runtime.GC()
	runtime.GC() // what had a finalizer, or lay in a pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Allocated returns how many bytes were allocated while f ran, collected or not.
func Allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}
