package process

// KillRuntime is what tests call of [Clear].
var KillRuntime = killRuntime
